"""Write the table of docs/architectures.md: what is registered, and what the tests measure.

python -m tests.reference.table
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from mrs.export.architectures.canonical_gguf import open_canonical_gguf
from mrs.export.architectures.encoder_family import EncoderFamily
from mrs.export.architectures.family import Family
from mrs.export.architectures.huggingface import open_huggingface
from mrs.export.architectures.registry import (
    EMBEDDING_ARCHITECTURES,
    ENCODER_MODEL_TYPES,
    ENCODERS,
    FAMILIES,
    MODEL_TYPES,
)
from mrs.export.checkpoints.checkpoint import Checkpoint
from tests.export.test_parity_embeddings import Embedding
from tests.export.test_parity_families import build
from tests.reference.embedding_cases import CASES as EMBEDDINGS
from tests.reference.families import CASES
from tests.reference.gguf_embedding_form import write_gguf_embedding
from tests.reference.gguf_form import write_gguf_form
from tests.reference.tiny_embedding import (
    EmbeddingReference,
    TinyEmbedding,
    write_reference_model,
)
from tests.reference.tiny_model import Reference, TinyModel

PAGE = Path(__file__).parents[2] / "docs" / "architectures.md"
HEADER = (
    "| models | Hugging Face `model_type` | GGUF architecture | largest difference |",
    "| --- | --- | --- | --- |",
)


ROWS: tuple[Family | EncoderFamily, ...] = (
    *FAMILIES,
    *ENCODERS,
    *EMBEDDING_ARCHITECTURES.values(),
)


def facts(family: Family | EncoderFamily) -> tuple[str, str, str]:
    """The cells of a family that the registry tells."""
    form = family.huggingface
    types = ", ".join(f"`{name}`" for name in form.model_types) if form is not None else "-"
    return family.title, types, f"`{family.name}`" if family.gguf else "-"


def rows(differences: Mapping[str, float]) -> Iterator[str]:
    """Lines of the table.

    Args:
        differences: the largest of each family that has reference logits, by its title.
    """
    for family in ROWS:
        largest = differences.get(family.title)
        cells = (*facts(family), "-" if largest is None else f"{largest:.1e}")
        yield f"| {' | '.join(cells)} |"


def measure() -> dict[str, float]:
    """The largest difference of logits from transformers, by family, as a share of their range.

    Of embedding models, that of vectors, as a share of their largest value.
    """
    found: dict[str, float] = {}
    for case in CASES:
        title = MODEL_TYPES[case.model_type].title
        found[title] = max(found.get(title, 0.0), _largest(case))
    for vectors in EMBEDDINGS:
        encoder: Family | EncoderFamily | None = ENCODER_MODEL_TYPES.get(vectors.model_type)
        encoder = encoder or EMBEDDING_ARCHITECTURES.get(vectors.gguf or "")
        if encoder is not None:
            found[encoder.title] = max(found.get(encoder.title, 0.0), _largest_of_vectors(vectors))
    return found


def _largest(case: TinyModel) -> float:
    expected = Reference.load(case).logits
    shares = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        checkpoints: list[Checkpoint] = [open_huggingface(case.write(path))]
        if case.gguf:
            checkpoints.append(open_canonical_gguf(write_gguf_form(case, path)))
        for at, checkpoint in enumerate(checkpoints):
            (path / str(at)).mkdir()
            logits = build(checkpoint, path / str(at), case.context).one_by_one(case.prompt())
            shares.append(float(np.abs(logits - expected).max() / np.ptp(expected)))
            checkpoint.close()
    return max(shares)


def _largest_of_vectors(case: TinyEmbedding) -> float:
    expected = EmbeddingReference.load(case).embeddings
    differences = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        checkpoints = [write_reference_model(case, path / "model")]
        if case.gguf is not None:
            checkpoints.append(write_gguf_embedding(case, path / "gguf"))
        for at, checkpoint in enumerate(checkpoints):
            (path / str(at)).mkdir()
            vectors = Embedding(checkpoint, path / str(at)).embed(case.texts())
            differences.append(float(np.abs(vectors - expected).max()))
    return max(differences) / float(np.abs(expected).max())


def main() -> None:
    """Put the table in the place of the page's."""
    table = "\n".join((*HEADER, *rows(measure())))
    page = PAGE.read_text(encoding="utf-8")
    start = page.index(HEADER[0])
    end = page.index("\n\n", start)
    PAGE.write_text(page[:start] + table + page[end:], encoding="utf-8")


if __name__ == "__main__":
    main()
