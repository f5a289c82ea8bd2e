"""Answers to a text completion request: whole, or as a stream of chunks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

import orjson

from mrs.runtime.generation import FinishReason, GenerationDelta
from mrs.server.generation import Answer, Tally
from mrs.server.openai.chat_answer import DONE
from mrs.server.openai.completion_logprobs import CompletionLogprobsWriter, joined
from mrs.server.openai.completion_request import CompletionPrompt, PreparedCompletion
from mrs.server.openai.completion_schemas import CompletionRequest
from mrs.server.openai.usage import usage
from mrs.server.served_model import ServedModel
from mrs.server.streaming import event


def completion_answer(
    request: CompletionRequest, prepared: PreparedCompletion, model: ServedModel
) -> Answer:
    """Return the answer that the request wants."""
    kind = StreamedCompletion if request.stream else WholeCompletion
    return kind(request, prepared, model)


class _Text:
    """One text while it is made: what each delta adds to it.

    Args:
        prompt: what it continues.
        echo: it begins with its prompt.
        scores_only: it ends there.
        writer: of its logprobs; None if they are not told.
    """

    def __init__(
        self,
        prompt: CompletionPrompt,
        *,
        echo: bool,
        scores_only: bool,
        writer: CompletionLogprobsWriter | None,
    ) -> None:
        self._prompt = prompt
        self._echoes = echo
        self._scores_only = scores_only
        self._writer = writer
        self.tokens = 0
        self.logprob = 0.0
        self.finish_reason: str | None = None

    def add(self, delta: GenerationDelta) -> tuple[str, dict[str, Any] | None]:
        """The text and the logprobs that a delta adds."""
        self.tokens += len(delta.token_ids)
        if delta.cumulative_logprob is not None:
            self.logprob = delta.cumulative_logprob
        if delta.finish_reason is not None:
            # After a prompt that is scored alone nothing may come, whatever was drawn.
            ended = FinishReason.LENGTH if self._scores_only else delta.finish_reason
            self.finish_reason = ended.value
        lists = []
        text = "" if self._scores_only else delta.text
        if self._echoes:
            self._echoes = False
            text = self._prompt.text + text
            lists += self._echoed(delta)
        if self._writer is None:
            return text, None
        if not self._scores_only:
            lists.append(self._writer.write(delta.logprobs))
        return text, joined(lists)

    def _echoed(self, delta: GenerationDelta) -> list[dict[str, Any]]:
        if self._writer is None:
            return []
        prompt, scores = self._prompt, delta.prompt_logprobs
        if prompt.begin:
            return [self._writer.write(scores[prompt.begin - 1 :])]
        # Of a prompt that lost its beginning, the engine tells of what is left alone.
        lost = len(prompt.ids) - 1 - len(scores)
        unpredicted = [self._writer.unpredicted(token) for token in prompt.ids[: lost + 1]]
        return [*unpredicted, self._writer.write(scores)]


class _CompletionAnswer:
    """What both forms have in common."""

    def __init__(
        self, request: CompletionRequest, prepared: PreparedCompletion, model: ServedModel
    ) -> None:
        generations = prepared.generations
        self.generation = generations if len(generations) > 1 else generations[0]
        self._prepared = prepared
        self._logprobs = request.logprobs is not None
        self._echo = bool(request.echo)
        self._model = model
        self._header = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model.name,
            "system_fingerprint": model.fingerprint,
        }
        self._texts = [
            self._text(prompt) for prompt in prepared.prompts for _ in range(prepared.choices)
        ]

    def _text(self, prompt: CompletionPrompt) -> _Text:
        writer = None
        if self._logprobs:
            spaces = self._added_space(prompt) if self._echo else 0
            writer = CompletionLogprobsWriter(self._model.token_bytes, spaces)
        scores_only = self._prepared.scores_only
        return _Text(prompt, echo=self._echo, scores_only=scores_only, writer=writer)

    def _added_space(self, prompt: CompletionPrompt) -> int:
        """Whether the vocabulary put a space before the first word, which the text has not."""
        first = b"".join(map(self._model.token_bytes, prompt.ids[prompt.begin :][:1]))
        return int(first.startswith(b" ") and not prompt.text.startswith(" "))

    def _usage(self, tally: Tally) -> dict[str, Any]:
        counts = usage(tally)
        if self._prepared.scores_only:
            # The engine draws one token after a prompt; nobody asked for it.
            counts |= {"completion_tokens": 0, "total_tokens": tally.prompt_tokens}
        return counts


class WholeCompletion(_CompletionAnswer):
    """One JSON object, sent when every text has ended."""

    streamed = False

    def __init__(
        self, request: CompletionRequest, prepared: PreparedCompletion, model: ServedModel
    ) -> None:
        super().__init__(request, prepared, model)
        self._pieces: list[list[str]] = [[] for _ in self._texts]
        self._lists: list[list[dict[str, Any]]] = [[] for _ in self._texts]

    def add(self, deltas: tuple[GenerationDelta, ...]) -> bytes:
        """Keep what the deltas add."""
        for delta in deltas:
            text, logprobs = self._texts[delta.index].add(delta)
            self._pieces[delta.index].append(text)
            if logprobs is not None:
                self._lists[delta.index].append(logprobs)
        return b""

    def close(self, tally: Tally) -> bytes:
        """Return the body."""
        choices = [self._choice(place, index) for place, index in enumerate(self._returned())]
        return orjson.dumps({**self._header, "choices": choices, "usage": self._usage(tally)})

    def _returned(self) -> list[int]:
        """The texts that the client gets: of each prompt, the best first."""
        count, wanted = self._prepared.choices, self._prepared.returned
        returned: list[int] = []
        for first in range(0, len(self._texts), count):
            indices: Sequence[int] = range(first, first + count)
            if count > wanted:
                indices = sorted(indices, key=self._mean_logprob, reverse=True)[:wanted]
            returned += indices
        return returned

    def _mean_logprob(self, index: int) -> float:
        text = self._texts[index]
        return text.logprob / max(text.tokens, 1)

    def _choice(self, place: int, index: int) -> dict[str, Any]:
        return {
            "index": place,
            "text": "".join(self._pieces[index]),
            "logprobs": joined(self._lists[index]) if self._logprobs else None,
            "finish_reason": self._texts[index].finish_reason,
        }


class StreamedCompletion(_CompletionAnswer):
    """A chunk per text and engine step, then ``[DONE]``."""

    streamed = True

    def __init__(
        self, request: CompletionRequest, prepared: PreparedCompletion, model: ServedModel
    ) -> None:
        super().__init__(request, prepared, model)
        options = request.stream_options
        self._include_usage = bool(options and options.include_usage)

    def add(self, deltas: tuple[GenerationDelta, ...]) -> bytes:
        """Return the chunks for the deltas; none while a delta holds its text back."""
        chunks = []
        for delta in deltas:
            written = self._texts[delta.index]
            text, logprobs = written.add(delta)
            told = logprobs is not None and bool(logprobs["tokens"])
            if text or told or delta.finish_reason is not None:
                chunks.append(self._chunk(delta.index, text, logprobs, written.finish_reason))
        return b"".join(chunks)

    def close(self, tally: Tally) -> bytes:
        """Return the end of the stream."""
        if not self._include_usage:
            return DONE
        last = {**self._header, "choices": [], "usage": self._usage(tally)}
        return event(orjson.dumps(last)) + DONE

    def _chunk(
        self, index: int, text: str, logprobs: dict[str, Any] | None, finish_reason: str | None
    ) -> bytes:
        choice = {
            "index": index,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        chunk: dict[str, Any] = {**self._header, "choices": [choice]}
        if self._include_usage:
            chunk["usage"] = None
        return event(orjson.dumps(chunk))
