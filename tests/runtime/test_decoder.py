"""Steps on a tiny model: whatever shares a step, each row gets the logits of its tokens alone."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mrs.model_repo.version import ModelVersion
from mrs.runtime.admission import EngineModel
from mrs.runtime.decoder import MOST_BINDINGS, Decoder
from mrs.runtime.detokenizer import Detokenizer
from mrs.runtime.engine import Engine
from mrs.runtime.generation import GenerationRequest, SamplingParams
from mrs.runtime.kv_cache import KVCache, KVCacheShape
from mrs.runtime.scheduler import Scheduler, SchedulerConfig
from mrs.runtime.sequence import Sequence
from mrs.runtime.session_pool import SessionKey, open_session
from mrs.runtime.step import Row, Step
from mrs.runtime.ticket import Published, Ticket
from mrs.runtime.tokenizer import Tokenizer
from mrs.runtime.version_cache import cache_shape
from tests.decoding import DirectDecoder

SLOTS = 5
CHUNK = 32
TOLERANCE = {"rtol": 0, "atol": 1e-4}


class Bench:
    """A decoder with slots, and the same model alone to compare with."""

    def __init__(self, version: ModelVersion) -> None:
        facts = version.lock.model
        self.context = facts.context_length
        self.vocab = facts.vocab_size
        self.cache = KVCache(
            KVCacheShape(
                facts.num_layers, SLOTS, facts.num_kv_heads, self.context + CHUNK, facts.head_dim
            )
        )
        session = open_session(SessionKey(version.graph_path, threads=2))
        self.decoder = Decoder(session, self.cache, self.vocab)
        self._alone = DirectDecoder(version.graph_path, facts, capacity=self.context + CHUNK)
        self._expected: dict[tuple[int, ...], NDArray[np.float32]] = {}

    def prompt(self, seed: int, length: int) -> Sequence:
        tokens = np.random.default_rng(seed).integers(0, self.vocab, length)
        return Sequence(tuple(map(int, tokens)), SamplingParams(), 0, self.context)

    def alone(self, sequence: Sequence) -> NDArray[np.float32]:
        """Logits after each token of the prompt, token by token with one slot."""
        tokens = sequence.prompt_ids
        if tokens not in self._expected:
            self._expected[tokens] = self._alone.one_by_one(tokens)
        return self._expected[tokens]

    def greedy_alone(self, prompt: tuple[int, ...], count: int) -> list[int]:
        return self._alone.greedy(prompt, count)

    def compute(self, slot: int, sequence: Sequence, count: int) -> None:
        """Bring a sequence's first tokens into the cache."""
        if count:
            self.decoder.run(Step(slot, (Row(sequence, 0, count, draws=False),)))
            sequence.num_computed = count


@pytest.fixture(scope="module")
def bench(tiny: ModelVersion) -> Bench:
    return Bench(tiny)


@pytest.fixture(autouse=True)
def _clean(bench: Bench) -> Iterator[None]:
    yield
    for slot in range(SLOTS):
        bench.cache.release(slot)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 2**32))
def test_rows_of_any_lengths_get_the_logits_of_their_tokens_alone(bench: Bench, seed: int) -> None:
    """Any run of slots, some empty, some idle, each with another past and another number of new."""
    rng = random.Random(seed)
    first = rng.randrange(SLOTS)
    count = rng.randint(1, SLOTS - first)
    rows: list[Row | None] = []
    for slot in range(first, first + count):
        sequence = bench.prompt(rng.randrange(20), bench.context)
        past = rng.choice([0, 1, rng.randrange(bench.context)])
        new = rng.choice([0, 1, rng.randint(1, CHUNK)])
        new = min(new, bench.context - past)
        bench.compute(slot, sequence, past)
        draws = bool(new) and rng.random() < 0.8
        rows.append(None if rng.random() < 0.2 else Row(sequence, past, new, draws))
    step = Step(first, tuple(rows))
    if not any(step.active):
        return
    held = [_cached(bench, first + i, row) for i, row in enumerate(rows)]
    logits = bench.decoder.run(step)
    drawing = [row for row in step.active if row.draws]
    assert len(logits) == len(drawing)
    for row, ours in zip(drawing, logits, strict=True):
        expected = bench.alone(row.sequence)[row.past + row.new - 1]
        np.testing.assert_allclose(ours, expected, **TOLERANCE)
    for index, (row, before) in enumerate(zip(rows, held, strict=True)):
        np.testing.assert_array_equal(_cached(bench, first + index, row), before)


