from __future__ import annotations

import json

import pytest
import tokenizers

from mrs.errors import CorruptCheckpointError
from mrs.export.tokenizers.byte_level_bpe import byte_level_bpe_json
from mrs.export.tokenizers.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer
from mrs.export.tokenizers.token_types import TokenType
from mrs.runtime.tokenizer import Tokenizer
from tests.export.tokenizers.vocabularies import byte_letters

RULE = PRE_TOKENIZERS["gpt-2"]


def tokenizer(
    tokens: list[str],
    merges: list[str],
    rule: PreTokenizer = RULE,
    types: dict[str, TokenType] | None = None,
) -> Tokenizer:
    kinds = [(types or {}).get(token, TokenType.NORMAL) for token in tokens]
    encoded = byte_level_bpe_json(tokens, kinds, merges, rule)
    return Tokenizer(tokenizers.Tokenizer.from_buffer(encoded))


def test_merges_apply_in_the_order_of_the_list() -> None:
    tokens = [*byte_letters(), "ab", "bc"]
    assert tokenizer(tokens, ["b c", "a b"]).encode("abc") == [97, 257]
    assert tokenizer(tokens, ["a b", "b c"]).encode("abc") == [256, 99]


def test_a_repeated_merge_counts_at_its_first_place() -> None:
    tokens = [*byte_letters(), "ab", "bc"]
    assert tokenizer(tokens, ["a b", "b c", "a b"]).encode("abc") == [256, 99]


def test_a_word_without_merges_is_found_whole_only_if_the_rule_says_so() -> None:
    tokens = [*byte_letters(), "abc"]
    whole = PreTokenizer(RULE.patterns, ignore_merges=True)
    assert tokenizer(tokens, [], whole).encode("abc") == [256]
    assert tokenizer(tokens, []).encode("abc") == [97, 98, 99]


def test_a_byte_without_token_is_dropped_and_keeps_its_neighbours_apart() -> None:
    tokens = [letter for byte, letter in enumerate(byte_letters()) if byte != 4]
    tokens.append("<=")
    without = tokenizer(tokens, ["< ="])
    assert without.decode(without.encode("<=")) == "<="
    assert without.encode("<=") == [len(tokens) - 1]
    assert without.encode("<\x04=") == [tokens.index("<"), tokens.index("=")]


def test_a_lead_byte_without_token_keeps_its_neighbours_apart() -> None:
    letters = byte_letters()
    tokens = [letter for byte, letter in enumerate(letters) if byte != 0xF1]
    pair = letters[0x80] + letters[0x81]
    tokens.append(pair)
    without = tokenizer(tokens, [f"{letters[0x80]} {letters[0x81]}"])
    # U+2800 is E2 A0 80 and U+41000 is F1 81 80 80: without F1, 80 and 81 stand side by side.
    assert len(tokens) - 1 not in without.encode("\u2800\U00041000")


def test_control_tokens_are_special_and_user_defined_ones_are_not() -> None:
    tokens = [*byte_letters(), "<end>", "<think>", "<unk>"]
    types = {
        "<end>": TokenType.CONTROL,
        "<think>": TokenType.USER_DEFINED,
        "<unk>": TokenType.UNKNOWN,
    }
    loaded = tokenizer(tokens, [], types=types)
    assert [loaded.is_special(index) for index in (256, 257, 258)] == [True, False, True]
    assert loaded.encode("<think>", parse_special=False) == [257]


@pytest.mark.parametrize("merge", ["a", "a ", " b", "a b c", ""])
def test_a_merge_that_is_no_pair_is_refused(merge: str) -> None:
    with pytest.raises(CorruptCheckpointError, match="Merge 0"):
        byte_level_bpe_json(byte_letters(), [TokenType.NORMAL] * 256, [merge], RULE)


@pytest.mark.parametrize("merge", ["a b", "a €", "€ a"])
def test_a_merge_of_missing_tokens_is_refused(merge: str) -> None:
    with pytest.raises(CorruptCheckpointError, match="not in the vocabulary"):
        byte_level_bpe_json(byte_letters(), [TokenType.NORMAL] * 256, [merge], RULE)


def test_a_token_that_is_not_text_is_refused() -> None:
    tokens = [*byte_letters(), "\udcff"]
    with pytest.raises(CorruptCheckpointError, match="udcff"):
        byte_level_bpe_json(tokens, [TokenType.NORMAL] * 257, [], RULE)


def test_the_file_names_every_token_with_its_id() -> None:
    encoded = byte_level_bpe_json(byte_letters(), [TokenType.NORMAL] * 256, [], RULE)
    assert json.loads(encoded)["model"]["vocab"] == {
        letter: byte for byte, letter in enumerate(byte_letters())
    }
