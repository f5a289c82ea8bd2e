"""Compare a real model's float32 export with llama.cpp, and with itself. Run by hand.

    pip install llama-cpp-python gguf          (in an environment of its own)
    python -m tests.reference.check_real_gguf reference model.gguf values.npz [tokens]
    python -m tests.reference.check_real_gguf compare model.gguf values.npz

The first command dequantizes the file and runs llama.cpp in float32 on the first tokens of a text,
so that neither quantized activations nor a float16 cache take part. The second exports the file
itself at float32 and prints how far its logits are from llama.cpp's, and how far the last ones,
computed in one step, are from those computed token by token.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
_TOKENS = 700


def dequantized(source: Path, target: Path) -> None:
    """Write the file again with all tensors in float32."""
    import gguf

    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(target, architecture)
    for key, stored in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
            continue
        kind, *inner = stored.types
        writer.add_key_value(key, stored.contents(), kind, inner[-1] if inner else None)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, values.reshape([int(n) for n in tensor.shape[::-1]]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def reference(source: Path, values: Path, tokens: int) -> None:
    """llama.cpp's tokens of the text and their logits."""
    import llama_cpp

    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "float32.gguf"
        dequantized(source, whole)
        model = llama_cpp.Llama(
            str(whole), n_ctx=tokens, n_batch=tokens, n_ubatch=tokens, logits_all=True,
            type_k=0, type_v=0, flash_attn=False, verbose=False,
        )  # fmt: skip
        ids = model.tokenize(_PAGE.read_bytes())[:tokens]
        model.eval(ids)
        np.savez(values, ids=np.array(ids), logits=model.scores[: len(ids)])


def compare(source: Path, values: Path) -> None:
    """Print the differences."""
    from mrs.export.architectures.canonical_gguf import open_canonical_gguf
    from tests.export.test_parity_families import build

    stored = np.load(values)
    ids, expected = stored["ids"].tolist(), stored["logits"]
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = open_canonical_gguf(source)
        decoder = build(checkpoint, Path(folder), len(ids), capacity=2 * len(ids))
        found = decoder.one_by_one(ids)
        whole = decoder.prefill_last(ids)
    kl = _divergence(expected.astype(np.float64), found.astype(np.float64))
    print(f"{len(ids)} tokens; logits range over {np.ptp(expected):.2f}")
    print(f"largest difference to llama.cpp        {np.abs(found - expected).max():.2e}")
    print(f"KL divergence, mean and largest        {kl.mean():.1e} {kl.max():.1e}")
    print(f"same likeliest token                   {_agreement(found, expected):.4f}")
    print(f"token by token against one step, last  {np.abs(found[-1] - whole).max():.1e}")


def _divergence(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the distributions of each position, in nats."""
    p = p - np.logaddexp.reduce(p, -1, keepdims=True)
    q = q - np.logaddexp.reduce(q, -1, keepdims=True)
    divergence: NDArray[np.float64] = (np.exp(p) * (p - q)).sum(-1)
    return divergence


def _agreement(p: NDArray[np.float32], q: NDArray[np.float32]) -> float:
    return float((p.argmax(-1) == q.argmax(-1)).mean())


def main(command: str, source: str, values: str, tokens: str = str(_TOKENS)) -> None:
    if command == "reference":
        reference(Path(source), Path(values), int(tokens))
    else:
        compare(Path(source), Path(values))


if __name__ == "__main__":
    main(*sys.argv[1:])
