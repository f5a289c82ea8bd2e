"""A conversation to what the engine is asked for, and to who reads its answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mrs.errors import InvalidValueError
from mrs.runtime.generation import GenerationRequest
from mrs.server.conversation.answer_reader import AnswerReader
from mrs.server.conversation.conversation import AnswerOptions, Conversation
from mrs.server.served_model import ServedModel


@dataclass(frozen=True)
class PreparedConversation:
    """Ready for the engine.

    Attributes:
        generation: what to ask of it.
        new_reader: makes the reader of one choice.
    """

    generation: GenerationRequest
    new_reader: Callable[[], AnswerReader]


def prepare(
    conversation: Conversation, options: AnswerOptions, model: ServedModel
) -> PreparedConversation:
    """Render and tokenize a conversation.

    Raises:
        ChatTemplateError: the template refuses the messages.
        RequestError: something in it cannot be honoured.
    """
    prompt_ids = model.prompts.encode_chat(conversation.messages, add_generation_prompt=True)
    if not prompt_ids:
        raise InvalidValueError("The messages make an empty prompt.", param="messages")
    generation = GenerationRequest(
        prompt_ids,
        options.sampling,
        options.n,
        cache_salt=options.cache_salt,
        truncate=options.truncate,
    )
    return PreparedConversation(generation, AnswerReader)
