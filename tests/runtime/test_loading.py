"""From a version on disk to a model that answers, or to an error that names what is wrong."""

from __future__ import annotations

import asyncio
import errno
import mmap
import shutil
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from mrs.errors import (
    ChatTemplateError,
    CorruptVersionError,
    InvalidValueError,
    ModelLoadError,
    MrsError,
    UsageError,
)
from mrs.model_repo.version import ModelVersion
from mrs.runtime import kv_cache
from mrs.runtime.generation import GenerationRequest, SamplingParams
from mrs.runtime.loading import LoadedModel, load_served
from mrs.runtime.sequence import Sequence
from mrs.runtime.session_pool import SessionKey, SessionPool, open_session
from mrs.runtime.step import Row, Step
from mrs.runtime.step_gate import SHARED_GATE
from tests.decoding import DirectDecoder


class WatchedPool(SessionPool):
    """A pool that remembers its sessions, without keeping them."""

    def __init__(self) -> None:
        super().__init__(self._open)
        self.sessions: list[weakref.ref[Any]] = []
        self.keys: list[SessionKey] = []

    def _open(self, key: SessionKey) -> Any:
        session = open_session(key)
        self.keys.append(key)
        self.sessions.append(weakref.ref(session))
        return session


@pytest.fixture
def pool() -> WatchedPool:
    return WatchedPool()


@pytest.fixture
def copy(tiny: ModelVersion, tmp_path: Path) -> ModelVersion:
    """The tiny model, for breaking."""
    folder = tmp_path / "copy"
    shutil.copytree(tiny.path, folder)
    return replace(tiny, path=folder, number=None)


def answer(model: LoadedModel, prompt: tuple[int, ...], count: int) -> list[int]:
    sampling = SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True)

    async def read() -> list[int]:
        stream = model.engine.submit(GenerationRequest(prompt, sampling))
        return [token async for deltas in stream for d in deltas for token in d.token_ids]

    return asyncio.run(asyncio.wait_for(read(), 30))


def with_facts(version: ModelVersion, **facts: object) -> ModelVersion:
    """The version with other facts in its lock."""
    model = version.lock.model.model_copy(update=facts)
    return replace(version, lock=version.lock.model_copy(update={"model": model}))


def with_size(version: ModelVersion, path: str) -> ModelVersion:
    """The version with the lock telling the size that a file has now."""
    size = (version.path / path).stat().st_size
    files = tuple(
        file.model_copy(update={"size": size}) if file.path == path else file
        for file in version.lock.files
    )
    return replace(version, lock=version.lock.model_copy(update={"files": files}))


def without(version: ModelVersion, path: str) -> ModelVersion:
    """The version without a file, in its folder and in its lock."""
    (version.path / path).unlink()
    files = tuple(file for file in version.lock.files if file.path != path)
    return replace(version, lock=version.lock.model_copy(update={"files": files}))


def assert_refused(
    version: ModelVersion, pool: WatchedPool, kind: type[MrsError], match: str, **options: Any
) -> None:
    """Loading fails with one sentence, and nothing of it is left open."""
    with pytest.raises(kind, match=match) as caught:
        load_served(version, pool=pool, **options)
    assert "\n" not in caught.value.message
    assert pool.open_keys == frozenset()
    assert all(thread.name != "mrs-engine" for thread in threading.enumerate())


# --- what works -----------------------------------------------------------------------------------


def test_a_loaded_model_is_ready_and_says_what_its_graph_says(
    tiny: ModelVersion, pool: WatchedPool
) -> None:
    facts = tiny.lock.model
    model = load_served(tiny, pool=pool, max_seqs=2, threads=1)
    try:
        assert model.engine.ready
        assert model.engine.stats().slots == 2
        assert (model.name, model.max_model_len, model.vocab_size) == ("tiny", 128, 268)
        prompt = model.prompts.encode_chat([{"role": "user", "content": "hello"}])
        alone = DirectDecoder(tiny.graph_path, facts).greedy(prompt, 10)
        assert answer(model, prompt, 10) == alone
    finally:
        model.close()
    assert pool.keys == [SessionKey(tiny.graph_path, threads=1)]


