"""How byte-level BPE vocabularies split text into words before any merge.

GGUF names the rule in ``tokenizer.ggml.pre``; llama.cpp's ``src/llama-vocab.cpp`` defines the
names. A rule is a list of regular expressions. Each one cuts the pieces that the one before it
left: every match becomes a piece of its own, and so does the text between two matches. Expressions
see one piece at a time, so a lookahead ends at the piece's end.

The expressions are written for Oniguruma, the engine of the ``tokenizers`` library, and cut where
llama.cpp cuts. Oniguruma's tables are Unicode 16 and llama.cpp's are Unicode 15: characters that
are newer than 15 may be cut differently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class PreTokenizer:
    """One rule.

    Attributes:
        patterns: the regular expressions, in order.
        ignore_merges: a piece that is a token as a whole is taken without merging.
        add_bos: whether prompts start with BOS when the checkpoint does not say.
        add_sep: whether texts to embed end with SEP when the checkpoint does not say.
    """

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    add_sep: bool = False


def _character_class(ranges: str) -> str:
    """``41-5A B5`` as the class ``[\\x{41}-\\x{5A}\\x{B5}]``."""
    return "[" + re.sub(r"[0-9A-F]+", r"\\x{\g<0>}", ranges).replace(" ", "") + "]"


_SPACES = r"\s+(?!\S)|\s+"
_LINES_THEN_SPACES = rf"\s*[\r\n]+|{_SPACES}"
_CONTRACTION = "'[sStTmMdD]|'[rRvV][eE]|'[lL][lL]"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SYMBOLS_AND_LINES = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_ASCII_PUNCTUATION = r"[!-/:-@\[-`{-~]"
_SINGLE_DIGIT = r"\p{N}"
_UP_TO_3_DIGITS = r"\p{N}{1,3}"
_3_ASCII_DIGITS = "[0-9][0-9][0-9]"
_CJK_AND_HANGUL = f"[{_character_class('800-4E00 4E00-9FA5 AC00-D7FF')}&&[^\\s]]+"
_CJK_AND_KANA = _character_class("4E00-9FA5 3040-30FF") + "+"

_GPT2 = rf"'[stmd]|'[rv]e|'ll| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|{_SPACES}"
_LLAMA3 = f"{_CONTRACTION}|{_WORD}|{_UP_TO_3_DIGITS}|{_SYMBOLS_AND_LINES}|{_LINES_THEN_SPACES}"
_QWEN2 = f"{_CONTRACTION}|{_WORD}|{_SINGLE_DIGIT}|{_SYMBOLS_AND_LINES}|{_LINES_THEN_SPACES}"
_QWEN35 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|{_SINGLE_DIGIT}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_LINES_THEN_SPACES}"
)
_MINICPM5 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}+|{_SYMBOLS_AND_LINES}|{_LINES_THEN_SPACES}"
_SEED_CODER = (
    rf"{_CONTRACTION}|{_WORD}|{_SINGLE_DIGIT}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_LINES_THEN_SPACES}"
)
_BAILING = rf"{_CONTRACTION}|{_WORD}|{_SINGLE_DIGIT}|{_SYMBOLS_AND_LINES}|\s*[\r\n]|{_SPACES}"

# Words whose case may change once, from upper to lower. A letter outside ASCII counts as both,
# as it does in llama.cpp, which does not look up the case of such letters here.
_UPPER = r"[\p{L}&&[^a-z]]"
_LOWER = r"[\p{L}&&[^A-Z]]"
_CASED_HEAD = r"[^\r\n\p{L}\p{N}]?"
_SYMBOLS_LINES_AND_SLASHES = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_TEKKEN = (
    f"{_CASED_HEAD}{_UPPER}*{_LOWER}+|{_CASED_HEAD}{_UPPER}+{_LOWER}*"
    f"|{_SINGLE_DIGIT}|{_SYMBOLS_LINES_AND_SLASHES}|{_LINES_THEN_SPACES}"
)
_GPT4O = (
    f"{_CASED_HEAD}{_UPPER}*{_LOWER}+(?:{_CONTRACTION})?"
    f"|{_CASED_HEAD}{_UPPER}+{_LOWER}*(?:{_CONTRACTION})?"
    f"|{_UP_TO_3_DIGITS}|{_SYMBOLS_LINES_AND_SLASHES}|{_LINES_THEN_SPACES}"
)

# The same with marks among the letters.
_UPPER_OR_MARK = r"[[\p{L}\p{M}]&&[^a-z]]"
_LOWER_OR_MARK = r"[[\p{L}\p{M}]&&[^A-Z]]"
_GRANITE_EMBEDDING = (
    f"{_CASED_HEAD}{_UPPER_OR_MARK}*{_LOWER_OR_MARK}+(?:{_CONTRACTION})?"
    f"|{_CASED_HEAD}{_UPPER_OR_MARK}+{_LOWER_OR_MARK}*(?:{_CONTRACTION})?"
    f"|{_UP_TO_3_DIGITS}|{_SYMBOLS_LINES_AND_SLASHES}|{_LINES_THEN_SPACES}"
)
_SPACES_BY_POWERS = "|".join(
    [*(rf"\s{{{2**power}}}(?!\S)" for power in range(9, 1, -1)), r"\s{1,2}(?!\S)", r"\s"]
)
_JAIS2 = (
    rf"{_CONTRACTION}|{_WORD}|{_UP_TO_3_DIGITS}|{_SYMBOLS_AND_LINES}|\s*[\r\n]+|{_SPACES_BY_POWERS}"
)
_EXAONE_MOE = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+"
    rf"|{_SINGLE_DIGIT}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]?|\s*[\r\n]|{_SPACES}"
)
_UFAKZEKA = rf"{_WORD}|{_SINGLE_DIGIT}|{_SYMBOLS_AND_LINES}|{_LINES_THEN_SPACES}"

_BLOOM = r" ?[^\s(|.,!?)\x{2026}\x{3002}\x{FF0C}\x{3001}\x{0964}\x{06D4}\x{060C}]+"

# DeepSeek's first vocabularies spell out the cased letters that make a word (most of Unicode 11's).
_DEEPSEEK_LETTERS = _character_class(
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376-377 37B-37D 37F 386 "
    "388-38A 38C 38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD "
    "1C90-1CBA 1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D "
    "1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 "
    "1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 "
    "212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183-2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE "
    "2CF2-2CF3 A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 "
    "FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 "
    "118A0-118DF 1E900-1E943"
)
_DEEPSEEK_PUNCTUATION = _character_class("21-2F 3A-7E 2018-201F 3001-3002 FF01-FF0F FF1A-FF5E")
_DEEPSEEK3 = (
    rf"{_ASCII_PUNCTUATION}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_LINES_THEN_SPACES}"
)

_RULES: tuple[tuple[str, PreTokenizer], ...] = (
    ("default", PreTokenizer((r"[\p{P}$+<=>^~|]+", _GPT2, r"\p{N}+", _3_ASCII_DIGITS))),
    (
        "gpt-2 phi-2 mpt olmo jais trillion granite-docling exaone4 gigachat a.x-4.0 mellum "
        "jina-es jina-de jina-v2-es jina-v2-de modern-bert",
        PreTokenizer((_GPT2,)),
    ),
    ("jina-v1-en jina-v2-code roberta-bpe", PreTokenizer((_GPT2,), add_sep=True)),
    (
        "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
        PreTokenizer((_SINGLE_DIGIT, _GPT2)),
    ),
    (
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
        PreTokenizer((_LLAMA3,), ignore_merges=True, add_bos=True),
    ),
    ("dbrx smaug-bpe chatglm-bpe", PreTokenizer((_LLAMA3,))),
    ("glm4 glm5", PreTokenizer((_LLAMA3,), ignore_merges=True)),
    ("minicpm5", PreTokenizer((_UP_TO_3_DIGITS, _MINICPM5), ignore_merges=True)),
    (
        "qwen2 deepseek-r1-qwen kormo megrez stablelm2 hunyuan solar-open grok-2 f2llmv2",
        PreTokenizer((_QWEN2,)),
    ),
    ("qwen35", PreTokenizer((_QWEN35,))),
    ("seed-coder", PreTokenizer((_SEED_CODER,))),
    ("bailingmoe bailingmoe2 llada-moe", PreTokenizer((_BAILING,))),
    ("laguna", PreTokenizer((r"[^\n]+|[\n]+", _QWEN2))),
    ("ufakzeka", PreTokenizer((_UFAKZEKA,))),
    ("jais-2", PreTokenizer((_JAIS2,))),
    ("exaone-moe", PreTokenizer((_EXAONE_MOE,))),
    ("granite-embed-multi-97m", PreTokenizer((_GRANITE_EMBEDDING,), ignore_merges=True)),
    ("tekken", PreTokenizer((_TEKKEN,), ignore_merges=True, add_bos=True)),
    ("gpt-4o llama4 kanana2 minimax-m2 talkie", PreTokenizer((_GPT4O,))),
    (
        "deepseek-llm",
        PreTokenizer(
            (
                r"[\r\n]",
                rf"\s?{_DEEPSEEK_LETTERS}+",
                rf"\s?{_DEEPSEEK_PUNCTUATION}+",
                r"\s+\z",
                _CJK_AND_HANGUL,
                r"\p{N}+",
            )
        ),
    ),
    (
        "deepseek-coder",
        PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK_AND_HANGUL, _SINGLE_DIGIT)),
    ),
    (
        "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
        PreTokenizer((_UP_TO_3_DIGITS, _CJK_AND_KANA, _DEEPSEEK3)),
    ),
    ("falcon", PreTokenizer((r"[\p{P}$+<=>^~|`]+", _GPT2, _3_ASCII_DIGITS))),
    ("bloom poro-chat gpt3-finnish", PreTokenizer((_BLOOM,))),
    ("viking", PreTokenizer((_BLOOM, _SINGLE_DIGIT))),
)

PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    name: rule for names, rule in _RULES for name in names.split()
}
"""Every rule that mrs implements, by its name in ``tokenizer.ggml.pre``."""
