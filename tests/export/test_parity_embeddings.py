"""Embedding models against sentence-transformers, from both kinds of checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from numpy.typing import NDArray

from mrs.export.architectures.context_length import at_context
from mrs.export.architectures.embedding_spec import EmbeddingSpec
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.embedder import build_embedder
from mrs.export.graph.matrix_formats import matrix_format
from mrs.export.graph.weight_file import WeightFile
from mrs.export.graph.weights import Weights
from mrs.export.opened_model import open_model
from tests.reference.embedding_cases import CASES
from tests.reference.gguf_embedding_form import write_gguf_embedding
from tests.reference.tiny_embedding import (
    EmbeddingReference,
    TinyEmbedding,
    write_reference_model,
)

TOLERANCE = 1e-4
"""Of the largest value."""

Vectors = NDArray[np.float32]


class Embedding:
    """The graph of a model in float32."""

    def __init__(self, path: Path, folder: Path, context: int | None = None) -> None:
        model = open_model(path)
        spec = at_context(model.spec(), context)
        assert isinstance(spec, EmbeddingSpec)
        with WeightFile(folder / "model.onnx.data") as weight_file:
            weights = Weights(model.checkpoint, matrix_format("fp32"), GraphBuilder(weight_file))
            graph = build_embedder(spec, weights)
        ir.save(graph, folder / "model.onnx")
        self.session = onnxruntime.InferenceSession(folder / "model.onnx")

    def embed(self, rows: list[list[int]], *, padding: int = 0, longest: int = 0) -> Vectors:
        """The vectors of rows that are padded to the longest of them, or further."""
        width = max(longest, *map(len, rows))
        ids = np.array([row + [padding] * (width - len(row)) for row in rows], dtype=np.int64)
        lengths = np.array([len(row) for row in rows], dtype=np.int32)
        found: Vectors = self.session.run(
            ["embeddings"], {"input_ids": ids, "sequence_lengths": lengths}
        )[0]
        return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_folder_gives_the_vectors_of_sentence_transformers(
    case: TinyEmbedding, tmp_path: Path
) -> None:
    model = Embedding(write_reference_model(case, tmp_path / "model"), tmp_path)
    assert_close(model.embed(case.texts()), EmbeddingReference.load(case).embeddings)


@pytest.mark.parametrize("case", [case for case in CASES if case.gguf], ids=lambda case: case.name)
def test_a_gguf_file_gives_the_vectors_of_sentence_transformers(
    case: TinyEmbedding, tmp_path: Path
) -> None:
    model = Embedding(write_gguf_embedding(case, tmp_path), tmp_path)
    assert_close(model.embed(case.texts()), EmbeddingReference.load(case).embeddings)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_neither_neighbours_nor_padding_change_a_vector(
    case: TinyEmbedding, tmp_path: Path
) -> None:
    model = Embedding(write_reference_model(case, tmp_path / "model"), tmp_path)
    alone = np.concatenate([model.embed([row]) for row in case.texts()])
    for padding in (0, 95):
        batch = model.embed(case.texts(), padding=padding, longest=47)
        np.testing.assert_allclose(batch, alone, rtol=0, atol=1e-6 * np.abs(alone).max() + 1e-6)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_room_for_fewer_positions_changes_no_vector(case: TinyEmbedding, tmp_path: Path) -> None:
    texts = case.texts()
    longest = max(map(len, texts))
    model = Embedding(write_reference_model(case, tmp_path / "model"), tmp_path, longest)
    assert_close(model.embed(texts), EmbeddingReference.load(case).embeddings)


def test_what_precedes_matters(tmp_path: Path) -> None:
    """Or else the tests above could pass with a model that sees no text at all."""
    case = CASES[0]
    model = Embedding(write_reference_model(case, tmp_path / "model"), tmp_path)
    first, second = model.embed([[5, 6, 7], [6, 5, 7]])
    assert np.abs(first - second).max() > 1e-3


def assert_close(found: Vectors, expected: Vectors) -> None:
    assert found.shape == expected.shape
    limit = TOLERANCE * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=limit)