def test_a_shorter_context_bounds_answers(tiny: ModelVersion, pool: WatchedPool) -> None:
    model = load_served(tiny, pool=pool, max_seqs=1, max_model_len=10)
    try:
        assert model.max_model_len == 10
        assert len(answer(model, (3, 4, 5), 7)) == 7
        with pytest.raises(MrsError, match="holds 10 tokens"):
            answer(model, (3, 4, 5), 8)
    finally:
        model.close()


def test_little_memory_for_the_cache_bounds_answers(tiny: ModelVersion, pool: WatchedPool) -> None:
    """A head has 16 numbers, so that a page holds 64 tokens; there are 2 layers of 2 heads."""
    page = 2 * 2 * 2 * mmap.PAGESIZE
    model = load_served(tiny, pool=pool, max_seqs=2, kv_cache_bytes=page)
    try:
        assert model.max_model_len == 64
        assert model.engine.stats().kv_budget == page
        assert len(answer(model, (3, 4, 5), 61)) == 61
        with pytest.raises(MrsError, match="KV cache holds 64 tokens; the request needs 65"):
            answer(model, (3, 4, 5), 62)
    finally:
        model.close()


def test_bounds_of_queue_and_steps_reach_the_engine(tiny: ModelVersion, pool: WatchedPool) -> None:
    model = load_served(tiny, pool=pool, max_seqs=1, max_waiting=0, step_timeout=7.0)
    try:
        with pytest.raises(InvalidValueError, match="2 choices are asked for; 1 can run or wait"):
            model.engine.engine.submit(GenerationRequest((1,), SamplingParams(), n=2))
        assert model.engine.engine._watchdog.limit == 7.0
    finally:
        model.close()


def test_a_context_that_was_asked_for_must_fit_the_memory(
    tiny: ModelVersion, pool: WatchedPool
) -> None:
    page = 2 * 2 * 2 * mmap.PAGESIZE
    options = {"kv_cache_bytes": page, "max_model_len": 65}
    assert_refused(tiny, pool, UsageError, "65 tokens of this model need 65536", **options)
    load_served(tiny, pool=pool, kv_cache_bytes=page, max_model_len=64).close()


@pytest.mark.parametrize("answers", [8, 60])
def test_answers_for_which_memory_ran_out_are_those_of_requests_alone(
    tiny: ModelVersion, pool: WatchedPool, answers: int
) -> None:
    """Six requests of up to two pages each in the memory of three pages."""
    alone = load_served(tiny, pool=pool, max_seqs=1)
    crowd = load_served(
        tiny, pool=pool, max_seqs=6, kv_cache_bytes=3 * 8 * mmap.PAGESIZE, prefix_cache_bytes=0
    )
    prompts = [tuple(range(3 + start, 33 + start)) for start in range(6)]
    try:
        expected = [answer(alone, prompt, answers) for prompt in prompts]
        with ThreadPoolExecutor(6) as threads:
            said = list(threads.map(lambda prompt: answer(crowd, prompt, answers), prompts))
        stats = crowd.engine.stats()
        crowd.engine.engine._scheduler.check_idle()
    finally:
        alone.close()
        crowd.close()
    assert said == expected
    assert (stats.preemptions > 0) is (answers == 60)
    assert (stats.running, stats.waiting, stats.kv_bytes) == (0, 0, 0)


def test_the_whole_context_can_be_used(tiny: ModelVersion, pool: WatchedPool) -> None:
    model = load_served(tiny, pool=pool, max_seqs=2)
    try:
        prompt = tuple(range(3, 125))
        facts = tiny.lock.model
        assert answer(model, prompt, 6) == DirectDecoder(tiny.graph_path, facts).greedy(prompt, 6)
    finally:
        model.close()


