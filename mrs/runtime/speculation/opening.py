"""What a server was asked to guess with -> what guesses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from mrs.errors import UsageError
from mrs.model_repo.version import ModelVersion
from mrs.runtime.cache_operations import CacheOperation, RowCache
from mrs.runtime.decoder import Decoder
from mrs.runtime.kv_cache import KVCache
from mrs.runtime.kv_cache_shape import KVCacheShape
from mrs.runtime.model_kind import require_generator
from mrs.runtime.session_pool import SessionKey, SessionPool
from mrs.runtime.speculation.draft_model import DraftModel
from mrs.runtime.speculation.grammar_tokens import GrammarTokens
from mrs.runtime.speculation.options import MOST_GUESSES, SpeculationOptions
from mrs.runtime.speculation.prompt_lookup import PromptLookup
from mrs.runtime.speculation.proposer import Proposer
from mrs.runtime.speculation.speculator import Speculator
from mrs.runtime.step_gate import GatedRunner
from mrs.runtime.tokenizer import Tokenizer
from mrs.runtime.version_cache import cache_shape
from mrs.runtime.version_files import check_files


class PairedCaches:
    """Two caches with the same rows: what is done to one is done to the other."""

    def __init__(self, *caches: RowCache) -> None:
        self._caches = caches

    def carry_out(self, operation: CacheOperation) -> None:
        """Do it to both."""
        for cache in self._caches:
            cache.carry_out(operation)


@dataclass(frozen=True)
class Surroundings:
    """What guesses are for.

    Attributes:
        version: the model that is guessed for.
        shape: of its KV cache.
        max_length: most tokens of one.
        chunk: most tokens of a prompt in one step.
        threads: threads per operator.
    """

    version: ModelVersion
    shape: KVCacheShape
    max_length: int
    chunk: int
    threads: int


@dataclass(frozen=True)
class Speculation:
    """What guesses, and what that takes.

    Attributes:
        speculator: for the engine.
        draft: the draft model, whose cache follows the other one.
        row_bytes: memory that a row of so many tokens takes beside the model's own.
    """

    speculator: Speculator
    draft: DraftModel | None = None
    row_bytes: Callable[[int], int] = lambda tokens: 0


def open_speculation(
    options: SpeculationOptions, around: Surroundings, pool: SessionPool, stack: ExitStack
) -> Speculation | None:
    """Make what guesses; None for no guesses. The stack lets go of it.

    Raises:
        UsageError: a value is outside what it may be, or the draft model has other tokens.
        ModelLoadError: the draft model cannot be loaded.
    """
    if not options.enabled:
        return None
    if not 1 <= options.most <= MOST_GUESSES:
        raise UsageError(f"--max-guesses is {options.most}; it must be 1 to {MOST_GUESSES}.")
    proposers: list[Proposer] = [GrammarTokens()]
    if options.prompt_lookup:
        proposers.append(PromptLookup())
    can_cut = around.shape.can_reuse
    if options.draft is None:
        return Speculation(Speculator(proposers, options.most, can_cut=can_cut))
    cache = _draft_cache(options.draft, around)
    draft = _open_draft(options.draft, cache, around, pool, stack)
    speculator = Speculator([*proposers, draft], options.most, can_cut=can_cut)
    return Speculation(speculator, draft, cache.shape.committed_bytes)


def check_draft(draft: ModelVersion, version: ModelVersion, tokenizer: Tokenizer) -> None:
    """Refuse a draft model whose tokens mean something else.

    Raises:
        UsageError: they do, or it generates no text.
    """
    require_generator(draft)
    check_files(draft)
    other = Tokenizer.from_file(draft.tokenizer_path)
    if other.pieces != tokenizer.pieces or other.special_tokens != tokenizer.special_tokens:
        raise UsageError(
            f"The tokens of the draft model {draft.reference} are not those of "
            f"{version.reference}.",
            hint="Take a smaller model of the same family, with the same vocabulary.",
        )


def _draft_cache(draft: ModelVersion, around: Surroundings) -> KVCache:
    capacity = _longest(draft, around) + around.chunk
    return KVCache(cache_shape(draft, around.shape.running, capacity, spare=around.shape.spare))


def _open_draft(
    draft: ModelVersion,
    cache: KVCache,
    around: Surroundings,
    pool: SessionPool,
    stack: ExitStack,
) -> DraftModel:
    key = SessionKey(draft.graph_path, around.threads, alone=False)
    facts = draft.lock.model
    decoder = Decoder(stack.enter_context(pool.session(key)), cache, facts.vocab_size)
    stack.callback(decoder.close)
    return DraftModel(
        GatedRunner(decoder),
        cache,
        around.version.lock.model.vocab_size,
        _longest(draft, around),
        around.chunk,
    )


def _longest(draft: ModelVersion, around: Surroundings) -> int:
    return min(around.max_length, draft.lock.model.context_length)
