from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers.processors import TemplateProcessing

from mrs.errors import CheckpointError, CorruptCheckpointError, UnsupportedTokenizerError
from mrs.export.tokenizers.convert import convert_tokenizer
from mrs.export.tokenizers.hf_tokenizer import read_hf_tokenizer
from mrs.export.tokenizers.token_types import TokenType
from mrs.export.tokenizers.tokenizer_assets import PairTokens, TokenizerAssets
from mrs.runtime.prompt_encoder import PromptEncoder
from mrs.runtime.tokenizer import Tokenizer
from tests.export.tokenizers.hf_folders import sentence_piece_file, write_json
from tests.export.tokenizers.vocabularies import (
    VocabularyCheckpoint,
    chat_metadata,
    sentence_piece_metadata,
    unigram_metadata,
    word_piece_metadata,
)

CHAT = chat_metadata()
CHAT_TOKENS: list[str] = CHAT["tokenizer.ggml.tokens"]
BOS, IM_START, IM_END, IM_END_LONGER, THINK = range(len(CHAT_TOKENS) - 5, len(CHAT_TOKENS))
FAST = convert_tokenizer(VocabularyCheckpoint(CHAT)).tokenizer_json
BOS_FIRST = {
    "type": "TemplateProcessing",
    "single": [
        {"SpecialToken": {"id": "<s>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [BOS], "tokens": ["<s>"]}},
}


def fast_folder(folder: Path, changes: dict[str, Any] | None = None, **files: Any) -> Path:
    document = json.loads(FAST) | (changes or {})
    return write_json(folder, tokenizer=document, **files)


def load(assets: TokenizerAssets) -> Tokenizer:
    return Tokenizer(tokenizers.Tokenizer.from_buffer(assets.tokenizer_json))


def prompts(assets: TokenizerAssets) -> PromptEncoder:
    return PromptEncoder(
        load(assets), None, bos_token_id=assets.bos_token_id, add_bos=assets.add_bos
    )


# --- tokenizer.json ------------------------------------------------------------------------------


def test_a_fast_tokenizer_is_copied_as_it_is(tmp_path: Path) -> None:
    assets = read_hf_tokenizer(fast_folder(tmp_path))
    assert assets.tokenizer_json == FAST
    assert assets.vocab_size == len(CHAT_TOKENS)


def test_the_copy_depends_on_the_content_alone(tmp_path: Path) -> None:
    document = json.loads(FAST)
    shuffled = {key: document[key] for key in reversed(document)}
    (tmp_path / "tokenizer.json").write_text(json.dumps(shuffled, indent=7, ensure_ascii=True))
    assert read_hf_tokenizer(tmp_path).tokenizer_json == FAST


def test_nothing_is_cut_off_or_filled_up(tmp_path: Path) -> None:
    limits = {
        "truncation": {
            "max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right",
        },
        "padding": {
            "strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "!",
        },
    }  # fmt: skip
    assert read_hf_tokenizer(fast_folder(tmp_path, limits)).tokenizer_json == FAST


@pytest.mark.parametrize("eos", ["<|im_end|>", {"content": "<|im_end|>", "lstrip": False}])
def test_tokens_with_a_task_are_texts_or_objects(tmp_path: Path, eos: Any) -> None:
    config = {"bos_token": "<s>", "eos_token": eos, "pad_token": "!", "unk_token": None}
    assets = read_hf_tokenizer(fast_folder(tmp_path, tokenizer_config=config))
    assert (assets.bos_token_id, assets.eos_token_ids) == (BOS, (IM_END,))
    assert (assets.pad_token_id, assets.unk_token_id) == (CHAT_TOKENS.index("!"), None)


def test_the_special_tokens_map_stands_in_for_the_configuration(tmp_path: Path) -> None:
    folder = fast_folder(
        tmp_path,
        tokenizer_config={"eos_token": "<|im_end|>"},
        special_tokens_map={"eos_token": "<s>", "bos_token": "<s>"},
    )
    assets = read_hf_tokenizer(folder)
    assert (assets.bos_token_id, assets.eos_token_ids) == (BOS, (IM_END,))


@pytest.mark.parametrize(
    ("generation", "ends"),
    [
        ({"eos_token_id": IM_START}, (IM_END, IM_START)),
        ({"eos_token_id": [IM_END, BOS, IM_START]}, (IM_END, BOS, IM_START)),
        ({"eos_token_id": 10**6}, (IM_END,)),
        ({}, (IM_END,)),
    ],
)
def test_all_ends_that_the_files_name_end_generation(
    tmp_path: Path, generation: dict[str, Any], ends: tuple[int, ...]
) -> None:
    folder = fast_folder(
        tmp_path, tokenizer_config={"eos_token": "<|im_end|>"}, generation_config=generation
    )
    assert read_hf_tokenizer(folder).eos_token_ids == ends


def test_the_end_of_the_model_counts_too(tmp_path: Path) -> None:
    config = {"model_type": "x", "text_config": {"model_type": "y", "eos_token_id": [3, 4]}}
    assert read_hf_tokenizer(fast_folder(tmp_path, config=config)).eos_token_ids == (3, 4)


def test_the_way_to_sample_is_taken_over(tmp_path: Path) -> None:
    generation = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "x": 1}
    assets = read_hf_tokenizer(fast_folder(tmp_path, generation_config=generation))
    assert assets.generation_defaults == {
        "do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
    }  # fmt: skip


def test_tokens_that_are_never_drawn_are_taken_over_where_they_exist(tmp_path: Path) -> None:
    folder = fast_folder(tmp_path, generation_config={"suppress_tokens": [3, 10**6]})
    assert read_hf_tokenizer(folder).generation_defaults == {"suppress_tokens": [3]}


def test_a_token_of_the_vocabulary_with_a_task_is_special(tmp_path: Path) -> None:
    assets = read_hf_tokenizer(fast_folder(tmp_path, tokenizer_config={"eos_token": "<think>"}))
    assert load(assets).special_tokens["<think>"] == THINK
    plain = read_hf_tokenizer(fast_folder(tmp_path, tokenizer_config={"pad_token": "hello"}))
    assert load(plain).special_tokens["hello"] == CHAT_TOKENS.index("hello")


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer_config": {"additional_special_tokens": ["<think>", {"content": "hello"}]}},
        {"tokenizer_config": {"extra_special_tokens": ["<think>", "hello"]}},
        {"tokenizer_config": {"extra_special_tokens": {"a_token": "<think>", "b": "hello"}}},
        {"special_tokens_map": {"additional_special_tokens": ["<think>", "hello"]}},
    ],
)
def test_tokens_that_are_listed_as_special_are(tmp_path: Path, files: dict[str, Any]) -> None:
    special = load(read_hf_tokenizer(fast_folder(tmp_path, **files))).special_tokens
    assert special["<think>"] == THINK
    assert special["hello"] == CHAT_TOKENS.index("hello")


