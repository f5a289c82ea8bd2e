"""Folders without ``tokenizer.json``: the files of transformers' older, slow tokenizers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mrs.errors import CheckpointError, CorruptCheckpointError, UnsupportedTokenizerError
from mrs.export.checkpoints.json_section import read_json
from mrs.export.tokenizers.byte_level_bpe import byte_level_bpe_json
from mrs.export.tokenizers.hf_added_tokens import NamedTokens
from mrs.export.tokenizers.pre_tokenizers import PRE_TOKENIZERS
from mrs.export.tokenizers.sentence_piece_bpe import sentence_piece_bpe_json
from mrs.export.tokenizers.sentence_piece_file import (
    SentencePieceFile,
    parse_sentence_piece_file,
)
from mrs.export.tokenizers.sentence_pieces import SPACE, SentencePieces, SpacePrefix
from mrs.export.tokenizers.small_file import MAX_VOCABULARY_BYTES, read_bytes, read_text
from mrs.export.tokenizers.token_types import TokenType
from mrs.export.tokenizers.unigram import unigram_json
from mrs.export.tokenizers.word_piece import WordPieces, word_piece_json

SENTENCE_PIECE_FILES = ("tokenizer.model", "spiece.model")
_BYTE_LEVEL_FILES = ("vocab.json", "merges.txt")
_WORD_PIECE_FILE = "vocab.txt"
_MOST_GAPS = 65536

# How each class cuts text into words.
_RULES = {
    "GPT2Tokenizer": "gpt-2",
    "CodeGenTokenizer": "phi-2",
    "GPTNeoXTokenizer": "gpt-2",
    "RobertaTokenizer": "roberta-bpe",
    "Qwen2Tokenizer": "qwen2",
}
_COMPOSING = ("Qwen2Tokenizer",)
# What classes put around a text where the configuration does not say.
_ADD_BOS = ("Llama", "CodeLlama", "Gemma", "Roberta", "Bert", "XLMRoberta", "MPNet")
_ADD_END = ("Roberta", "Bert", "XLMRoberta", "MPNet", "T5", "MT5")


@dataclass(frozen=True)
class SlowTokenizer:
    """A converted vocabulary.

    Attributes:
        tokenizer_json: the file for the ``tokenizers`` library.
        texts: tokens with a task (``bos``, ``eos``, ...) that the files name and the
            configuration may not.
        add_bos, add_end: what the class puts around a text.
    """

    tokenizer_json: bytes
    texts: dict[str, str]
    add_bos: bool
    add_end: bool


def read_slow_tokenizer(folder: Path, named: NamedTokens) -> SlowTokenizer:
    """Convert what vocabulary a folder has.

    Raises:
        UnsupportedTokenizerError: it is of a kind that mrs cannot convert.
        CheckpointError: there is none, or its files contradict each other.
        StorageError: a file cannot be read.
    """
    for name in SENTENCE_PIECE_FILES:
        if (folder / name).exists():
            return _sentence_piece(folder / name, named)
    if all((folder / name).exists() for name in _BYTE_LEVEL_FILES):
        return _byte_level(folder, named)
    if (folder / _WORD_PIECE_FILE).exists():
        return _word_piece(folder, named)
    raise CheckpointError(
        f"{folder.name} holds no tokenizer.",
        hint="Download tokenizer.json, tokenizer.model, vocab.json and merges.txt, or vocab.txt "
        "of the model too.",
    )


class _Vocabulary:
    """Tokens with their types, as added tokens change them."""

    def __init__(self, tokens: list[str], types: list[TokenType]) -> None:
        self.tokens = tokens
        self.types = types

    def add(self, named: NamedTokens, *, spaces_as: str | None = None) -> None:
        """Put the added tokens in their places, and mark those with a task."""
        for token in named.added():
            content = token["content"]
            if spaces_as is not None and not token["special"]:
                content = content.replace(spaces_as, " ")
            kind = TokenType.CONTROL if token["special"] else TokenType.USER_DEFINED
            self._put(token["id"], content, kind)
        index = {token: id_ for id_, token in enumerate(self.tokens)}
        for text in named.special_texts():
            id_ = index.get(text)
            if id_ is not None and self.types[id_] is not TokenType.UNKNOWN:
                self.types[id_] = TokenType.CONTROL

    def _put(self, id_: int, content: str, kind: TokenType) -> None:
        gap = id_ - len(self.tokens)
        if gap > _MOST_GAPS:
            raise CorruptCheckpointError(
                f"The added token {content[:40]!a} has the id {id_}, far behind the others."
            )
        for missing in range(len(self.tokens), id_ + 1):
            self.tokens.append(f"[EMPTY_{missing}]")
            self.types.append(TokenType.UNUSED)
        unchanged = self.tokens[id_] == content and self.types[id_] is TokenType.UNKNOWN
        self.tokens[id_] = content
        self.types[id_] = TokenType.UNKNOWN if unchanged else kind

    def check_distinct(self) -> None:
        """Refuse a token that is there twice, or has no text."""
        seen: dict[str, int] = {}
        for id_, token in enumerate(self.tokens):
            if not token:
                self.tokens[id_] = token = f"[EMPTY_{id_}]"
            if seen.setdefault(token, id_) != id_:
                raise CorruptCheckpointError(
                    f"Tokens {seen[token]} and {id_} are both {token[:60]!a}."
                )


def _sentence_piece(path: Path, named: NamedTokens) -> SlowTokenizer:
    file = parse_sentence_piece_file(read_bytes(path, MAX_VOCABULARY_BYTES), path.name)
    vocabulary = _Vocabulary(list(file.tokens), list(file.types))
    vocabulary.add(named, spaces_as=SPACE)
    vocabulary.check_distinct()
    least = [0.0] * (len(vocabulary.tokens) - len(file.scores))
    pieces = SentencePieces(
        tokens=vocabulary.tokens,
        scores=[*file.scores, *least],
        types=vocabulary.types,
        unk_token_id=file.unk_id,
        space_prefix=_space_prefix(file, named),
        single_spaces=file.single_spaces,
        charsmap=file.charsmap,
        swallow_after=frozenset(t["content"] for t in named.added() if t["rstrip"]),
    )
    encoded = sentence_piece_bpe_json(pieces) if file.is_bpe else unigram_json(pieces)
    ids = {"bos": file.bos_id, "eos": file.eos_id, "unk": file.unk_id, "pad": file.pad_id}
    texts = {task: file.tokens[id_] for task, id_ in ids.items() if id_ is not None}
    default = "Llama" if file.is_bpe else "T5"
    return SlowTokenizer(encoded, texts, *_around(named, default))


def _space_prefix(file: SentencePieceFile, named: NamedTokens) -> SpacePrefix:
    wanted = named.config.flag("add_prefix_space", file.space_prefix)
    if not wanted:
        return "never"
    # The older behaviour puts a space behind every special token too.
    return "always" if named.config.flag("legacy", True) else "first"


def _byte_level(folder: Path, named: NamedTokens) -> SlowTokenizer:
    class_name = named.config.optional_text("tokenizer_class") or "GPT2Tokenizer"
    class_name = class_name.removesuffix("Fast")
    rule = _RULES.get(class_name)
    if rule is None:
        raise UnsupportedTokenizerError(
            f"vocab.json and merges.txt belong to a {class_name}, which mrs cannot convert.",
            hint="Save the model with transformers once, which writes tokenizer.json.",
        )
    vocabulary = _Vocabulary(*_ids_of_tokens(folder))
    vocabulary.add(named)
    vocabulary.check_distinct()
    lines = read_text(folder / "merges.txt", MAX_VOCABULARY_BYTES).split("\n")
    merges = [line for line in lines if line and not line.startswith("#version")]
    encoded = byte_level_bpe_json(
        vocabulary.tokens,
        vocabulary.types,
        merges,
        PRE_TOKENIZERS[rule],
        compose=class_name in _COMPOSING,
    )
    return SlowTokenizer(encoded, {}, *_around(named, class_name))


def _ids_of_tokens(folder: Path) -> tuple[list[str], list[TokenType]]:
    values = read_json(folder / "vocab.json", MAX_VOCABULARY_BYTES)
    ids = {token: values.count(token) for token in values.values}
    size = max(ids.values(), default=-1) + 1
    if size > len(ids) + _MOST_GAPS:
        raise CorruptCheckpointError(f"vocab.json has {len(ids)} tokens with ids up to {size}.")
    tokens = [""] * size
    for token, id_ in ids.items():
        tokens[id_] = token
    return tokens, [TokenType.NORMAL] * size


def _word_piece(folder: Path, named: NamedTokens) -> SlowTokenizer:
    tokens = read_text(folder / _WORD_PIECE_FILE, MAX_VOCABULARY_BYTES).split("\n")
    if tokens and not tokens[-1]:
        tokens.pop()
    vocabulary = _Vocabulary(tokens, [TokenType.NORMAL] * len(tokens))
    texts = {
        "unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]",
    }  # fmt: skip
    texts |= {task: text for task in texts if (text := named.text(task))}
    for id_, token in enumerate(tokens):
        if token in texts.values():
            vocabulary.types[id_] = TokenType.CONTROL
    vocabulary.add(named)
    vocabulary.check_distinct()
    lowercase = named.config.flag("do_lower_case", True)
    accents = named.config.optional_flag("strip_accents")
    encoded = word_piece_json(
        WordPieces(
            tokens=vocabulary.tokens,
            types=vocabulary.types,
            unk_token_id=_index(vocabulary.tokens, texts["unk"]),
            lowercase=lowercase,
            strip_accents=lowercase if accents is None else accents,
        )
    )
    return SlowTokenizer(encoded, texts, True, True)


def _index(tokens: list[str], token: str) -> int | None:
    return tokens.index(token) if token in tokens else None


def _around(named: NamedTokens, default: str) -> tuple[bool, bool]:
    class_name = (named.config.optional_text("tokenizer_class") or default).removesuffix("Fast")
    family = class_name.removesuffix("Tokenizer")
    return family in _ADD_BOS, family in _ADD_END
