"""The fields of a request that say how tokens are drawn, whatever the endpoint.

OpenAI's own, and those that users of open models know from vLLM, mistral.rs and llama.cpp.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from mrs.server.validation import RequestModel

MAX_CHOICES = 16
MAX_STOP_STRINGS = 16


def _as_list(value: Any) -> Any:
    if value == "":
        raise PydanticCustomError("empty_stop", "a stop string may not be empty")
    return [value] if isinstance(value, str) else value


def _whole(value: Any) -> Any:
    if isinstance(value, bool | float):  # In Python, 0 == False and 2 == 2.0.
        raise PydanticCustomError("int_type", "input should be 0 or 2")
    return value


StopString = Annotated[str, StringConstraints(min_length=1)]
Stop = Annotated[
    list[StopString],
    Field(max_length=MAX_STOP_STRINGS),
    BeforeValidator(_as_list),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1},
                    "maxItems": MAX_STOP_STRINGS,
                },
            ]
        }
    ),
]


def _token_id(key: Any) -> Any:
    """JSON has text for keys; what is no plain number is left to be refused."""
    return int(key) if isinstance(key, str) and key.isascii() and key.isdecimal() else key


TokenId = Annotated[int, Field(ge=0, lt=2**31)]
TokenIds = Annotated[list[TokenId], Field(min_length=1)]
LogitBias = Annotated[
    dict[Annotated[TokenId, BeforeValidator(_token_id)], Annotated[float, Field(ge=-100, le=100)]],
    Field(max_length=1024),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
            "maxProperties": 1024,
        }
    ),
]


class SamplingFields(RequestModel):
    """How tokens are drawn. What is absent is as the model's authors have it, or off."""

    temperature: float | None = Field(
        None, ge=0, le=2, description="0 is greedy; if absent the model's own, or 1."
    )
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(
        None, description="Keep the k most likely tokens; all if absent or below 1."
    )
    min_p: float | None = Field(
        None, ge=0, le=1, description="Drop tokens less than this times as likely as the likeliest."
    )
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    repetition_penalty: float | None = Field(
        None, ge=0.01, le=100, description="Above 1 makes tokens of prompt and answer less likely."
    )
    logit_bias: LogitBias | None = Field(
        None, description="Token ids as keys; what is added to their logits as values."
    )
    dry_multiplier: float | None = Field(
        None, ge=0, le=100, description="Size of the penalties for prolonging repetitions."
    )
    dry_base: float | None = Field(None, ge=1, le=10, description="Their growth; 1.75 if absent.")
    dry_allowed_length: int | None = Field(
        None, ge=1, le=1000, description="Shorter repetitions are let be; 2 if absent."
    )
    dry_sequence_breakers: list[StopString] | None = Field(
        None, max_length=64, description="Texts that no repetition extends over."
    )
    typical_p: float | None = Field(None, gt=0, le=1, description="Locally typical sampling.")
    top_n_sigma: float | None = Field(
        None, ge=0, le=100, description="Drop logits so many deviations below the largest; 0: none."
    )
    xtc_probability: float | None = Field(
        None, ge=0, le=1, description="How often all likely tokens but the last are excluded."
    )
    xtc_threshold: float | None = Field(
        None, ge=0, le=1, description="Share from which a token counts as likely; 0.1 if absent."
    )
    min_tokens: int | None = Field(
        None, ge=0, description="So many tokens come before one may end the answer."
    )
    stop_token_ids: list[TokenId] | None = Field(
        None, max_length=64, description="Tokens that end the answer."
    )
    seed: int | None = Field(
        None,
        ge=-(2**63),
        lt=2**63,
        description="Equal requests with equal seeds get equal answers.",
    )
    stop: Stop | None = Field(None, description="Strings that end the answer, not part of it.")
    ignore_eos: bool | None = Field(None, description="Go on after an end-of-sequence token.")
    mirostat: Annotated[Literal[0, 2], BeforeValidator(_whole)] | None = Field(
        None, description="2: Mirostat 2 instead of all filters; 0: not, whatever else is given."
    )
    mirostat_tau: float | None = Field(
        None, ge=0, le=100, description="Surprise in bits that Mirostat holds; 5 if absent."
    )
    mirostat_eta: float | None = Field(
        None, ge=0, le=1, description="Mirostat's learning rate; 0.1 if absent."
    )
    penalty_window: int | None = Field(
        None, ge=-1, description="Newest tokens that penalties look back at; -1: all; 0: none."
    )
    repeat_last_n: int | None = Field(
        None, ge=-1, description="llama.cpp's name of `penalty_window`."
    )
    repeat_penalty: float | None = Field(
        None, ge=0.01, le=100, description="llama.cpp's name of `repetition_penalty`."
    )