def test_an_added_token_that_only_the_configuration_has_is_added(tmp_path: Path) -> None:
    added = {str(len(CHAT_TOKENS)): {"content": "<new>", "special": True}}
    folder = fast_folder(tmp_path, tokenizer_config={"added_tokens_decoder": added})
    assets = read_hf_tokenizer(folder)
    assert load(assets).special_tokens["<new>"] == len(CHAT_TOKENS)
    assert assets.vocab_size == len(CHAT_TOKENS) + 1
    bounded = read_hf_tokenizer(folder, rows=len(CHAT_TOKENS))
    assert bounded.vocab_size == len(CHAT_TOKENS)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no JSON"),
        (b"[]", "no object"),
        (b"{}", "cannot be loaded"),
        (b'{"added_tokens": 3}', "added_tokens"),
        (FAST[:-50], "no JSON"),
        (FAST.replace(b'"merges":[', b'"merges":["x y z",'), "cannot be loaded"),
    ],
)
def test_a_malformed_fast_tokenizer_is_corrupt(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match=words):
        read_hf_tokenizer(tmp_path)


def test_added_tokens_that_leave_a_gap_are_refused(tmp_path: Path) -> None:
    document = json.loads(FAST)
    document["added_tokens"].append(
        document["added_tokens"][0] | {"content": "<far>", "id": len(CHAT_TOKENS) + 5}
    )
    with pytest.raises(CorruptCheckpointError, match="<far>"):
        read_hf_tokenizer(write_json(tmp_path, tokenizer=document))


