from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from mrs.errors import UsageError
from mrs.export.architectures.registry import decoder_spec
from mrs.export.calibration.calibrate import calibrate, read_calibration_text
from mrs.export.calibration.observed_formats import ObservedFormats
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.decoder import build_decoder
from mrs.export.graph.weight_file import WeightFile
from mrs.export.graph.weights import Weights
from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.export.quantization.importance import TensorImportance
from mrs.export.quantization.requested import QuantizationMap
from mrs.model_repo.repository import ModelRepository
from tests.export.gguf_files import write_llama
from tests.export.graph.decoders import tiny_llama

TEXT = "hello world, hello hello world! " * 40


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TensorImportance]:
    folder = tmp_path_factory.mktemp("calibration")
    return importance(folder, TEXT)


def importance(folder: Path, text: str) -> dict[str, TensorImportance]:
    formats = ObservedFormats(QuantizationMap("fp32"))
    with WeightFile(folder / "model.onnx.data") as weight_file:
        checkpoint = tiny_llama()
        weights = Weights(checkpoint, formats, GraphBuilder(weight_file))
        model = build_decoder(decoder_spec(checkpoint), weights)
    outputs = formats.observations.add_outputs(model)
    ir.save(model, folder / "model.onnx")
    request = ExportRequest(str(write_llama(folder / "tiny.gguf")), quant="fp32")
    version = export_model(request, ModelRepository(folder / "repo"), SilentProgress()).version
    return calibrate(
        folder / "model.onnx",
        outputs,
        version.path / "tokenizer.json",
        text,
        context_length=128,
        begin_token=None,
    )


def test_every_matrix_that_is_multiplied_is_observed(found: dict[str, TensorImportance]) -> None:
    parts = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    expected = {f"blk.{layer}.{part}.weight" for layer in range(2) for part in parts}
    assert found.keys() == expected | {"token_embd.weight"}  # Which is the head as well.


def test_each_column_has_an_importance(found: dict[str, TensorImportance]) -> None:
    assert found["blk.0.attn_q.weight"].values.shape == (1, 64)
    assert found["blk.0.ffn_down.weight"].values.shape == (1, 96)
    for each in found.values():
        assert np.isclose(each.values.mean(), 1, rtol=1e-3)


def test_tensors_that_meet_the_same_activations_are_alike(
    found: dict[str, TensorImportance],
) -> None:
    query, key = (found[f"blk.1.attn_{letter}.weight"].values for letter in "qk")
    np.testing.assert_array_equal(query, key)
    assert not np.array_equal(query, found["blk.0.attn_q.weight"].values)


def test_the_first_layer_sees_the_norm_of_the_embeddings(
    found: dict[str, TensorImportance], tmp_path: Path
) -> None:
    """Which depends on each token alone, so that it can be computed here."""
    from tokenizers import Tokenizer

    request = ExportRequest(str(write_llama(tmp_path / "tiny.gguf")), quant="fp32")
    version = export_model(request, ModelRepository(tmp_path / "repo"), SilentProgress()).version
    ids = Tokenizer.from_file(str(version.path / "tokenizer.json")).encode(TEXT).ids
    stored = tiny_llama().stored
    rows: NDArray[np.float64] = np.asarray(stored["token_embd.weight"])[ids].astype(np.float64)
    norm = np.asarray(stored["blk.0.attn_norm.weight"])
    normed = rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + 1e-5) * norm
    squares = (normed**2).sum(axis=0)
    expected = squares / squares.mean()
    np.testing.assert_allclose(found["blk.0.attn_q.weight"].values[0], expected, rtol=1e-3)


def test_a_text_without_tokens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be calibrated: the text has no two tokens"):
        importance(tmp_path, "h")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(UsageError, match="it is no UTF-8 text"):
        read_calibration_text(tmp_path / "text")
    with pytest.raises(UsageError, match="No such file"):
        read_calibration_text(tmp_path / "missing")
