"""A tiny BERT reranker with a tokenizer: a folder that can be exported whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mrs.export.parity.proof import ParityMode
from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from tests.reference.tiny_reranker import CASES, TinyReranker, write_reference_reranker
from tests.tiny_embedder import write_tokenizer

BERT = CASES[0]


def write_folder(folder: Path, case: TinyReranker = BERT, **config: Any) -> Path:
    """A model of 48 positions.

    Args:
        folder: where.
        case: whose weights.
        config: more keys of config.json.
    """
    write_reference_reranker(case, folder)
    write_tokenizer(folder)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return folder


def export(
    folder: Path,
    repository: ModelRepository,
    name: str = "ranks",
    *,
    quant: str = "fp32",
    parity: ParityMode = ParityMode.NEVER,
) -> ModelVersion:
    """The folder's model."""
    request = ExportRequest(str(folder), name=name, quant=quant, parity=parity)
    return export_model(request, repository, SilentProgress()).version