@pytest.mark.parametrize("length", [64, 128])
def test_the_cache_has_room_for_a_padded_chunk_after_the_longest_past(
    tiny: ModelVersion, pool: WatchedPool, length: int
) -> None:
    model = load_served(tiny, pool=pool, max_seqs=2, max_model_len=length)
    try:
        cache = model.engine.engine._cache
        last = Sequence((1,) * length, SamplingParams(), 0, length)
        rows = tuple(Row(last, past, length - past, draws=True) for past in (length - 1, 0))
        assert np.isfinite(model.engine.engine._runner.run(Step(0, rows))).all()
        assert cache.shape.capacity >= 2 * length - 1
    finally:
        model.close()


def test_closing_ends_the_engine_and_frees_the_session_at_once(
    tiny: ModelVersion, pool: WatchedPool
) -> None:
    model = load_served(tiny, pool=pool, max_seqs=1)
    model.close()
    assert not model.engine.alive
    assert pool.open_keys == frozenset()
    assert [session() for session in pool.sessions] == [None]
    model.close()


def test_two_engines_share_a_session(tiny: ModelVersion, pool: WatchedPool) -> None:
    one, other = (load_served(tiny, pool=pool, max_seqs=1, threads=1) for _ in range(2))
    try:
        assert len(pool.sessions) == 1
        one.close()
        assert len(answer(other, (3,), 2)) == 2
    finally:
        one.close()
        other.close()


def test_models_of_a_process_compute_in_turns(tiny: ModelVersion, pool: WatchedPool) -> None:
    one, other = (load_served(tiny, pool=pool, max_seqs=1, threads=n) for n in (1, 2))
    try:
        with ThreadPoolExecutor(2) as threads, SHARED_GATE:
            answers = [threads.submit(answer, model, (3, 4, 5), 3) for model in (one, other)]
            while SHARED_GATE.pending < 3:
                assert not any(future.done() for future in answers)
        # The executor waits for both: by now the gate is open.
        assert answers[0].result(30) == answers[1].result(30)
    finally:
        one.close()
        other.close()


def test_a_model_without_a_chat_template_loads(copy: ModelVersion, pool: WatchedPool) -> None:
    model = load_served(without(copy, "chat_template.jinja"), pool=pool, max_seqs=1)
    try:
        assert len(answer(model, (3,), 2)) == 2
        with pytest.raises(ChatTemplateError):
            model.prompts.encode_chat([{"role": "user", "content": "hello"}])
    finally:
        model.close()


def test_what_else_lies_in_the_folder_does_no_harm(copy: ModelVersion, pool: WatchedPool) -> None:
    (copy.path / "notes.txt").write_text("mine")
    (copy.path / "link").symlink_to("notes.txt")
    load_served(copy, pool=pool, max_seqs=1).close()


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_seqs": 0}, "--max-seqs is 0; it must be between 1 and 1024"),
        ({"max_seqs": 1025}, "--max-seqs is 1025"),
        ({"max_model_len": 1}, "--max-model-len is 1; it must be between 2 and 128"),
        ({"max_model_len": 129}, "--max-model-len is 129; .* context"),
        ({"threads": 0}, "--threads is 0"),
        ({"threads": -1}, "--threads is -1"),
        ({"threads": 1_000_000}, "--threads is 1000000"),
        ({"max_waiting": -1}, "--max-waiting is -1"),
        ({"step_timeout": 0.0}, "--step-timeout is 0 seconds"),
        ({"step_timeout": float("nan")}, "--step-timeout is nan seconds"),
    ],
)
def test_options_out_of_range_are_refused_before_anything_is_opened(
    tiny: ModelVersion, pool: WatchedPool, options: dict[str, float], message: str
) -> None:
    assert_refused(tiny, pool, UsageError, message, **options)
    assert pool.keys == []


def test_a_cache_without_address_space_is_refused_with_its_size(
    tiny: ModelVersion, pool: WatchedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(kv_cache.mmap, "mmap", fail)
    assert_refused(tiny, pool, ModelLoadError, "KV cache of 7 sequences of 128 tokens", max_seqs=7)
    assert pool.keys == []


# --- artifacts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["cpu/model.onnx", "cpu/model.onnx.data", "tokenizer.json", "chat_template.jinja"]
)
def test_a_missing_or_cut_file_is_named(copy: ModelVersion, pool: WatchedPool, path: str) -> None:
    file = copy.path / path
    file.write_bytes(file.read_bytes()[:-1])
    assert_refused(copy, pool, CorruptVersionError, f"{path} has .* bytes, the lock says")
    file.unlink()
    assert_refused(copy, pool, CorruptVersionError, f"{path} is missing")
    assert pool.keys == []


