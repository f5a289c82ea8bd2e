"""What a caller hands to the engine, and what the engine hands back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True)
class DryParams:
    """Penalties for prolonging repetitions ("don't repeat yourself").

    Attributes:
        multiplier: size of the penalties.
        base: by which they grow with each token of a repetition.
        allowed_length: repetitions of fewer tokens are let be.
        breakers: texts, of any length, that no repetition extends over.
    """

    multiplier: float
    base: float = 1.75
    allowed_length: int = 2
    breakers: tuple[str, ...] = ("\n", ":", '"', "*")


class GrammarKind(StrEnum):
    """How a grammar is written."""

    REGEX = "regex"
    LARK = "lark"
    JSON_SCHEMA = "json_schema"
    LLGUIDANCE = "llguidance"


@dataclass(frozen=True)
class Grammar:
    """What an answer must match, from its first token to the one that ends it.

    Attributes:
        kind: how ``source`` is written.
        source: the grammar; a JSON schema as JSON text.
    """

    kind: GrammarKind
    source: str


@dataclass(frozen=True)
class ReasoningBudget:
    """How many tokens of an answer may be reasoning.

    Attributes:
        tokens: most of them between the marks.
        opened: the prompt has begun the reasoning.
        opens: the mark that begins it.
        closes: the mark that ends it.
        closing_ids: tokens that spell ``closes``, at least one.
    """

    tokens: int
    opened: bool
    opens: str
    closes: str
    closing_ids: tuple[int, ...]


@dataclass(frozen=True)
class SamplingParams:
    """How tokens are drawn for one sequence.

    Attributes:
        temperature: below 1e-7 means greedy decoding; otherwise logits are divided by it.
        top_k: keep the k most likely tokens; None or anything below 1 keeps all.
        top_p: keep the smallest set of most likely tokens whose mass reaches p; 1.0 keeps all.
        seed: start of the sequence's own random stream; None draws one from the system.
        max_tokens: most tokens to generate; None means up to the model's length.
        stop: strings that end the answer and are not part of it.
        ignore_eos: go on after an end-of-sequence token.
        min_tokens: so many tokens come before one may end the answer.
        stop_token_ids: tokens that end the answer as an end-of-sequence token does.
        frequency_penalty: subtracted from a token's logit for each time it was generated.
        presence_penalty: subtracted once it was generated.
        repetition_penalty: divides the positive logits of tokens of prompt and answer, and
            multiplies the negative ones; 1.0 changes nothing.
        penalty_window: newest tokens that penalties look back at; None for all.
        dry: penalties for prolonging repetitions, or None.
        logit_bias: pairs of a token id and what is added to its logit.
        min_p: drop tokens less than ``min_p`` times as likely as the likeliest.
        typical_p: keep the mass ``typical_p`` nearest to the expected information; 1.0 keeps all.
        top_n_sigma: drop logits more than so many standard deviations below the largest.
        xtc_probability: how often all likely tokens but the last of them are excluded.
        xtc_threshold: share from which a token is likely in that sense.
        mirostat_tau: surprise in bits to hold by Mirostat 2, instead of all filters; None for off.
        mirostat_eta: its learning rate.
        logprobs: how many likely tokens to tell beside each drawn one; None tells nothing.
        prompt_logprobs: the same for each token of the prompt but the first; None tells nothing.
        cumulative_logprob: tell of the whole answer how likely the model found it.
        suppress_tokens: tokens that are never drawn.
        grammar: what the answer must match; None for anything.
        reasoning_budget: after how many tokens reasoning is closed; None for no such limit.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    min_tokens: int = 0
    stop_token_ids: tuple[int, ...] = ()
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    penalty_window: int | None = None
    dry: DryParams | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_p: float = 0.0
    typical_p: float = 1.0
    top_n_sigma: float | None = None
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    mirostat_tau: float | None = None
    mirostat_eta: float = 0.1
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    cumulative_logprob: bool = False
    suppress_tokens: tuple[int, ...] = ()
    grammar: Grammar | None = None
    reasoning_budget: ReasoningBudget | None = None


