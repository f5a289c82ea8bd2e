"""A version of the repository -> a model that answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from mrs.chat_template import ChatTemplate
from mrs.errors import ModelLoadError, UsageError
from mrs.model_repo.version import ModelVersion
from mrs.runtime.admission import EngineModel
from mrs.runtime.async_engine import AsyncEngine
from mrs.runtime.cpu import usable_cpus
from mrs.runtime.decoder import Decoder
from mrs.runtime.detokenizer import Detokenizer
from mrs.runtime.engine import Engine
from mrs.runtime.kv_cache import KVCache, KVCacheShape
from mrs.runtime.prompt_encoder import PromptEncoder
from mrs.runtime.scheduler import Scheduler, SchedulerConfig
from mrs.runtime.session_pool import SessionKey, SessionPool
from mrs.runtime.ticket import Published
from mrs.runtime.tokenizer import Tokenizer

DEFAULT_MAX_SEQS = 16
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
        close: stops the engine and lets the session go.
    """

    name: str
    prompts: PromptEncoder
    tokenizer: Tokenizer
    engine: AsyncEngine
    max_model_len: int
    vocab_size: int
    close: Callable[[], None]


def load_served(
    version: ModelVersion,
    *,
    max_seqs: int = DEFAULT_MAX_SEQS,
    max_model_len: int | None = None,
    threads: int | None = None,
    pool: SessionPool = _POOL,
) -> LoadedModel:
    """Load a version and start its engine; returns once a warm-up token was produced.

    Args:
        version: what to load.
        max_seqs: sequences that run at once.
        max_model_len: most tokens of prompt and answer; None means the model's context.
        threads: threads per operator; None means the processors that this process may use.
        pool: where the session comes from.

    Raises:
        UsageError: a value is outside what the model allows.
        ModelLoadError: the artifact cannot be loaded or does not work.
        RuntimeUnavailableError: ONNX Runtime is missing or too old.
    """
    bridge = AsyncEngine()
    with ExitStack() as stack:
        loaded = _load(version, max_seqs, max_model_len, threads, pool, bridge.publish, stack)
        bridge.attach(loaded.engine)
        loaded.engine.start()
        stack.callback(loaded.engine.stop)
        _await_warm_up(loaded.engine, version)
        return LoadedModel(
            name=version.name,
            prompts=loaded.prompts,
            tokenizer=loaded.tokenizer,
            engine=bridge,
            max_model_len=loaded.max_model_len,
            vocab_size=version.lock.model.vocab_size,
            close=stack.pop_all().close,
        )
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class _Parts:
    engine: Engine
    prompts: PromptEncoder
    tokenizer: Tokenizer
    max_model_len: int


def _load(
    version: ModelVersion,
    max_seqs: int,
    max_model_len: int | None,
    threads: int | None,
    pool: SessionPool,
    publish: Callable[[Published], None],
    stack: ExitStack,
) -> _Parts:
    facts = version.lock.model
    length = _model_length(facts.context_length, max_model_len)
    if not 1 <= max_seqs <= 1024:
        raise UsageError(f"--max-seqs is {max_seqs}; it must be between 1 and 1024.")
    tokenizer = Tokenizer.from_file(version.tokenizer_path)
    config = SchedulerConfig(max_seqs=max_seqs)
    chunk = min(config.prefill_chunk, length)
    cache = KVCache(
        KVCacheShape(
            num_layers=facts.num_layers,
            slots=max_seqs,
            num_kv_heads=facts.num_kv_heads,
            # A padded chunk must fit after the longest past.
            min_capacity=length + chunk,
            head_dim=facts.head_dim,
        )
    )
    session = stack.enter_context(
        pool.session(SessionKey(version.graph_path, threads or usable_cpus()))
    )
    model = EngineModel(
        vocab_size=facts.vocab_size,
        eos_token_ids=frozenset(facts.eos_token_ids),
        max_length=length,
        new_detokenizer=lambda: Detokenizer(tokenizer),
    )
    decoder = Decoder(session, cache, facts.vocab_size)
    engine = Engine(model, decoder, cache, Scheduler(config), publish)
    return _Parts(engine, _prompt_encoder(version, tokenizer), tokenizer, length)


def _prompt_encoder(version: ModelVersion, tokenizer: Tokenizer) -> PromptEncoder:
    facts = version.lock.model
    template = None
    if version.chat_template_path.is_file():
        bos = "" if facts.bos_token_id is None else tokenizer.decode([facts.bos_token_id])
        eos = tokenizer.decode([facts.eos_token_ids[0]]) if facts.eos_token_ids else ""
        source = version.chat_template_path.read_text(encoding="utf-8")
        template = ChatTemplate(source, bos_token=bos, eos_token=eos)
    return PromptEncoder(
        tokenizer, template, bos_token_id=facts.bos_token_id, add_bos=facts.add_bos
    )


def _model_length(context: int, wanted: int | None) -> int:
    if wanted is None:
        return context
    if not 2 <= wanted <= context:
        raise UsageError(
            f"--max-model-len is {wanted}; this model allows 2 to {context}.",
            hint="Choose a length within the model's context.",
        )
    return wanted


def _await_warm_up(engine: Engine, version: ModelVersion) -> None:
    while not engine.wait_ready(0.05):
        if not engine.alive:
            raise ModelLoadError(
                f"The model {version.reference} produced no warm-up token.",
                hint="Check the files with 'mrs models verify', or export the model again.",
            )
