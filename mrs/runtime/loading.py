"""A version of the repository -> a model that answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from mrs.chat_template import ChatTemplate
from mrs.cpu import usable_cpus
from mrs.errors import ModelLoadError, UsageError
from mrs.model_repo.version import ModelVersion
from mrs.runtime.admission import EngineModel
from mrs.runtime.async_engine import AsyncEngine
from mrs.runtime.decoder import Decoder
from mrs.runtime.detokenizer import Detokenizer
from mrs.runtime.engine import Engine
from mrs.runtime.grammar.compiler import GrammarCompiler
from mrs.runtime.grammar.vocabulary import GrammarVocabulary
from mrs.runtime.kv_budget import (
    MOST_BYTES,
    check_budget,
    default_budget,
    default_kept_bytes,
    tokens_within,
)
from mrs.runtime.kv_cache import KVCache
from mrs.runtime.kv_cache_shape import KVCacheType
from mrs.runtime.model_kind import require_generator
from mrs.runtime.prompt_encoder import PromptEncoder
from mrs.runtime.sampling.defaults import (
    GENERATION_CONFIG_FILE,
    SamplingDefaults,
    model_defaults,
)
from mrs.runtime.scheduler import Scheduler, SchedulerConfig
from mrs.runtime.session_pool import SessionKey, SessionPool
from mrs.runtime.speculation.opening import (
    PairedCaches,
    Speculation,
    Surroundings,
    check_draft,
    open_speculation,
)
from mrs.runtime.speculation.options import NO_SPECULATION, SpeculationOptions
from mrs.runtime.step_gate import GatedRunner
from mrs.runtime.ticket import Published
from mrs.runtime.tokenizer import Tokenizer
from mrs.runtime.version_cache import cache_shape, graph_for
from mrs.runtime.version_files import check_files
from mrs.runtime.watchdog import DEFAULT_LIMIT

DEFAULT_MAX_SEQS = SchedulerConfig.max_seqs
MOST_SEQS = 1024
SPARE_SLOTS = 64
"""Rows that ended sequences may leave beside those who run: address space, and memory with use."""
MOST_THREADS = 1024
MOST_WAITING = 1 << 20
_POOL = SessionPool()


@dataclass(frozen=True)
class LoadedModel:
    """A model that is ready to answer.

    Attributes:
        name: as the repository calls it.
        prompts: messages -> token ids.
        tokenizer: text <-> token ids.
        engine: takes requests.
        max_model_len: most tokens of prompt and answer together.
        vocab_size: width of the logits.
        threads: threads per operator.
        close: stops the engine and lets the session go. Idempotent.
        sampling_defaults: how its authors sample from it.
    """

    name: str
    prompts: PromptEncoder
    tokenizer: Tokenizer
    engine: AsyncEngine
    max_model_len: int
    vocab_size: int
    threads: int
    close: Callable[[], None]
    sampling_defaults: SamplingDefaults = field(default_factory=dict)


def load_served(
    version: ModelVersion,
    *,
    max_seqs: int = DEFAULT_MAX_SEQS,
    max_model_len: int | None = None,
    threads: int | None = None,
    kv_cache_bytes: int | None = None,
    kv_cache_type: str = KVCacheType.FP32,
    prefix_cache_bytes: int | None = None,
    max_waiting: int = SchedulerConfig.max_waiting,
    step_timeout: float = DEFAULT_LIMIT,
    generation_config: bool = True,
    speculation: SpeculationOptions = NO_SPECULATION,
    alone: bool = True,
    pool: SessionPool = _POOL,
) -> LoadedModel:
    """Load a version and start its engine; returns once a warm-up token was produced.

    Args:
        version: what to load.
        max_seqs: sequences that run at once.
        max_model_len: most tokens of prompt and answer; None means the model's context.
        threads: threads per operator; None means the processors that this process may use.
        kv_cache_bytes: memory for keys and values of all sequences; None means a share of what is
            free.
        kv_cache_type: what keys and values are stored as: ``fp32`` or ``int8``.
        prefix_cache_bytes: the part of it that is for ended sequences whose beginnings others
            reuse; 0 for none; None means a share of what is free.
        max_waiting: sequences that may wait for their turn.
        step_timeout: seconds after which a step of the model is cut, and its requests fail.
        generation_config: read how the model's authors sample; without, nothing is known of it.
        speculation: what guesses tokens, if anything.
        alone: no other model computes in this process; not true where it may, it is slower.
        pool: where the sessions come from.

    Raises:
        UsageError: a value is outside what the model allows, it is an embedding model, the version
            has no scales for an 8-bit cache, or the draft model has other tokens.
        CorruptVersionError: a file is missing, or not as long as the lock says.
        ModelLoadError: the artifact cannot be loaded or does not work.
        ChatTemplateError: the chat template does not compile.
        RuntimeUnavailableError: ONNX Runtime is missing or too old.
    """
    bridge = AsyncEngine()
    with ExitStack() as stack:
        parts = _read(version, max_seqs, max_model_len, threads, KVCacheType(kv_cache_type))
        defaults = _sampling_defaults(version) if generation_config else {}
        if prefix_cache_bytes is not None:
            _check_option("--prefix-cache-bytes", prefix_cache_bytes, 0, MOST_BYTES)
        memory = _Memory(kv_cache_bytes, prefix_cache_bytes, whole_context=bool(max_model_len))
        _check_option("--max-waiting", max_waiting, 0, MOST_WAITING)
        if not step_timeout > 0:
            raise UsageError(f"--step-timeout is {step_timeout:g} seconds; it must be above 0.")
        alone = alone and speculation.draft is None
        bounds = _Bounds(max_waiting, step_timeout, speculation, alone)
        if speculation.draft is not None:
            check_draft(speculation.draft, version, parts.tokenizer)
        engine = _open(version, parts, memory, bounds, pool, bridge.publish, stack)
        bridge.attach(engine)
        engine.start()
        stack.callback(engine.stop)
        if not engine.wait_ready():
            raise _does_not_work(version, engine.failure) from engine.failure
        return LoadedModel(
            name=version.name,
            prompts=parts.prompts,
            tokenizer=parts.tokenizer,
            engine=bridge,
            max_model_len=engine.max_length,
            vocab_size=version.lock.model.vocab_size,
            threads=parts.threads,
            sampling_defaults=defaults,
            close=stack.pop_all().close,
        )
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class _Parts:
    """All that is cheap to make, or to refuse."""

    max_seqs: int
    max_length: int
    threads: int
    cache_type: KVCacheType
    tokenizer: Tokenizer
    prompts: PromptEncoder


@dataclass(frozen=True)
class _Bounds:
    """How many may wait, how long a step may take in seconds, what guesses tokens, and who else
    computes."""

    max_waiting: int
    step_timeout: float
    speculation: SpeculationOptions
    alone: bool


@dataclass(frozen=True)
class _Memory:
    """What was asked of the memory for keys and values, in bytes, where it was."""

    budget: int | None
    kept: int | None
    whole_context: bool


def _read(
    version: ModelVersion,
    max_seqs: int,
    max_model_len: int | None,
    threads: int | None,
    cache_type: KVCacheType,
) -> _Parts:
    require_generator(version)
    context = version.lock.model.context_length
    _check_option("--max-seqs", max_seqs, 1, MOST_SEQS)
    if threads is not None:
        _check_option("--threads", threads, 1, MOST_THREADS)
    if max_model_len is not None:
        _check_option("--max-model-len", max_model_len, 2, context, "the model's context")
    graph_for(version, cache_type)
    check_files(version)
    tokenizer = Tokenizer.from_file(version.tokenizer_path)
    return _Parts(
        max_seqs=max_seqs,
        max_length=context if max_model_len is None else max_model_len,
        threads=usable_cpus() if threads is None else threads,
        cache_type=cache_type,
        tokenizer=tokenizer,
        prompts=_prompt_encoder(version, tokenizer),
    )


def _check_option(name: str, value: int, least: int, most: int, why: str = "") -> None:
    if not least <= value <= most:
        raise UsageError(
            f"{name} is {value}; it must be between {least} and {most}{why and f' ({why})'}."
        )


def _prompt_encoder(version: ModelVersion, tokenizer: Tokenizer) -> PromptEncoder:
    facts = version.lock.model
    bos = "" if facts.bos_token_id is None else tokenizer.decode([facts.bos_token_id])
    eos = tokenizer.decode([facts.eos_token_ids[0]]) if facts.eos_token_ids else ""

    def template(path: Path) -> ChatTemplate | None:
        if not path.is_file():
            return None
        return ChatTemplate(_template_source(path), bos_token=bos, eos_token=eos)

    return PromptEncoder(
        tokenizer,
        template(version.chat_template_path),
        bos_token_id=facts.bos_token_id,
        add_bos=facts.add_bos,
        tool_template=template(version.tool_template_path),
    )


def _sampling_defaults(version: ModelVersion) -> SamplingDefaults:
    return model_defaults(version.path / GENERATION_CONFIG_FILE, version.lock.model.vocab_size)


def _template_source(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelLoadError(
            f"{path} cannot be read: {error}.",
            hint="Check the files with 'mrs models verify', or export the model again.",
        ) from error


def _open(
    version: ModelVersion,
    parts: _Parts,
    memory: _Memory,
    bounds: _Bounds,
    pool: SessionPool,
    publish: Callable[[Published], None],
    stack: ExitStack,
) -> Engine:
    facts = version.lock.model
    chunk = min(SchedulerConfig.prefill_chunk, parts.max_length)
    kept = default_kept_bytes() if memory.kept is None else memory.kept
    cache = _reserve_cache(version, parts, chunk, SPARE_SLOTS if kept else 0)
    around = Surroundings(version, cache.shape, parts.max_length, chunk, parts.threads)
    speculation = open_speculation(bounds.speculation, around, pool, stack)
    row_bytes = _row_bytes(cache, speculation)
    if memory.budget is not None:
        least = parts.max_length if memory.whole_context else min(64, parts.max_length)
        check_budget(memory.budget, row_bytes, least)
    key = SessionKey(graph_for(version, parts.cache_type), parts.threads, bounds.alone)
    decoder = Decoder(stack.enter_context(pool.session(key)), cache, facts.vocab_size)
    stack.callback(decoder.close)
    # Only now, when the weights are in memory, is it known what they leave free.
    budget = memory.budget or default_budget(row_bytes, parts.max_seqs, parts.max_length)
    config = SchedulerConfig(
        max_seqs=parts.max_seqs,
        spare_slots=cache.shape.spare,
        max_waiting=bounds.max_waiting,
        max_kv_bytes=budget,
        max_kept_bytes=kept,
        row_bytes=row_bytes,
        can_reuse=cache.shape.can_reuse,
        max_logits=decoder.max_logits,
    )
    eos = frozenset(facts.eos_token_ids)
    grammars = GrammarCompiler(GrammarVocabulary(parts.tokenizer, facts.vocab_size, eos))
    stack.callback(grammars.close)
    # Makes the table of pieces, which the first answer would wait for.
    Detokenizer(parts.tokenizer)
    model = EngineModel(
        vocab_size=facts.vocab_size,
        eos_token_ids=eos,
        max_length=parts.max_length,
        new_detokenizer=lambda continues: Detokenizer(parts.tokenizer, continues=continues),
        token_pieces=parts.tokenizer.visible_pieces,
        kv_tokens=tokens_within(budget, row_bytes, parts.max_length),
        bos_token_id=facts.bos_token_id,
        grammars=grammars,
    )
    return Engine(
        model,
        GatedRunner(decoder),
        cache
        if speculation is None or speculation.draft is None
        else PairedCaches(cache, speculation.draft),
        Scheduler(config),
        publish,
        bounds.step_timeout,
        None if speculation is None else speculation.speculator,
    )


def _row_bytes(cache: KVCache, speculation: Speculation | None) -> Callable[[int], int]:
    """What a row takes, that of a draft model included."""
    shape = cache.shape
    if speculation is None:
        return shape.committed_bytes
    beside = speculation.row_bytes
    return lambda tokens: shape.committed_bytes(tokens) + beside(tokens)


def _reserve_cache(version: ModelVersion, parts: _Parts, chunk: int, spare: int) -> KVCache:
    # A padded chunk must fit after the longest past.
    capacity = parts.max_length + chunk
    shape = cache_shape(version, parts.max_seqs, capacity, parts.cache_type, spare)
    try:
        return KVCache(shape)
    except (OSError, OverflowError, ValueError) as error:
        if spare:
            return _reserve_cache(version, parts, chunk, spare=0)
        raise ModelLoadError(
            f"No address space for the KV cache of {parts.max_seqs} sequences of "
            f"{parts.max_length} tokens: {error}.",
            hint="Lower --max-seqs or --max-model-len.",
        ) from error


def _does_not_work(version: ModelVersion, failure: Exception | None) -> ModelLoadError:
    reason = (str(failure).splitlines() or [""])[0]
    return ModelLoadError(
        f"The model {version.reference} produced no warm-up token: {reason:.300}",
        hint="Check the files with 'mrs models verify', or export the model again.",
    )