@dataclass(frozen=True)
class GenerationRequest:
    """One prompt, to be continued ``n`` times independently.

    Attributes:
        prompt_ids: the encoded prompt, not empty.
        sampling: shared by all choices; choice ``i`` draws from the stream ``(seed, i)``.
        n: number of choices.
        cache_salt: cached prefixes are shared among requests of one salt alone.
        truncate: a prompt that is too long loses its beginning, instead of being refused.
        timeout: seconds from now after which it ends with an error; None for never.
        continues: the answer goes on with a text, so that a space at its beginning is part of it.
    """

    prompt_ids: tuple[int, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    n: int = 1
    cache_salt: str = ""
    truncate: bool = False
    timeout: float | None = None
    continues: bool = False


class FinishReason(StrEnum):
    """Why a sequence ended, in OpenAI's words."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True)
class TokenLogprobs:
    """How likely the model found a token, as natural logarithms.

    Attributes:
        token: the one that was drawn.
        logprob: of it.
        top: the likeliest tokens and theirs, in descending order.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class GenerationDelta:
    """What one engine step added to one choice.

    Attributes:
        index: the choice, 0 to n-1.
        text: newly final text; may be empty while a character or a stop string is incomplete.
        token_ids: the tokens of this step, EOS included; several where some were guessed.
        finish_reason: None until the choice's last delta.
        cached_tokens: prompt tokens that were not computed again.
        dropped_tokens: tokens of the prompt's beginning that were left out, since it was too long.
        logprobs: of the tokens, where they were asked for; not of an end-of-sequence token.
        prompt_logprobs: of the prompt from its second token on, once, where they were asked for.
        stop: the stop string that ended the answer, if one did.
        cumulative_logprob: of the last delta: the sum of the logprobs of the answer's tokens, the
            end-of-sequence token included, where it was asked for.
        error: what went wrong, with `FinishReason.ERROR` only.
    """

    index: int
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None = None
    error: Exception | None = None
    cached_tokens: int = 0
    dropped_tokens: int = 0
    logprobs: tuple[TokenLogprobs, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()
    stop: str | None = None
    cumulative_logprob: float | None = None


@dataclass(frozen=True)
class EngineStats:
    """A snapshot of the engine for health pages and metrics.

    Attributes:
        running: sequences that hold a slot.
        waiting: sequences in the queue.
        slots: most sequences that can run at once.
        kv_bytes: memory that the KV cache holds now.
        generated_tokens: tokens drawn since the engine started.
        prefilled_tokens: prompt tokens computed since the engine started.
        cached_tokens: prompt tokens that were not computed again since the engine started.
        kv_budget: most bytes that the KV cache may hold; None for any.
        preemptions: how often a sequence gave its memory to older ones since the engine started.
        recomputed_tokens: tokens that were computed again because of that.
        drafts: rows with guesses (speculative decoding) since the engine started.
        draft_tokens: tokens that were guessed.
        accepted_tokens: those of them that became part of an answer.
    """

    running: int
    waiting: int
    slots: int
    kv_bytes: int
    generated_tokens: int
    prefilled_tokens: int
    cached_tokens: int = 0
    kv_budget: int | None = None
    preemptions: int = 0
    recomputed_tokens: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0


class GenerationStream(Protocol):
    """The answer to one request, step by step."""

    def __aiter__(self) -> AsyncIterator[tuple[GenerationDelta, ...]]:
        """Iterate over all that has become available, in order; ends after every choice's last."""

    def cancel(self) -> None:
        """Give the request up: its slots are free by the next step. Idempotent, thread-safe."""


class GenerationEngine(Protocol):
    """What a server needs of an engine."""

    @property
    def ready(self) -> bool:
        """A warm-up token was produced and the engine thread makes progress."""

    @property
    def alive(self) -> bool:
        """The engine thread runs."""

    def stats(self) -> EngineStats:
        """Numbers of this moment."""

    async def prepare(self, request: GenerationRequest) -> None:
        """Do what `submit` would take long for, in a thread.

        Raises:
            RequestError: the request's grammar cannot be honoured.
        """

    def submit(self, request: GenerationRequest) -> GenerationStream:
        """Admit a request; to be called on the event loop's thread.

        Raises:
            ContextLengthExceededError: the prompt can never fit.
            QueueFullError: the waiting queue is at its bound.
            ShuttingDownError: the engine drains.
            InvalidValueError: a value cannot be honoured.
        """

    def drain(self) -> None:
        """Take no new requests; those admitted go on."""
