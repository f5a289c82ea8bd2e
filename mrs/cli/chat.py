"""A conversation with a loaded model: its turns, and its commands on the terminal."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from mrs.cli.console import note, print_error, write_answer
from mrs.errors import MrsError
from mrs.runtime.generation import FinishReason, GenerationRequest, SamplingParams
from mrs.runtime.loading import LoadedModel

_HELP = """\
/clear          forget the conversation
/system TEXT    set the system message and forget the conversation
/help           this list
/exit           end (so does Ctrl-D)
Ctrl-C          stop the answer"""


@dataclass(frozen=True)
class ChatAnswer:
    """One answer and its figures.

    Attributes:
        text: the answer.
        finish_reason: why it ended.
        prompt_tokens: tokens of the conversation so far.
        completion_tokens: tokens drawn.
        first_token_seconds: from the question to the first token.
        seconds: from the question to the end.
    """

    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    first_token_seconds: float
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Rate after the first token."""
        decoding = self.seconds - self.first_token_seconds
        return (self.completion_tokens - 1) / decoding if decoding > 0 else 0.0

    def as_dict(self) -> dict[str, str | int | float]:
        """For ``--json``."""
        return {
            "text": self.text,
            "finish_reason": self.finish_reason.value,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "first_token_seconds": round(self.first_token_seconds, 4),
            "tokens_per_second": round(self.tokens_per_second, 2),
        }


class Chat:
    """The turns of a conversation.

    Args:
        model: who answers.
        sampling: how.
        system: the system message, or None.
    """

    def __init__(self, model: LoadedModel, sampling: SamplingParams, system: str | None) -> None:
        self.model = model
        self._sampling = sampling
        self._system = system
        self._turns: list[dict[str, str]] = []

    def clear(self, system: str | None = None) -> None:
        """Forget the turns; with ``system``, set the system message."""
        self._turns = []
        self._system = system if system is not None else self._system

    def ask(self, question: str, on_text: Callable[[str], None] | None) -> ChatAnswer:
        """Ask, handing out the text as it comes; a stopped answer stays in the conversation.

        Raises:
            MrsError: the question cannot be answered; the conversation is as before.
        """
        turn = {"role": "user", "content": question}
        system = [{"role": "system", "content": self._system}] if self._system else []
        prompt = self.model.prompts.encode_chat([*system, *self._turns, turn])
        answer = asyncio.run(self._generate(prompt, on_text))
        self._turns += [turn, {"role": "assistant", "content": answer.text}]
        return answer

    async def _generate(
        self, prompt: tuple[int, ...], on_text: Callable[[str], None] | None
    ) -> ChatAnswer:
        started = time.perf_counter()
        request = GenerationRequest(prompt, self._sampling)
        stream = self.model.engine.submit(request)
        text, tokens, first = "", 0, 0.0
        reason = FinishReason.CANCELLED
        try:
            async for deltas in stream:
                for delta in deltas:
                    if delta.error is not None:
                        raise delta.error
                    first = first or time.perf_counter() - started
                    tokens += len(delta.token_ids)
                    text += delta.text
                    if on_text is not None:
                        on_text(delta.text)
                    reason = delta.finish_reason or reason
        except asyncio.CancelledError:
            # Ctrl-C: asyncio.run cancels the task; what was said so far is the answer.
            stream.cancel()
        seconds = time.perf_counter() - started
        return ChatAnswer(text, reason, len(prompt), tokens, first, seconds)


def converse(chat: Chat) -> None:
    """Read questions from the terminal until it ends."""
    note(f"{chat.model.name}: /help lists the commands, Ctrl-D ends.")
    while True:
        try:
            question = input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            sys.stdout.write("\n" if sys.stdin.isatty() else "")
            return
        except KeyboardInterrupt:
            sys.stdout.write("\n")
            continue
        if question.startswith("/"):
            if not _command(chat, question):
                return
        elif question:
            _answer(chat, question)


def _command(chat: Chat, line: str) -> bool:
    """Carry out a command; False ends the conversation."""
    word, _, argument = line.partition(" ")
    match word:
        case "/exit" | "/bye" | "/quit":
            return False
        case "/clear":
            chat.clear()
            note("The conversation is forgotten.")
        case "/system" if argument.strip():
            chat.clear(argument.strip())
            note("The system message is set; the conversation is forgotten.")
        case "/help":
            note_lines(_HELP)
        case _:
            note(f"There is no command {word}; /help lists them.")
    return True


def note_lines(text: str) -> None:
    """Write several lines to stderr."""
    for line in text.splitlines():
        note(line)


def _answer(chat: Chat, question: str) -> None:
    try:
        answer = chat.ask(question, write_answer)
    except MrsError as error:
        print_error(error)
        return
    except KeyboardInterrupt:
        sys.stdout.write("\n")
        return
    sys.stdout.write("\n")
    ended = {FinishReason.LENGTH: ", cut at the limit", FinishReason.CANCELLED: ", stopped"}
    note(
        f"[{answer.completion_tokens} tokens, {answer.tokens_per_second:.0f} tok/s"
        f"{ended.get(answer.finish_reason, '')}]"
    )
