"""Any GGUF checkpoint's vocabulary -> `TokenizerAssets`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mrs.errors import UnsupportedTokenizerError
from mrs.export.checkpoints.checkpoint import Checkpoint
from mrs.export.tokenizers.byte_level_bpe import byte_level_bpe_json
from mrs.export.tokenizers.gguf_sampling import gguf_sampling
from mrs.export.tokenizers.gguf_vocabulary import GgufVocabulary
from mrs.export.tokenizers.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer
from mrs.export.tokenizers.sentence_piece_bpe import sentence_piece_bpe_json
from mrs.export.tokenizers.sentence_pieces import SentencePieces
from mrs.export.tokenizers.template_files import named_templates
from mrs.export.tokenizers.token_types import TokenType, end_token_ids
from mrs.export.tokenizers.tokenizer_assets import PairTokens, TokenizerAssets
from mrs.export.tokenizers.unigram import unigram_json
from mrs.export.tokenizers.word_piece import WordPieces, word_piece_json

_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")


def convert_tokenizer(checkpoint: Checkpoint) -> TokenizerAssets:
    """Convert the vocabulary that a checkpoint's metadata holds.

    Raises:
        UnsupportedTokenizerError: the model or the pre-tokenizer is of a kind that mrs has not.
        CorruptCheckpointError: parts of the vocabulary are missing or contradict each other.
    """
    vocabulary = GgufVocabulary(checkpoint.metadata)
    model = vocabulary.model
    if model not in _CONVERTERS:
        raise UnsupportedTokenizerError(
            f"The vocabulary is of the kind {model!r}, which mrs cannot convert.",
            hint=f"Supported: {', '.join(sorted(_CONVERTERS))}.",
        )
    tokens = vocabulary.tokens()
    converted = _CONVERTERS[model](vocabulary, tokens, vocabulary.types(tokens))
    return replace(
        _assets(vocabulary, tokens, converted),
        generation_defaults=gguf_sampling(checkpoint.metadata),
    )


@dataclass(frozen=True)
class _Converted:
    """A converted model, and what llama.cpp takes for granted of its kind.

    Attributes:
        ids: the ids of tokens with a task where the metadata has none.
        add_bos, add_eos, add_sep: what is put around a text where the metadata does not say.
    """

    tokenizer_json: bytes
    ids: Mapping[str, int]
    add_bos: bool = False
    add_eos: bool = False
    add_sep: bool = False


def _assets(
    vocabulary: GgufVocabulary, tokens: list[str], converted: _Converted
) -> TokenizerAssets:
    def token_id(key: str) -> int | None:
        return vocabulary.token_id(key, len(tokens), converted.ids.get(key))

    templates = named_templates(vocabulary.chat_templates(), "GGUF metadata")
    bos = token_id("bos_token_id")
    named = [token_id(key) for key in _END_KEYS]
    return TokenizerAssets(
        tokenizer_json=converted.tokenizer_json,
        chat_template=templates.default,
        bos_token_id=bos,
        eos_token_ids=end_token_ids(tokens, named, templates.default),
        add_bos=bos is not None and vocabulary.flag("add_bos_token", converted.add_bos),
        vocab_size=len(tokens),
        named_templates=templates.named,
        template_origin=templates.origin,
        end_token_id=_end_token_id(vocabulary, converted, token_id),
        pair=_pair(vocabulary, bos, token_id),
        pad_token_id=token_id("padding_token_id"),
        unk_token_id=token_id("unknown_token_id"),
    )


def _pair(
    vocabulary: GgufVocabulary, bos: int | None, token_id: Callable[[str], int | None]
) -> PairTokens | None:
    """As BERT's and RoBERTa's tokenizers do, which are told apart by their kind."""
    word_piece = vocabulary.model == "bert"
    end = token_id("seperator_token_id" if word_piece else "eos_token_id")
    if bos is None or end is None:
        return None
    between = (end,) if word_piece else (end, end)
    return PairTokens((bos,), between, (end,), second_type=int(word_piece))


def _end_token_id(
    vocabulary: GgufVocabulary, converted: _Converted, token_id: Callable[[str], int | None]
) -> int | None:
    if vocabulary.flag("add_sep_token", converted.add_sep):
        return token_id("seperator_token_id")
    return token_id("eos_token_id") if vocabulary.flag("add_eos_token", converted.add_eos) else None


def _byte_level_bpe(
    vocabulary: GgufVocabulary, tokens: list[str], types: list[TokenType]
) -> _Converted:
    rule = _pre_tokenizer(vocabulary)
    if TokenType.BYTE in types:
        raise UnsupportedTokenizerError(
            f"Token {types.index(TokenType.BYTE)} stands for a raw byte, "
            "which a byte-level vocabulary has no use for."
        )
    encoded = byte_level_bpe_json(tokens, types, vocabulary.merges(), rule)
    return _Converted(encoded, {}, add_bos=rule.add_bos, add_sep=rule.add_sep)


def _pre_tokenizer(vocabulary: GgufVocabulary) -> PreTokenizer:
    name = vocabulary.text("pre") or "default"
    if name not in PRE_TOKENIZERS:
        raise UnsupportedTokenizerError(
            f"The vocabulary uses the pre-tokenizer {name!r}, which mrs does not have.",
            hint=f"Supported: {', '.join(sorted(PRE_TOKENIZERS))}.",
        )
    return PRE_TOKENIZERS[name]


def _sentence_piece_bpe(
    vocabulary: GgufVocabulary, tokens: list[str], types: list[TokenType]
) -> _Converted:
    ids = {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}
    prefixed = vocabulary.flag("add_space_prefix", True)
    pieces = _sentence_pieces(vocabulary, tokens, types, ids, prefixed)
    return _Converted(sentence_piece_bpe_json(pieces), ids, add_bos=True)


def _unigram(vocabulary: GgufVocabulary, tokens: list[str], types: list[TokenType]) -> _Converted:
    ids = {"eos_token_id": 1, "unknown_token_id": 2, "padding_token_id": 0}
    single = vocabulary.flag("remove_extra_whitespaces", False)
    prefixed = single or vocabulary.flag("add_space_prefix", False)
    pieces = _sentence_pieces(vocabulary, tokens, types, ids, prefixed)
    return _Converted(unigram_json(pieces), ids, add_eos=True)


def _sentence_pieces(
    vocabulary: GgufVocabulary,
    tokens: list[str],
    types: list[TokenType],
    ids: Mapping[str, int],
    prefixed: bool,
) -> SentencePieces:
    if vocabulary.flag("treat_whitespace_as_suffix", False):
        raise UnsupportedTokenizerError(
            "The vocabulary writes spaces behind words, which mrs cannot convert."
        )
    return SentencePieces(
        tokens=tokens,
        scores=vocabulary.scores(tokens),
        types=types,
        unk_token_id=vocabulary.token_id("unknown_token_id", len(tokens), ids["unknown_token_id"]),
        space_prefix="always" if prefixed else "never",
        single_spaces=vocabulary.flag("remove_extra_whitespaces", False),
        charsmap=vocabulary.charsmap(),
        swallow_after=_swallow_after(vocabulary, tokens, types),
    )


def _swallow_after(
    vocabulary: GgufVocabulary, tokens: list[str], types: list[TokenType]
) -> frozenset[str]:
    """Phi-3's control tokens swallow the line's end behind them; GGUF says so by the name alone."""
    name = vocabulary.model_name
    if "phi-3" not in name and "phi3" not in name:
        return frozenset()
    control = {token for token, kind in zip(tokens, types, strict=True) if kind.is_found_in_text}
    return frozenset(control - {"<unk>", "<s>", "<|endoftext|>"})


def _word_piece(
    vocabulary: GgufVocabulary, tokens: list[str], types: list[TokenType]
) -> _Converted:
    ids = {
        "bos_token_id": 101,
        "unknown_token_id": 100,
        "seperator_token_id": 102,
        "padding_token_id": 0,
    }
    pieces = WordPieces(
        tokens=tokens,
        types=types,
        unk_token_id=vocabulary.token_id("unknown_token_id", len(tokens), 100),
        lowercase=vocabulary.flag("normalizer.lowercase", True),
        strip_accents=vocabulary.flag("normalizer.strip_accents", True),
    )
    return _Converted(
        word_piece_json(pieces.with_phantom_spaces_undone()),
        ids,
        add_bos=True,
        add_sep=True,
    )


_CONVERTERS: Mapping[str, Callable[[GgufVocabulary, list[str], list[TokenType]], _Converted]] = {
    "bert": _word_piece,
    "gpt2": _byte_level_bpe,
    "llama": _sentence_piece_bpe,
    "t5": _unigram,
}
