"""Scales of the 8-bit cache: what keys come to further on, and what is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrs.export.calibration.cache_scales import largest_keys, write_cache_scales
from mrs.export.graph.int8_cache import rotation_frequencies
from mrs.export.locked import artifact_differences
from mrs.export.parity.graph_runner import GraphRunner
from mrs.export.parity.text import tokenize_text
from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.model_repo.lock import CACHE_SCALES_PATH
from mrs.model_repo.lock_file import artifact_digest
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from tests.export.gguf_files import write_llama
from tests.export.graph.decoders import SIZE, build, tiny_llama


@pytest.mark.parametrize("context", [1, 2, 50, 400])
def test_keys_are_as_large_as_rotating_them_to_every_position_makes_them(context: int) -> None:
    rng = np.random.default_rng(context)
    frequencies = np.array([1.0, 0.1, 0.01, 0.001, 0.0])
    tokens = min(context, 20)
    plain = rng.normal(size=(2, tokens, 12))

    def rotated(positions: np.ndarray) -> np.ndarray:
        angles = np.broadcast_to(positions[:, np.newaxis] * frequencies, (tokens, 5))
        turned = (plain[..., :5] + 1j * plain[..., 5:10]) * np.exp(1j * angles)
        return np.concatenate([turned.real, turned.imag, plain[..., 10:]], axis=-1)

    everywhere = [np.abs(rotated(np.full(tokens, at))) for at in np.linspace(0, context - 1, 4000)]
    expected = np.max(everywhere, axis=0).max(axis=1)
    keys = rotated(np.arange(tokens)).astype(np.float32)
    found = largest_keys(keys, frequencies, context)
    # A grid misses the very top by little.
    np.testing.assert_allclose(found, expected, rtol=0.006, atol=0.003)
    assert (found >= expected - 1e-5).all()


def test_frequencies_are_those_of_the_rotary_embedding(tmp_path: Path) -> None:
    frequencies = rotation_frequencies(build(tiny_llama(), tmp_path).path)
    dims = SIZE.head_dim
    expected = 10000.0 ** (-np.arange(0, dims, 2) / dims)
    assert len(frequencies) == SIZE.layers
    for each in frequencies:
        np.testing.assert_allclose(each[: dims // 2], expected, rtol=1e-6)


def test_what_the_text_gives_fits_127_steps(tmp_path: Path) -> None:
    version = export_tiny(tmp_path)
    scales = np.fromfile(version.path / "cpu" / "kv_scales.data", dtype=np.float32)
    scales = scales.reshape(SIZE.layers, 2, SIZE.kv_heads, SIZE.head_dim)
    octaves = np.log2(scales.astype(np.float64)) * 8
    np.testing.assert_allclose(octaves, np.round(octaves), atol=1e-4)
    runner = GraphRunner(version.graph_path, capacity=128, threads=1)
    text = tokenize_text(version.tokenizer_path, context_length=128, begin_token=None)
    for window in text.windows:
        runner.run(window, 0, 0)
        for layer, cached in enumerate(runner.cached(len(window))):
            for which, numbers in enumerate(cached):
                steps = np.abs(numbers).max(axis=1) / scales[layer, which]
                assert steps.max() <= 127.001


def test_nothing_is_written_where_keys_are_not_finite(tmp_path: Path) -> None:
    version = export_tiny(tmp_path)
    weights = version.path / "cpu" / "model.onnx.data"
    weights.write_bytes(np.full(weights.stat().st_size // 4, np.nan, np.float32).tobytes())
    path = tmp_path / "scales"
    reason = write_cache_scales(
        path, version.graph_path, version.tokenizer_path, context_length=128, begin_token=None
    )
    assert reason == "keys or values of the text are not finite"
    assert not path.exists()


def test_the_identity_of_an_artifact_does_not_depend_on_what_was_measured(tmp_path: Path) -> None:
    lock = export_tiny(tmp_path).lock
    other = [
        file.model_copy(update={"sha256": "0" * 64}) if file.path == CACHE_SCALES_PATH else file
        for file in lock.files
    ]
    assert other != list(lock.files)
    measured = lock.model_copy(update={"files": tuple(other), "int8_cache": None})
    assert artifact_digest(measured) == artifact_digest(lock)
    assert [*artifact_differences(lock, measured)] == []
    without = lock.model_copy(update={"files": lock.files[1:]})
    assert artifact_digest(without) != artifact_digest(lock)


def export_tiny(folder: Path) -> ModelVersion:
    source = str(write_llama(folder / "tiny.gguf"))
    request = ExportRequest(source, quant="fp32", int8_cache=True)
    return export_model(request, ModelRepository(folder / "repo"), SilentProgress()).version