def spoil_graph(version: ModelVersion) -> None:
    size = version.graph_path.stat().st_size
    version.graph_path.write_bytes(b"\x08\x0a" * (size // 2) + b"\x08" * (size % 2))


def spoil_weights(version: ModelVersion) -> None:
    weights = version.graph_path.with_name("model.onnx.data")
    count = weights.stat().st_size // 4
    weights.write_bytes(np.full(count, np.nan, np.float32).tobytes())


def rename_input(version: ModelVersion) -> None:
    graph = onnx.load(str(version.graph_path), load_external_data=False)
    for node in graph.graph.node:
        node.input[:] = ["renamed" if name == "seqlens_k" else name for name in node.input]
    for value in graph.graph.input:
        value.name = "renamed" if value.name == "seqlens_k" else value.name
    version.graph_path.write_bytes(graph.SerializeToString())


def spoil_tokenizer(version: ModelVersion) -> None:
    version.tokenizer_path.write_text("{}")


def spoil_template(version: ModelVersion) -> None:
    version.chat_template_path.write_bytes(b"\xff\xfe")


@pytest.mark.parametrize(
    ("spoil", "path", "message"),
    [
        (spoil_graph, "cpu/model.onnx", "cannot load .*model.onnx"),
        (spoil_weights, "cpu/model.onnx.data", "copy produced no warm-up token: .* not finite"),
        (rename_input, "cpu/model.onnx", "copy produced no warm-up token: .*seqlens_k"),
        (spoil_tokenizer, "tokenizer.json", "tokenizer.json is not a tokenizer"),
        (spoil_template, "chat_template.jinja", "chat_template.jinja cannot be read: .*utf-8"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    copy: ModelVersion,
    pool: WatchedPool,
    spoil: Callable[[ModelVersion], None],
    path: str,
    message: str,
) -> None:
    spoil(copy)
    assert_refused(with_size(copy, path), pool, ModelLoadError, message)


def test_a_template_that_does_not_compile_is_refused(copy: ModelVersion, pool: WatchedPool) -> None:
    copy.chat_template_path.write_text("{% if %}")
    assert_refused(with_size(copy, "chat_template.jinja"), pool, ChatTemplateError, "template")


@pytest.mark.parametrize(
    "facts",
    [
        {"num_layers": 1},
        {"num_layers": 3},
        {"num_kv_heads": 1},
        {"num_kv_heads": 4},
        {"head_dim": 8},
        {"head_dim": 32},
        {"num_kv_heads": 1, "head_dim": 32},
        {"vocab_size": 267},
        {"vocab_size": 1000},
    ],
)
def test_a_lock_that_does_not_fit_its_graph_is_refused(
    tiny: ModelVersion, pool: WatchedPool, facts: dict[str, int]
) -> None:
    assert_refused(with_facts(tiny, **facts), pool, ModelLoadError, "produced no warm-up token")


def test_the_authors_way_to_sample_is_read_unless_it_is_left_out(
    copy: ModelVersion, pool: WatchedPool
) -> None:
    path = "generation_config.json"
    (copy.path / path).write_text('{"temperature": 0.6, "do_sample": true, "max_length": 9}')
    version = with_size(copy, path)
    for wanted, expected in ((True, {"temperature": 0.6}), (False, {})):
        model = load_served(version, pool=pool, generation_config=wanted)
        model.close()
        assert model.sampling_defaults == expected


def test_a_way_to_sample_that_no_sampler_has_is_refused(
    copy: ModelVersion, pool: WatchedPool
) -> None:
    path = "generation_config.json"
    (copy.path / path).write_text('{"top_p": 7}')
    assert_refused(with_size(copy, path), pool, ModelLoadError, "'top_p' is 7")
