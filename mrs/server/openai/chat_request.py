"""The body of a chat completion request to what the engine is asked for."""

from __future__ import annotations

from mrs.errors import InvalidValueError
from mrs.runtime.generation import GenerationRequest
from mrs.server.openai.messages import template_messages
from mrs.server.openai.sampling import chat_sampling_params
from mrs.server.openai.schemas import ChatCompletionRequest
from mrs.server.openai.unsupported import UNSUPPORTED_FIELDS, refuse_unsupported
from mrs.server.served_model import ServedModel
from mrs.server.validation import parse_request


def parse_chat_request(body: bytes) -> ChatCompletionRequest:
    """Parse a body and check everything that needs no tokenizer.

    Raises:
        RequestError: the request cannot be honoured; the class and the sentence tell why.
    """
    request = parse_request(ChatCompletionRequest, body)
    refuse_unsupported(request.model_extra or {}, UNSUPPORTED_FIELDS)
    _check_limits(request)
    return request


def generation_request(request: ChatCompletionRequest, model: ServedModel) -> GenerationRequest:
    """Render and tokenize the conversation of a checked request.

    Raises:
        ChatTemplateError: the template refuses the messages.
        RequestError: a message, or the prompt as a whole, cannot be honoured.
    """
    messages = template_messages(request.messages)
    prompt_ids = model.prompts.encode_chat(messages, add_generation_prompt=True)
    if not prompt_ids:
        raise InvalidValueError("The messages make an empty prompt.", param="messages")
    return GenerationRequest(
        prompt_ids,
        chat_sampling_params(request, model),
        request.n or 1,
        cache_salt=request.cache_salt or "",
    )


def _check_limits(request: ChatCompletionRequest) -> None:
    if request.top_logprobs and not request.logprobs:
        raise InvalidValueError(
            "'top_logprobs' needs 'logprobs': true.",
            hint="Send both, or neither.",
            param="top_logprobs",
        )
    new, old = request.max_completion_tokens, request.max_tokens
    if new is not None and old is not None and new != old:
        raise InvalidValueError(
            f"'max_completion_tokens' is {new} and 'max_tokens' is {old}: they name one limit.",
            hint="Send one of them.",
            param="max_completion_tokens",
        )
