from __future__ import annotations

import pytest

from mrs.export.tokenizers.token_types import TokenType, effective_types, end_token_ids


def type_of(token: str, stored: int | None) -> TokenType:
    (kind,) = effective_types([token], None if stored is None else [stored])
    return kind


@pytest.mark.parametrize("kind", list(TokenType))
def test_a_stored_type_is_taken(kind: TokenType) -> None:
    assert type_of("word", kind.value) is kind


def test_without_types_tokens_are_normal() -> None:
    assert type_of("word", None) is TokenType.NORMAL


@pytest.mark.parametrize("stored", [-1, 7, 2**31])
def test_an_unknown_type_is_undefined(stored: int) -> None:
    assert type_of("word", stored) is TokenType.UNDEFINED


@pytest.mark.parametrize("token", ["<|im_end|>", "<|endoftext|>", "<|fim_prefix|>", "</s>"])
def test_tokens_that_steer_models_are_control_tokens_whatever_is_stored(token: str) -> None:
    assert type_of(token, TokenType.NORMAL.value) is TokenType.CONTROL


def test_the_marks_of_channels_are_control_tokens_though_answers_show_them() -> None:
    assert type_of("<|channel|>", TokenType.USER_DEFINED.value) is TokenType.CONTROL


@pytest.mark.parametrize(
    ("tokens", "named", "template", "expected"),
    [
        (["a", "</s>", "<|im_end|>"], [1, None], "<|im_end|>", (1, 2)),
        (["a", "</s>", "<|im_end|>"], [1], None, (1,)),
        (["a", "</s>", "<|im_end|>"], [2, 1, 0], None, (2, 0, 1)),
        (["<|end|>", "<|user|>"], [1], "<|user|>..<|end|>", (1, 0)),
        # Each message of GPT-OSS has an end, and the answer another.
        (["<|end|>", "<|return|>", "<|call|>"], [1, 0, 2], "..<|end|>", (1, 2)),
        (["<|end|>", "<|return|>"], [1], "..<|end|>", (1, 0)),
        ([], [], None, ()),
    ],
)
def test_answers_end_where_the_model_or_its_template_says(
    tokens: list[str],
    named: list[int | None],
    template: str | None,
    expected: tuple[int, ...],
) -> None:
    assert end_token_ids(tokens, named, template) == expected
