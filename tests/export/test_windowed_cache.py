"""Layers with a window keep the window alone, and nobody can tell from the logits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import psutil
import pytest

from mrs.export.architectures.context_length import at_context
from mrs.export.architectures.huggingface import open_huggingface
from mrs.export.architectures.registry import decoder_spec
from mrs.export.architectures.spec import DecoderSpec
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.decoder import build_decoder
from mrs.export.graph.int8_cache import SCALES_FILE, use_int8_cache
from mrs.export.graph.matrix_formats import matrix_format
from mrs.export.graph.weight_file import WeightFile
from mrs.export.graph.weights import Weights
from mrs.export.parity.graph_runner import GraphRunner
from mrs.runtime.decoder import Decoder
from mrs.runtime.generation import SamplingParams
from mrs.runtime.kv_cache import KVCache
from mrs.runtime.kv_cache_shape import KVCacheShape, KVCacheType
from mrs.runtime.sequence import Sequence
from mrs.runtime.session_pool import SessionKey, open_session
from mrs.runtime.step import Row, Step
from tests.reference.families import CASES

BY_NAME = {case.name: case for case in CASES}
NAMES = ("gemma2-caps", "gpt-oss", "mistral-window", "olmo3-window")
"""With capped scores, with sinks, in all layers, and in some."""
CONTEXT, CHUNK, SLOTS = 900, 64, 3
KINDS = [
    *((name, KVCacheType.FP32) for name in NAMES),
    *((name, KVCacheType.INT8) for name in NAMES[:2]),
]


@dataclass(frozen=True)
class Pair:
    """One graph over two caches: one drops what has left the windows, one keeps everything."""

    windowed: Decoder
    whole: Decoder
    cache: KVCache
    vocab_size: int

    @property
    def tolerance(self) -> float:
        """Sums in another order differ in their last bits: some number is rounded to another step.

        Which is no error, but much larger than the bits.
        """
        return 2e-5 if self.cache.shape.type is KVCacheType.FP32 else 0.02

    def sequence(self, seed: int) -> Sequence:
        tokens = np.random.default_rng(seed).integers(0, self.vocab_size, CONTEXT)
        return Sequence(tuple(map(int, tokens)), SamplingParams(), 0, CONTEXT)

    def compare(self, step: Step) -> None:
        found, expected = self.windowed.run(step).copy(), self.whole.run(step)
        assert np.abs(found - expected).max() <= self.tolerance * max(1.0, float(np.ptp(expected)))

    def prefill(self, sequence: Sequence, slot: int, length: int, start: int = 0) -> None:
        for past in range(start, length, CHUNK):
            row = Row(sequence, past, min(CHUNK, length - past), draws=True)
            self.compare(Step(slot, (row,)))


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    name, type = request.param
    folder = tmp_path_factory.mktemp(name)
    spec = build(name, folder, type)
    sizes = (spec.num_layers, SLOTS, spec.num_kv_heads, CONTEXT + CHUNK, spec.head_dim)
    session = open_session(SessionKey(folder / "model.onnx", threads=1))
    caches = [KVCache(KVCacheShape(*sizes, windows, type)) for windows in (spec.windows, ())]
    windowed, whole = (Decoder(session, cache, spec.vocab_size) for cache in caches)
    return Pair(windowed, whole, caches[0], spec.vocab_size)


def build(name: str, folder: Path, type: KVCacheType) -> DecoderSpec:
    checkpoint = open_huggingface(BY_NAME[name].write(folder))
    spec = at_context(decoder_spec(checkpoint), CONTEXT)
    assert isinstance(spec, DecoderSpec)
    with WeightFile(folder / "model.onnx.data") as weight_file:
        weights = Weights(checkpoint, matrix_format("fp32"), GraphBuilder(weight_file))
        model = build_decoder(spec, weights)
    if type is KVCacheType.INT8:
        use_int8_cache(model)
        channels = 2 * spec.num_layers * spec.num_kv_heads * spec.head_dim
        (folder / SCALES_FILE).write_bytes(np.full(channels, 0.02, np.float32).tobytes())
    ir.save(model, folder / "model.onnx")
    return spec


def test_the_windows_move_in_these_tests(pair: Pair) -> None:
    layers = [layer for layer in pair.cache.shape.layers if layer.window is not None]
    assert layers
    assert all(layer.first_kept(CONTEXT) > 0 for layer in layers)


@pytest.mark.parametrize("seed", range(2))
def test_rows_of_any_lengths_get_the_logits_of_a_cache_that_keeps_everything(
    pair: Pair, seed: int
) -> None:
    """Whole chunks, single tokens and idle rows in one step, until the windows moved twice."""
    rng = np.random.default_rng(seed)
    sequences = [pair.sequence(10 * seed + slot) for slot in range(SLOTS)]
    past = [0] * SLOTS
    while min(past) < CONTEXT:
        new = [
            min(int(rng.choice([0, 1, CHUNK // 3, CHUNK - 1, CHUNK])), CONTEXT - held)
            for held in past
        ]
        rows = [
            Row(sequence, held, count, draws=bool(count))
            for sequence, held, count in zip(sequences, past, new, strict=True)
        ]
        if any(new):
            pair.compare(Step(0, tuple(rows)))
        past = [held + count for held, count in zip(past, new, strict=True)]


def test_a_copied_row_goes_on_as_the_one_that_it_was_copied_from(pair: Pair) -> None:
    """At all lengths that it can be cut to, and that are not its own beginning alone."""
    sequence, held = pair.sequence(1), 700
    pair.prefill(sequence, 0, held)
    lengths = [length for length in range(1, held + 1) if pair.cache.shape.can_reuse(held, length)]
    for length in (lengths[0], lengths[len(lengths) // 2], held):
        for decoder in (pair.windowed, pair.whole):
            decoder._cache.copy(0, 2, length)
        pair.prefill(sequence, 2, CONTEXT, start=length)


def test_a_moved_row_goes_on(pair: Pair) -> None:
    sequence = pair.sequence(2)
    pair.prefill(sequence, 2, 800)
    for decoder in (pair.windowed, pair.whole):
        decoder._cache.move(2, 1, 800)
    pair.prefill(sequence, 1, CONTEXT, start=800)


def test_a_row_that_is_cut_where_it_is_goes_on_otherwise(pair: Pair) -> None:
    held = 700
    pair.prefill(pair.sequence(3), 0, held)
    length = next(n for n in range(held) if pair.cache.shape.can_reuse(held, n))
    other = pair.sequence(4)
    mixed = Sequence(
        pair.sequence(3).prompt_ids[:length] + other.prompt_ids[length:],
        SamplingParams(), 0, CONTEXT,
    )  # fmt: skip
    pair.prefill(mixed, 0, CONTEXT, start=length)


def test_a_row_that_cannot_be_cut_so_far_has_lost_what_would_be_seen(pair: Pair) -> None:
    """That refusing it is no mere caution."""
    sequence, held, length = pair.sequence(5), 700, 150
    pair.prefill(sequence, 0, held)
    assert not pair.cache.shape.can_reuse(held, length)
    row = Row(sequence, length, 1, draws=True)
    found, expected = (
        decoder.run(Step(0, (row,))).copy() for decoder in (pair.windowed, pair.whole)
    )
    assert np.abs(found - expected).max() > 0.05


def test_a_long_row_commits_what_the_shape_says() -> None:
    process = psutil.Process()
    shape = KVCacheShape(4, 1, 4, 16_384, 64, windows=(512, 512, 512, None))
    cache = KVCache(shape)
    before = process.memory_info().rss
    for layer in range(4):
        cache.slot_view(layer, 0)[...] = 1.0
    grown = process.memory_info().rss - before
    assert abs(grown - shape.committed_bytes(16_384)) < shape.committed_bytes(16_384) // 20
    assert grown < 0.3 * KVCacheShape(4, 1, 4, 16_384, 64).committed_bytes(16_384)


@pytest.fixture(autouse=True)
def _clean(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "pair" in request.fixturenames:
        found: Pair = request.getfixturevalue("pair")
        for decoder in (found.windowed, found.whole):
            for slot in range(SLOTS):
                decoder._cache.release(slot)


def test_a_graph_tells_the_windows_of_its_layers(tmp_path: Path) -> None:
    spec = build("olmo3-window", tmp_path, KVCacheType.FP32)
    assert spec.windows == (12, 12, 12, None, 12)
    graph = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph
    capacities = [
        value.type.tensor_type.shape.dim[2].dim_param
        for value in graph.input
        if value.name.endswith(".key")
    ]
    windowed = "capacity_of_window_12"
    assert capacities == [windowed, windowed, windowed, "capacity", windowed]


def test_measuring_a_text_shorter_than_the_window(tmp_path: Path) -> None:
    """The operator refuses a cache below the window, even where no text comes to it."""
    build("mistral-window", tmp_path, KVCacheType.FP32)
    tokens = np.arange(6)
    short, long = (
        GraphRunner(tmp_path / "model.onnx", capacity=capacity, threads=1).run(tokens, 0, 0)
        for capacity in (6, 100)
    )
    np.testing.assert_allclose(short, long, rtol=0, atol=1e-5)
