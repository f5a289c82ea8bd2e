"""Compare llama.cpp with sentence-transformers on the tiny models' GGUF files. Run by hand.

    pip install llama-cpp-python
    python -m tests.reference.check_gguf_embeddings [name or start of names ...]

It shows that `tests.reference.gguf_embedding_form` writes what llama.cpp reads. Prints for each
case the smallest cosine similarity of a vector, and the largest difference. llama.cpp takes the
approximation of GELU for every encoder, as a table of float16.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from tests.reference.embedding_cases import CASES
from tests.reference.gguf_embedding_form import write_gguf_embedding, write_gguf_reranker
from tests.reference.tiny_embedding import EmbeddingReference
from tests.reference.tiny_reranker import CASES as RERANKERS
from tests.reference.tiny_reranker import RerankerReference

_ERROR = 4  # ggml_log_level


def embeddings(path: Path, texts: list[list[int]]) -> NDArray[np.float32]:
    """llama.cpp's vectors, normalised as its programs do."""
    found = _run(path, texts, None)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def _run(path: Path, texts: list[list[int]], size: int | None) -> NDArray[np.float32]:
    """What llama.cpp pools, of the model's width unless ``size`` says otherwise."""
    parameters = llama_cpp.llama_model_default_params()
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
    if model is None:
        raise SystemExit(f"llama.cpp does not load {path}")
    size = size or int(llama_cpp.llama_model_n_embd(model))
    vectors = [_vector(model, tokens, size) for tokens in texts]
    llama_cpp.llama_model_free(model)
    return np.stack(vectors)


def _vector(model: llama_cpp.llama_model_p, tokens: list[int], size: int) -> NDArray[np.float32]:
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = max(len(tokens), 8)
    parameters.embeddings = True
    parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    parameters.type_k = parameters.type_v = llama_cpp.GGML_TYPE_F32
    context = llama_cpp.llama_init_from_model(model, parameters)
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for place, token in enumerate(tokens):
        batch.token[place], batch.pos[place] = token, place
        batch.n_seq_id[place], batch.seq_id[place][0], batch.logits[place] = 1, 0, True
    if llama_cpp.llama_decode(context, batch):
        raise SystemExit("llama.cpp does not run the model")
    found = llama_cpp.llama_get_embeddings_seq(context, 0)
    vector = np.ctypeslib.as_array(found, (size,)).copy()
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    return vector


@llama_cpp.llama_log_callback
def _quiet(level: int, text: bytes, _data: object) -> None:
    if level == _ERROR:  # what comes above it continues other lines
        sys.stderr.write(text.decode("utf-8", "replace"))


def main(names: list[str]) -> None:
    llama_cpp.llama_log_set(_quiet, None)
    for case in CASES:
        if case.gguf is None or (names and not any(case.name.startswith(name) for name in names)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = embeddings(write_gguf_embedding(case, Path(folder)), case.texts())
        expected = EmbeddingReference.load(case).embeddings
        cosines = (found * expected).sum(axis=1)
        print(f"{case.name:24} cosine {cosines.min():.6f}  {np.abs(found - expected).max():.6f}")
    for reranker in RERANKERS:
        if reranker.name != "xlm-roberta" or (names and reranker.name not in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = write_gguf_reranker(reranker, Path(folder))
            logits = _run(path, [ids for ids, _ in reranker.rows()], 1)[:, 0]
        wanted = RerankerReference.load(reranker).logits
        print(f"{reranker.name:24} logits {np.abs(logits - wanted).max():.6f}")


if __name__ == "__main__":
    main(sys.argv[1:])
