"""Make `reference.json.gz`: token ids by llama.cpp for many strings.

    python -m tests.data.tokenizer.generate SmolLM2-135M-Instruct.Q4_1.gguf gemma3-270m-q4_k_m.gguf

from the root of the repository, in an environment that has ``llama-cpp-python`` and ``gguf``
(made with llama-cpp-python 0.3.36). Tests read the result and never run this.

The file holds, as JSON:
    smollm2: [text, ids] or [text, ids, plain] per string, for the vocabulary of SmolLM2; `ids` with
        special tokens parsed, `plain` without, left out where it is the same.
    probe: {pre-tokenizer: [ids per string of `probe_texts`]}, for the probe vocabulary
        (`tests.export.tokenizers.vocabularies`), special tokens not parsed.
    piece_texts: strings for the small SentencePiece vocabularies of the same module.
    pieces: {vocabulary: [[ids, plain] per string of `piece_texts`]}.
    gemma3: as smollm2, for a part of the strings.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.data.tokenizer.texts import smollm2_texts
from tests.export.tokenizers.vocabularies import (
    PROBE_CHARACTERS,
    probe_metadata,
    sentence_piece_metadata,
    unigram_metadata,
    word_piece_metadata,
)

PRE_TOKENIZERS = (
    *("default", "gpt-2", "smollm", "starcoder", "llama-bpe", "dbrx", "glm4", "minicpm5", "qwen2"),
    *("stablelm2", "qwen35", "seed-coder", "bailingmoe", "tekken", "gpt-4o", "deepseek-llm"),
    *("deepseek-coder", "deepseek-v3", "falcon", "bloom", "viking", "laguna", "ufakzeka"),
    *("jais-2", "exaone-moe", "granite-embed-multi-97m"),
)
PIECE_VOCABULARIES = {
    "llama": sentence_piece_metadata(),
    "llama without space prefix": sentence_piece_metadata(add_space_prefix=False),
    "t5": unigram_metadata(),
    "t5 without space prefix": unigram_metadata(remove_extra_whitespaces=None),
    "bert": word_piece_metadata(),
}
OUTPUT = Path(__file__).with_name("reference.json.gz")


def main(smollm2: str, gemma3: str) -> None:
    texts = probe_texts()
    pieces = piece_texts()
    document = {
        "smollm2": model_reference(smollm2, smollm2_texts()),
        "probe_texts": texts,
        "probe": {name: probe_reference(name, texts) for name in PRE_TOKENIZERS},
        "piece_texts": pieces,
        "pieces": {
            name: piece_reference(metadata, pieces) for name, metadata in PIECE_VOCABULARIES.items()
        },
        "gemma3": model_reference(gemma3, [*smollm2_texts()[::4], *GEMMA3_TEXTS]),
    }
    encoded = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    with OUTPUT.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as stream:
        stream.write(encoded)
    print(len(document["smollm2"]), "strings,", OUTPUT.stat().st_size, "bytes")


def load(model: str) -> Any:
    from llama_cpp import Llama

    return Llama(model, vocab_only=True, verbose=False)


GEMMA3_TEXTS = (
    "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n", "<bos>a<eos>", "<unused3> x",
    "<0x0A>", "a<0x41>b", "[multimodal]", "\t\t\tx\n\n\n\ny", "      indented", "a  b", "▁a ▁",
)  # fmt: skip


def model_reference(model: str, texts: list[str]) -> list[list[Any]]:
    vocabulary = load(model)
    entries: list[list[Any]] = []
    for text in texts:
        ids = vocabulary.tokenize(text.encode(), add_bos=False, special=True)
        plain = vocabulary.tokenize(text.encode(), add_bos=False, special=False)
        entries.append([text, ids] if ids == plain else [text, ids, plain])
    return entries


def probe_texts() -> list[str]:
    draw = random.Random(20)
    texts = []
    for count in range(250):
        palette = draw.sample(PROBE_CHARACTERS, draw.randint(2, 9))
        weights = [draw.random() for _ in palette]
        texts.append("".join(draw.choices(palette, weights, k=4 + count % 21)))
    whole_words = ("123", "x123", "019 019", " ab abA", "'ve...", "中あ", "\n\n\n", "   ")
    return [*texts, *whole_words, "<|end|>", "a<|end|>b <think> c"]


def probe_reference(pre_tokenizer: str, texts: list[str]) -> list[list[int]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "probe.gguf"
        write_gguf(path, probe_metadata(pre_tokenizer))
        vocabulary = load(str(path))
        return [vocabulary.tokenize(text.encode(), add_bos=False, special=False) for text in texts]


def piece_texts() -> list[str]:
    draw = random.Random(7)
    words = (
        *("the", "then", "quick", "foo", "a", "aa", "aaa", "==", "=", "abab", "ab", "x", "12", "é"),
        *(
            " ",
            " ",
            "  ",
            "\n",
            "\t",
            "中文",
            "ü",
            "😀",
            "▁",
            "<s>",
            "</s>",
            "<think>",
            "<unk>",
            "z",
            "ß",
        ),
        *("\n\n", "<0x41>", "<|end|>", "[SEP]", "[", "The", "É", ".", ",", "_"),
    )
    texts = ["".join(draw.choices(words, k=1 + count % 16)) for count in range(400)]
    return [*texts, "", " ", "  ", " a", "a ", "  a  b  ", "a" * 50, "ab" * 30, "=" * 33]


def piece_reference(metadata: dict[str, Any], texts: list[str]) -> list[list[list[int]]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pieces.gguf"
        write_gguf(path, metadata)
        vocabulary = load(str(path))
        return [
            [
                vocabulary.tokenize(text.encode(), add_bos=False, special=special)
                for special in (True, False)
            ]
            for text in texts
        ]


def write_gguf(path: Path, metadata: dict[str, Any]) -> None:
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    for key, value in metadata.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            writer.add_string(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
