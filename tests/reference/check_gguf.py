"""Compare llama.cpp with transformers on the tiny models' GGUF files. Run by hand.

    pip install llama-cpp-python
    python -m tests.reference.check_gguf [name or start of names ...]

It shows that `tests.reference.gguf_form` writes what llama.cpp reads: that the conventions of GGUF
files, against which mrs is tested, are llama.cpp's own. Prints for each case the largest difference
of logits and their range. llama.cpp rounds a little on its way (its GELU is a table of float16).
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
from pathlib import Path

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from tests.reference.families import CASES
from tests.reference.gguf_form import write_gguf_form
from tests.reference.tiny_model import VOCABULARY, Reference

_ERROR = 4  # ggml_log_level


def logits(path: Path, tokens: list[int]) -> NDArray[np.float32]:
    """llama.cpp's logits of every position."""
    parameters = llama_cpp.llama_model_default_params()
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
    if model is None:
        raise SystemExit(f"llama.cpp does not load {path}")
    context = _context(model, len(tokens))
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for place, token in enumerate(tokens):
        batch.token[place], batch.pos[place] = token, place
        batch.n_seq_id[place], batch.seq_id[place][0], batch.logits[place] = 1, 0, True
    if llama_cpp.llama_decode(context, batch):
        raise SystemExit(f"llama.cpp does not run {path}")
    size = len(tokens) * VOCABULARY
    found = np.ctypeslib.as_array(llama_cpp.llama_get_logits(context), (size,)).copy()
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return found.reshape(len(tokens), VOCABULARY)


def _context(model: ctypes.c_void_p, tokens: int) -> ctypes.c_void_p:
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = tokens
    parameters.type_k = parameters.type_v = llama_cpp.GGML_TYPE_F32
    parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return llama_cpp.llama_init_from_model(model, parameters)


def main(names: list[str]) -> None:
    llama_cpp.llama_log_set(_log, ctypes.c_void_p())
    for case in CASES:
        if not case.gguf or (names and not any(case.name.startswith(name) for name in names)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = logits(write_gguf_form(case, Path(folder)), case.prompt())
            except SystemExit as error:  # llama.cpp knows some variants by their size alone.
                print(f"{case.name:24} {error}", flush=True)
                continue
        expected = Reference.load(case).logits
        difference = np.abs(found - expected).max()
        print(f"{case.name:24} {difference:9.6f} of {np.ptp(expected):8.3f}", flush=True)


@llama_cpp.llama_log_callback
def _log(level: int, text: bytes, _data: ctypes.c_void_p) -> None:
    if level == _ERROR:
        print(text.decode(errors="replace"), end="", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
