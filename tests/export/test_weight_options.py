"""The options for weights, from the request to the lock."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from mrs.errors import UsageError
from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.export.weight_options import weight_options
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from tests import tiny_embedder
from tests.export.gguf_files import LlamaSize, llama_weights, write_llama
from tests.export.quantization.test_imatrix import legacy

# Large enough for offset columns in attention and MLP.
SIZE = LlamaSize(hidden=768, heads=8, kv_heads=4, feed_forward=768, layers=1)
DOWN = "blk.0.ffn_down.weight"


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("gguf") / "tiny.gguf", size=SIZE, dtype="F16")


def export(gguf: Path, repo: Path, quant: str = "q4", **options: object) -> ModelVersion:
    request = ExportRequest(str(gguf), quant=quant, **options)  # type: ignore[arg-type]
    return export_model(request, ModelRepository(repo), SilentProgress()).version


def weight_bytes(version: ModelVersion) -> bytes:
    return (version.path / "cpu" / "model.onnx.data").read_bytes()


def imatrix(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    entries = {
        name: np.square(rng.uniform(0, 9, weight.shape[-1]), dtype=np.float64).astype(np.float32)
        for name, weight in llama_weights(SIZE).items()
        if weight.ndim == 2
    }
    path = folder / "imatrix.dat"
    path.write_bytes(legacy(entries))
    return path


def test_q4_is_recorded_and_smaller(tmp_path: Path, gguf: Path) -> None:
    four, eight = (export(gguf, tmp_path / quant, quant) for quant in ("q4", "q8"))
    assert four.lock.quantization[DOWN].stored_as == "int4-block32+offset-columns"
    assert not four.lock.quantization[DOWN].exact
    assert len(weight_bytes(four)) < 0.8 * len(weight_bytes(eight))


def test_patterns_reach_their_tensors_and_the_lock(tmp_path: Path, gguf: Path) -> None:
    version = export(gguf, tmp_path, quant_map=("*.ffn_down.weight=fp32", "*attn*=q8"))
    stored = {name: each.stored_as for name, each in version.lock.quantization.items()}
    assert stored[DOWN] == "float32"
    assert stored["blk.0.attn_q.weight"] == "int8-block32"
    assert stored["blk.0.ffn_up.weight"] == "int4-block32+offset-columns"
    assert version.lock.inputs.options == {
        "quant": "q4",
        "quant_map": "*.ffn_down.weight=fp32,*attn*=q8",
    }


def test_a_pattern_that_matches_nothing_leaves_nothing_behind(tmp_path: Path, gguf: Path) -> None:
    with pytest.raises(UsageError, match=r"matches no matrix.*blk\.0\.ffn_down\.weight"):
        export(gguf, tmp_path / "repo", quant_map=("blk.9.ffn_down.weight=q8",))
    assert not list((tmp_path / "repo").glob("*/1"))


def test_an_importance_matrix_changes_weights_and_is_an_input(tmp_path: Path, gguf: Path) -> None:
    path = imatrix(tmp_path)
    plain, guided = export(gguf, tmp_path / "a"), export(gguf, tmp_path / "b", imatrix=path)
    assert weight_bytes(plain) != weight_bytes(guided)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert guided.lock.inputs.options == {"quant": "q4", "imatrix": f"sha256:{digest}"}


def test_a_calibration_text_changes_weights_and_is_an_input(tmp_path: Path, gguf: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("hello world, hello! " * 20)
    plain = export(gguf, tmp_path / "a")
    guided = export(gguf, tmp_path / "b", calibration_file=path)
    assert weight_bytes(plain) != weight_bytes(guided)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert guided.lock.inputs.options == {"quant": "q4", "calibration_file": f"sha256:{digest}"}
    assert not list((tmp_path / "b").rglob("calibration"))


def test_a_locked_export_has_the_recorded_patterns(tmp_path: Path, gguf: Path) -> None:
    first = export(gguf, tmp_path, quant_map=("*attn*=q8",))
    assert export(gguf, tmp_path, "auto", locked=True).reference == first.reference


# --- options that contradict one another ----------------------------------------------------------


def test_importance_can_be_given_once() -> None:
    with pytest.raises(UsageError, match="both say which weights are important"):
        weight_options("q4", (), Path("a"), Path("b"))


@pytest.mark.parametrize("option", ["imatrix", "calibration_file"])
def test_importance_needs_a_search(option: str) -> None:
    with pytest.raises(UsageError, match="--quant q8 has none"):
        weight_options("q8", (), **{option: Path("a")})
    weight_options("q8", ["*.ffn_down.weight=q4"], **{option: Path("a")})


def test_a_file_that_is_missing_is_named() -> None:
    with pytest.raises(UsageError, match="Cannot read missing"):
        weight_options("q4", imatrix=Path("missing")).recorded()


def test_auto_rounds_by_channel_in_what_reads_whole_texts_and_in_blocks_elsewhere(
    tmp_path: Path, gguf: Path
) -> None:
    folder = tiny_embedder.write_folder(tmp_path / "model")
    encoder, decoder = (export(source, tmp_path / "repo", "auto") for source in (folder, gguf))
    name = "blk.0.ffn_up.weight"
    stored = [version.lock.quantization[name].stored_as for version in (encoder, decoder)]
    assert stored == ["int8-channel", "int8-block32"]