def test_a_decoder_that_cannot_stream_is_named(tmp_path: Path) -> None:
    decoder = {"type": "CTC", "pad_token": "!", "word_delimiter_token": "|", "cleanup": True}
    with pytest.raises(UnsupportedTokenizerError, match="CTC"):
        read_hf_tokenizer(fast_folder(tmp_path, {"decoder": decoder}))


def test_ids_far_beyond_the_tokens_are_refused(tmp_path: Path) -> None:
    document = json.loads(FAST)
    document["model"]["vocab"]["hello"] = 2**31
    with pytest.raises(CheckpointError, match="2147483648"):
        read_hf_tokenizer(write_json(tmp_path, tokenizer=document))


# --- exactly one BOS -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("post_processor", "add_bos_token", "expected"),
    [
        (None, None, False),
        (None, True, True),
        (BOS_FIRST, None, True),
        (BOS_FIRST, False, False),
        (BOS_FIRST, True, True),
    ],
)
def test_bos_is_added_as_the_configuration_says_or_else_the_post_processor(
    tmp_path: Path, post_processor: Any, add_bos_token: bool | None, expected: bool
) -> None:
    config = {"bos_token": "<s>", "add_bos_token": add_bos_token}
    folder = fast_folder(tmp_path, {"post_processor": post_processor}, tokenizer_config=config)
    assets = read_hf_tokenizer(folder)
    assert assets.add_bos is expected
    ids = prompts(assets).encode_text("hello")
    assert ids.count(BOS) == int(expected)


@pytest.mark.parametrize("template", ["{{ bos_token }}{{ messages[0].content }}", "hello"])
@pytest.mark.parametrize("add_bos_token", [True, None])
def test_a_chat_has_one_bos_whoever_writes_it(
    tmp_path: Path, template: str, add_bos_token: bool | None
) -> None:
    from mrs.chat_template import ChatTemplate

    config = {"bos_token": "<s>", "add_bos_token": add_bos_token, "chat_template": template}
    folder = fast_folder(tmp_path, {"post_processor": BOS_FIRST}, tokenizer_config=config)
    assets = read_hf_tokenizer(folder)
    assert assets.chat_template == template
    encoder = PromptEncoder(
        load(assets),
        ChatTemplate(template, bos_token="<s>"),
        bos_token_id=assets.bos_token_id,
        add_bos=assets.add_bos,
    )
    ids = encoder.encode_chat([{"role": "user", "content": "hello"}])
    assert ids == (BOS, CHAT_TOKENS.index("hello"))


# --- two texts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ("<s> $A:0 <e> $B:1 <e>:1", PairTokens((BOS,), (IM_END,), (IM_END,), 1)),
        ("<s> $A <e> <e> $B <e>", PairTokens((BOS,), (IM_END, IM_END), (IM_END,), 0)),
        ("$A <e> $B", PairTokens((), (IM_END,), (), 0)),
        ("<s> $A $B", None),
    ],
    ids=["BERT", "RoBERTa", "only between", "nothing between"],
)
def test_the_post_processor_says_what_is_around_two_texts(
    tmp_path: Path, pair: str, expected: PairTokens | None
) -> None:
    processor = TemplateProcessing(
        single="$A", pair=pair, special_tokens=[("<s>", BOS), ("<e>", IM_END)]
    )
    fast = tokenizers.Tokenizer.from_buffer(FAST)
    fast.post_processor = processor
    folder = write_json(tmp_path, tokenizer=json.loads(fast.to_str()))
    assert read_hf_tokenizer(folder).pair == expected


