"""The search for 4-bit blocks against llama.cpp's quantizations of the same float32 matrices.

    python -m benchmarks.int4_search LIBRARY

LIBRARY is llama.cpp's ``libggml-base.so``, for instance that of the llama-cpp-python package.
Prints relative root mean square errors, plain and by the weights of the search, and weights a
second of processor time. `tests/export/quantization/test_int4_search.py` holds the search to these
figures.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable

import gguf
import numpy as np
from numpy.typing import NDArray

from mrs.export.quantization.int4_search import search_int4

Floats = NDArray[np.float32]

ROWS, COLUMNS = 512, 2048
TYPES = ("Q4_0", "Q4_1", "Q4_K", "Q5_K")


def matrices() -> dict[str, Floats]:
    normal = np.random.default_rng(0).normal(0, 0.03, (ROWS, COLUMNS))
    heavy = np.random.default_rng(0).standard_t(4, size=(256, COLUMNS)) * 0.03
    return {"normal": normal.astype(np.float32), "heavy-tailed": heavy.astype(np.float32)}


def llama_cpp(library: ctypes.CDLL, dtype: str) -> Callable[[Floats], Floats]:
    kind = gguf.GGMLQuantizationType[dtype]
    size, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    library.ggml_quantize_init(ctypes.c_int(kind))
    chunk = library.ggml_quantize_chunk
    chunk.restype = ctypes.c_size_t
    chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3]
    chunk.argtypes += [ctypes.c_void_p]

    def quantized(values: Floats) -> Floats:
        rows, columns = values.shape
        stored = np.empty((rows, columns // size * block_bytes), dtype=np.uint8)
        chunk(kind, values.ctypes.data, stored.ctypes.data, 0, rows, columns, None)
        found: Floats = gguf.quants.dequantize(stored, kind)
        return found

    return quantized


def errors(values: Floats, got: Floats) -> tuple[float, float]:
    blocks = values.reshape(-1, 32).astype(np.float64)
    squares = (blocks - got.reshape(-1, 32)) ** 2
    weights = np.abs(blocks) + np.sqrt((blocks**2).mean(axis=1, keepdims=True))
    plain = np.sqrt(squares.sum() / (blocks**2).sum())
    return float(plain), float(np.sqrt((weights * squares).sum() / (weights * blocks**2).sum()))


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    ways: dict[str, Callable[[Floats], Floats]] = {
        dtype: llama_cpp(library, dtype) for dtype in TYPES
    }
    ways["search"] = lambda values: search_int4(values).dequantize()
    ways["search without offsets"] = lambda values: search_int4(values, offsets=False).dequantize()
    for name, values in matrices().items():
        for way, quantized in ways.items():
            started = time.process_time()
            got = quantized(values)
            speed = values.size / (time.process_time() - started) / 1e6
            plain, weighted = errors(values, got)
            print(f"{name:13} {way:23} {plain:.5f} {weighted:.5f} {speed:7.1f} M/s")


if __name__ == "__main__":
    main()