def _cached(bench: Bench, slot: int, row: Row | None) -> NDArray[np.float32]:
    """A copy of what a slot holds of the past of its row."""
    past = 0 if row is None else row.past
    return np.stack([bench.cache.slot_view(layer, slot)[:, :, :past] for layer in range(2)])


@pytest.mark.parametrize("count", range(1, SLOTS + 1))
def test_a_decode_of_any_batch_size(bench: Bench, count: int) -> None:
    rows = []
    for slot in range(count):
        sequence = bench.prompt(slot, bench.context)
        bench.compute(slot, sequence, 3 + 7 * slot)
        rows.append(Row(sequence, 3 + 7 * slot, 1, draws=True))
    logits = bench.decoder.run(Step(0, tuple(rows)))
    for row, ours in zip(rows, logits, strict=True):
        np.testing.assert_allclose(ours, bench.alone(row.sequence)[row.past], **TOLERANCE)


def test_the_last_position_of_the_context(bench: Bench) -> None:
    sequence = bench.prompt(0, bench.context)
    bench.compute(0, sequence, bench.context - 1)
    (logits,) = bench.decoder.run(Step(0, (Row(sequence, bench.context - 1, 1, draws=True),)))
    np.testing.assert_allclose(logits, bench.alone(sequence)[-1], **TOLERANCE)


def test_a_padded_row_at_the_end_of_the_context(bench: Bench) -> None:
    """Its padding reaches beyond the context, into the room that the cache has for it."""
    full, fresh = bench.prompt(0, bench.context), bench.prompt(1, bench.context)
    bench.compute(0, full, bench.context - 1)
    rows = (Row(full, bench.context - 1, 1, draws=True), Row(fresh, 0, CHUNK, draws=True))
    last, first = bench.decoder.run(Step(0, rows))
    np.testing.assert_allclose(last, bench.alone(full)[-1], **TOLERANCE)
    np.testing.assert_allclose(first, bench.alone(fresh)[CHUNK - 1], **TOLERANCE)


def test_what_is_left_of_others_in_a_slot_is_never_read(bench: Bench) -> None:
    for layer in range(2):
        for slot in range(SLOTS):
            bench.cache.slot_view(layer, slot)[...] = np.nan
    one, other = bench.prompt(0, bench.context), bench.prompt(1, bench.context)
    for past in range(0, 40, 10):
        rows = (None, Row(one, past, 10, draws=True), Row(other, past, 10, draws=True))
        for row, ours in zip(rows[1:], bench.decoder.run(Step(0, rows)), strict=True):
            assert row is not None
            np.testing.assert_allclose(ours, bench.alone(row.sequence)[past + 9], **TOLERANCE)


def test_a_moved_sequence_goes_on_as_before(bench: Bench) -> None:
    sequence = bench.prompt(0, bench.context)
    bench.compute(4, sequence, 20)
    bench.cache.move(4, 1, 20)
    (logits,) = bench.decoder.run(Step(1, (Row(sequence, 20, 5, draws=True),)))
    np.testing.assert_allclose(logits, bench.alone(sequence)[24], **TOLERANCE)


def test_bindings_are_kept_but_not_without_bound(tiny: ModelVersion) -> None:
    facts = tiny.lock.model
    slots = MOST_BINDINGS + 10
    cache = KVCache(KVCacheShape(facts.num_layers, slots, facts.num_kv_heads, 64, facts.head_dim))
    session = open_session(SessionKey(tiny.graph_path, threads=1))
    decoder = Decoder(session, cache, facts.vocab_size)
    sequence = Sequence((1, 2), SamplingParams(), 0, 64)
    row = Row(sequence, 0, 2, draws=True)
    expected = decoder.run(Step(0, (row,))).copy()
    for slot in range(slots):
        np.testing.assert_allclose(decoder.run(Step(slot, (row,))), expected, **TOLERANCE)
    assert len(decoder._bindings) == MOST_BINDINGS
    kept = dict(decoder._bindings)
    decoder.run(Step(slots - 1, (row,)))
    assert decoder._bindings == kept