# --- older files ---------------------------------------------------------------------------------


def slow_tokens(metadata: dict[str, Any]) -> tuple[list[str], list[float], list[TokenType]]:
    tokens = metadata["tokenizer.ggml.tokens"]
    scores = metadata["tokenizer.ggml.scores"]
    return tokens, scores, [TokenType(kind) for kind in metadata["tokenizer.ggml.token_type"]]


def test_a_sentence_piece_file_gives_what_the_same_gguf_gives(tmp_path: Path) -> None:
    metadata = sentence_piece_metadata()
    data = sentence_piece_file(
        *slow_tokens(metadata), trainer={3: 2, 40: 0, 41: 1, 42: 2}, normalizer={4: 0}
    )
    (tmp_path / "tokenizer.model").write_bytes(data)
    assets = read_hf_tokenizer(tmp_path)
    expected = convert_tokenizer(VocabularyCheckpoint(metadata))
    assert assets.tokenizer_json == expected.tokenizer_json
    assert (assets.bos_token_id, assets.eos_token_ids, assets.add_bos) == (1, (2,), True)


def test_a_unigram_file_gives_what_the_same_gguf_gives(tmp_path: Path) -> None:
    metadata = unigram_metadata()
    data = sentence_piece_file(*slow_tokens(metadata), trainer={40: 2, 41: -1, 42: 1, 43: 0})
    (tmp_path / "spiece.model").write_bytes(data)
    assets = read_hf_tokenizer(tmp_path)
    expected = convert_tokenizer(VocabularyCheckpoint(metadata))
    assert assets.tokenizer_json == expected.tokenizer_json
    assert (assets.bos_token_id, assets.end_token_id, assets.pad_token_id) == (None, 1, 0)


def test_without_the_legacy_behaviour_only_the_beginning_gets_a_space(tmp_path: Path) -> None:
    data = sentence_piece_file(
        *slow_tokens(sentence_piece_metadata()), trainer={3: 2}, normalizer={4: 0}
    )
    (tmp_path / "tokenizer.model").write_bytes(data)
    new = load(read_hf_tokenizer(write_json(tmp_path, tokenizer_config={"legacy": False})))
    assert new.decode(new.encode("the<s>the")) == "the<s>the"
    assert new.encode("the") == [new.encode("a the")[-1]]
    old = load(read_hf_tokenizer(write_json(tmp_path, tokenizer_config={"legacy": True})))
    assert old.decode(old.encode("the<s>the")) == "the<s> the"


def test_added_tokens_come_behind_the_pieces(tmp_path: Path) -> None:
    tokens, scores, types = slow_tokens(sentence_piece_metadata())
    (tmp_path / "tokenizer.model").write_bytes(
        sentence_piece_file(tokens, scores, types, trainer={3: 2}, normalizer={3: 0, 4: 0})
    )
    size = len(tokens)
    config = {
        "added_tokens_decoder": {
            str(size): {"content": "<|user|>", "special": True, "rstrip": True},
            str(size + 2): {"content": "▁▁▁▁", "special": False},
        }
    }
    folder = write_json(tmp_path, tokenizer_config=config, added_tokens={"<tool>": size + 1})
    tokenizer = load(read_hf_tokenizer(folder))
    assert tokenizer.special_tokens["<|user|>"] == size
    assert tokenizer.encode("<|user|>\n\tthe") == tokenizer.encode("<|user|>the")
    assert tokenizer.encode("<tool>    ") == [size + 1, size + 2]


