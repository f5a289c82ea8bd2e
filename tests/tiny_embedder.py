"""A tiny BERT with a tokenizer: a folder that can be exported whole."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from tests.reference.embedding_cases import CASES
from tests.reference.tiny_embedding import VOCABULARY, write_reference_model

CASE = CASES[0]
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
PAD, UNK, CLS, SEP = range(4)
SETTINGS = {"prompts": {"query": "find ", "plain": ""}}


def write_folder(folder: Path, settings: dict[str, Any] = SETTINGS) -> Path:
    """A model of 48 positions that makes vectors of 64 dimensions, with two prompts."""
    write_reference_model(CASE, folder)
    write_tokenizer(folder)
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return folder


def write_tokenizer(folder: Path) -> None:
    """A tokenizer of letters and digits, which joins two texts as BERT's does."""
    letters = string.ascii_lowercase
    tokens = [*SPECIAL, *letters, *(f"##{letter}" for letter in letters), *string.digits]
    tokens += [f"[unused{index}]" for index in range(VOCABULARY - len(tokens))]
    tokenizer = Tokenizer(
        WordPiece({token: index for index, token in enumerate(tokens)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = WordPieceDecoder()
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {f"{text[1:-1].lower()}_token": text for text in SPECIAL}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))


def export(folder: Path, repository: ModelRepository, name: str = "vectors") -> ModelVersion:
    """The folder's model in float32."""
    request = ExportRequest(str(folder), name=name, quant="fp32")
    return export_model(request, repository, SilentProgress()).version