def test_spare_slots_need_no_room_for_logits(
    tiny: ModelVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrs.runtime.decoder._LOGITS_BYTES", 0)
    session = open_session(SessionKey(tiny.graph_path, threads=1))
    cache = KVCache(cache_shape(tiny, 3, 64, spare=5))
    assert cache.shape.slots == 8
    assert Decoder(session, cache, tiny.lock.model.vocab_size).max_logits == 3


def test_an_interrupted_step_raises_and_the_next_one_does_not(bench: Bench) -> None:
    sequence = bench.prompt(0, bench.context)
    row = Row(sequence, 0, 20, draws=True)
    bench.decoder.interrupt()
    with pytest.raises(RuntimeError, match="terminate"):
        bench.decoder.run(Step(0, (row,)))
    (logits,) = bench.decoder.run(Step(0, (row,)))
    np.testing.assert_allclose(logits, bench.alone(sequence)[19], **TOLERANCE)


def test_several_positions_of_a_row_may_be_wanted(bench: Bench) -> None:
    """With others beside it that want one, or none; the first of all, and all of a chunk."""
    rows = [
        Row(bench.prompt(1, bench.context), 0, 7, draws=False, scored=7),
        Row(bench.prompt(2, bench.context), 0, 9, draws=True, scored=3),
        None,
        Row(bench.prompt(3, bench.context), 0, 4, draws=False),
        Row(bench.prompt(4, bench.context), 0, 5, draws=True),
    ]
    logits = bench.decoder.run(Step(0, tuple(rows)))
    wanted = [(1, range(7)), (2, range(5, 9)), (4, range(4, 5))]
    expected = [
        bench.alone(bench.prompt(seed, bench.context))[position]
        for seed, positions in wanted
        for position in positions
    ]
    np.testing.assert_allclose(logits, expected, **TOLERANCE)


# --- through the engine ---------------------------------------------------------------------------


class Conversation:
    """Ten requests through a real engine; each joins inside of a step, or when all is quiet."""

    def __init__(self, bench: Bench, version: ModelVersion, seed: int) -> None:
        self.asked: list[tuple[Ticket, tuple[int, ...], int]] = []
        self.said: dict[Ticket, list[int]] = {}
        self.over = threading.Event()
        self._rng = random.Random(seed)
        self._bench = bench
        tokenizer = Tokenizer.from_file(version.tokenizer_path)
        model = EngineModel(
            bench.vocab, frozenset(), bench.context, lambda continues: Detokenizer(tokenizer)
        )
        config = SchedulerConfig(max_seqs=3, prefill_chunk=CHUNK)
        self.engine = Engine(model, self, bench.cache, Scheduler(config), self._take)
        self._ask()

    def run(self, step: Step) -> NDArray[np.float32]:
        while len(self.asked) < 10 and self._rng.random() < 0.3:
            self._ask()
        return self._bench.decoder.run(step)

    def interrupt(self) -> None:
        self._bench.decoder.interrupt()

    def _ask(self) -> None:
        length = self._rng.randint(1, self._bench.context - 1)
        prompt = self._bench.prompt(self._rng.randrange(1000), length).prompt_ids
        count = self._rng.randint(1, min(20, self._bench.context - length))
        sampling = SamplingParams(temperature=0.0, max_tokens=count)
        ticket = self.engine.submit(GenerationRequest(prompt, sampling))
        self.asked.append((ticket, prompt, count))
        self.said[ticket] = []

    def _take(self, published: Published) -> None:
        for ticket, delta in published:
            self.said[ticket].extend(delta.token_ids)
        stats = self.engine.stats()
        if stats.running or stats.waiting:
            return
        if len(self.asked) < 10:
            self._ask()
        else:
            self.over.set()


@pytest.mark.parametrize("seed", range(6))
def test_every_answer_in_a_crowd_equals_its_solo_run(
    bench: Bench, tiny: ModelVersion, seed: int
) -> None:
    crowd = Conversation(bench, tiny, seed)
    crowd.engine.start()
    assert crowd.over.wait(60)
    crowd.engine.stop()
    for ticket, prompt, count in crowd.asked:
        assert crowd.said[ticket] == bench.greedy_alone(prompt, count)
