from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from mrs.export.graph.builder import CONTRIB_DOMAIN
from mrs.processor import Processor, read_processor

HASWELL = "fpu sse4_2 avx fma avx2 bmi2"
SKYLAKE_SERVER = HASWELL + " avx512f avx512bw avx512vl"


@pytest.mark.parametrize(
    ("line", "overflow"),
    [
        (f"flags : {HASWELL}", True),
        (f"flags : {SKYLAKE_SERVER}", True),
        (f"flags : {SKYLAKE_SERVER} avx512_vnni", False),
        (f"flags : {HASWELL} avx_vnni", False),
        ("Features : fp asimd asimddp i8mm", False),
        ("", False),
    ],
)
def test_sums_of_byte_products_overflow_on_x86_without_vnni(
    tmp_path: Path, line: str, overflow: bool
) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor : 0\n{line}\n")
    processor = read_processor(file)
    assert processor.byte_products_overflow is overflow
    assert bool(processor.session_entries) is overflow


@pytest.mark.skipif("avx2" not in read_processor().flags, reason="other kernels")
def test_onnx_runtime_takes_other_kernels_for_the_products_of_w8a8(tmp_path: Path) -> None:
    """It shifts the weights to unsigned bytes for those; the results are the same where both are
    exact."""
    codes = np.random.default_rng(0).integers(-127, 128, (64, 32), dtype=np.int8)
    x = np.random.default_rng(1).integers(0, 256, (3, 64), dtype=np.uint8)
    graph = product_of_bytes(codes)
    exact = onnxruntime.SessionOptions()
    for entry, value in Processor("", frozenset({"avx2"}), cores=1).session_entries.items():
        exact.add_session_config_entry(entry, value)
    exact.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    exact.log_severity_level = 3
    session = onnxruntime.InferenceSession(graph, exact, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(got, (x.astype(np.int64) - 128) @ codes.astype(np.int64))
    optimized = onnx.load(tmp_path / "optimized.onnx").graph.initializer
    types = {value.data_type for value in optimized if list(value.dims) == [64, 32]}
    assert types == {onnx.TensorProto.UINT8}


def product_of_bytes(codes: NDArray[np.int8]) -> bytes:
    constants = {
        "codes": codes,
        "one": np.float32(1),
        "scales": np.ones(codes.shape[1], np.float32),
        "zero": np.uint8(128),
    }
    node = helper.make_node(
        "MatMulIntegerToFloat",
        ["x", "codes", "one", "scales", "zero"],
        ["y"],
        domain=CONTRIB_DOMAIN,
    )
    graph = helper.make_graph(
        [node], "product",
        [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [None, codes.shape[0]])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None, codes.shape[1]])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(CONTRIB_DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    found: bytes = model.SerializeToString()
    return found


def test_a_file_of_something_else_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_bytes(b"\xff\x00: :\n\n:::\n")
    found = read_processor(file)
    assert found.name
    assert not found.flags
    assert found.cores >= 1