def byte_level_folder(folder: Path, class_name: str | None = None) -> Path:
    vocabulary = {token: id_ for id_, token in enumerate(CHAT_TOKENS[:BOS])}
    merges = "\n".join(["#version: 0.2", *CHAT["tokenizer.ggml.merges"], ""])
    (folder / "merges.txt").write_text(merges, encoding="utf-8")
    added = {
        str(id_): {"content": CHAT_TOKENS[id_], "special": id_ != THINK}
        for id_ in range(BOS, len(CHAT_TOKENS))
    }
    config = {"added_tokens_decoder": added, "tokenizer_class": class_name, "bos_token": "<s>"}
    return write_json(folder, vocab=vocabulary, tokenizer_config=config)


def test_a_vocabulary_with_merges_gives_what_the_same_gguf_gives(tmp_path: Path) -> None:
    assets = read_hf_tokenizer(byte_level_folder(tmp_path))
    assert assets.tokenizer_json == FAST
    assert (assets.bos_token_id, assets.add_bos) == (BOS, False)


def test_the_class_says_how_words_are_cut(tmp_path: Path) -> None:
    qwen = load(read_hf_tokenizer(byte_level_folder(tmp_path, "Qwen2TokenizerFast")))
    assert qwen.encode("e\u0301") == qwen.encode("\u00e9")
    with pytest.raises(UnsupportedTokenizerError, match="OddTokenizer"):
        read_hf_tokenizer(byte_level_folder(tmp_path, "OddTokenizer"))


def test_a_list_of_word_pieces_gives_what_the_same_gguf_gives(tmp_path: Path) -> None:
    expected = convert_tokenizer(VocabularyCheckpoint(word_piece_metadata()))
    model = json.loads(expected.tokenizer_json)["model"]["vocab"]
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in model), "utf-8")
    in_order = sorted(model, key=model.get)
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in in_order), "utf-8")
    assets = read_hf_tokenizer(tmp_path)
    assert assets.tokenizer_json == expected.tokenizer_json
    assert (assets.bos_token_id, assets.add_bos, assets.end_token_id) == (2, True, 3)
    assert assets.pair == expected.pair == PairTokens((2,), (3,), (3,), second_type=1)


def test_a_cased_list_of_word_pieces_keeps_case_and_accents(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[UNK]\nA\na\né\n", "utf-8")
    folder = write_json(tmp_path, tokenizer_config={"do_lower_case": False})
    assert load(read_hf_tokenizer(folder)).encode("A a é") == [1, 2, 3]
    folder = write_json(tmp_path, tokenizer_config={"do_lower_case": True})
    assert load(read_hf_tokenizer(folder)).encode("A a é") == [2, 2, 0]


def test_a_folder_without_tokenizer_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no tokenizer") as caught:
        read_hf_tokenizer(tmp_path)
    assert "tokenizer.json" in caught.value.hint


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"tokenizer_config": {"eos_token": 3}}, "eos_token is no token"),
        ({"tokenizer_config": {"added_tokens_decoder": {"x": {"content": "a"}}}}, "malformed"),
        ({"tokenizer_config": {"added_tokens_decoder": {"5": "a"}}}, "malformed"),
        ({"tokenizer_config": {"add_bos_token": "yes"}}, "add_bos_token"),
        ({"tokenizer_config": []}, "no object"),
        ({"added_tokens": {"<x>": -1}}, "<x>"),
        ({"generation_config": {"eos_token_id": "2"}}, "eos_token_id"),
        ({"generation_config": {"temperature": "hot"}}, "temperature"),
    ],
)
def test_a_malformed_file_is_named(tmp_path: Path, files: dict[str, Any], words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        read_hf_tokenizer(fast_folder(tmp_path, **files))


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    import os

    folder = byte_level_folder(tmp_path)
    shutil.rmtree(tmp_path / "nothing", ignore_errors=True)
    (folder / "merges.txt").unlink()
    os.mkfifo(folder / "merges.txt")
    with pytest.raises(CorruptCheckpointError, match="regular"):
        read_hf_tokenizer(folder)
