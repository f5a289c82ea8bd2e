"""Rerankers against transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.embedding_spec import EmbeddingSpec, ScoreActivation
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.embedder import build_embedder
from mrs.export.graph.matrix_formats import matrix_format
from mrs.export.graph.weight_file import WeightFile
from mrs.export.graph.weights import Weights
from mrs.export.opened_model import open_model
from mrs.model_repo.repository import ModelRepository
from tests.export.tokenizers.vocabularies import unigram_metadata
from tests.reference.gguf_embedding_form import write_gguf_reranker
from tests.reference.tiny_reranker import (
    CASES,
    RerankerReference,
    TinyReranker,
    write_reference_reranker,
)
from tests.tiny_reranker import export

TOLERANCE = 1e-4
"""Of the largest logit."""

Scores = NDArray[np.float32]
BERT = CASES[0]


class Reranker:
    """The graph of a model in float32."""

    def __init__(self, path: Path, folder: Path) -> None:
        model = open_model(path)
        spec = model.spec()
        assert isinstance(spec, EmbeddingSpec)
        self.spec = spec
        with WeightFile(folder / "model.onnx.data") as weight_file:
            weights = Weights(model.checkpoint, matrix_format("fp32"), GraphBuilder(weight_file))
            graph = build_embedder(self.spec, weights)
        ir.save(graph, folder / "model.onnx")
        self.session = onnxruntime.InferenceSession(folder / "model.onnx")

    def score(self, rows: list[tuple[list[int], int]], *, padding: int = 0) -> Scores:
        """The logits of rows, padded to the longest of them."""
        width = max(len(ids) for ids, _ in rows)
        ids = [ids + [padding] * (width - len(ids)) for ids, _ in rows]
        feeds: dict[str, NDArray[Any]] = {
            "input_ids": np.array(ids, dtype=np.int64),
            "sequence_lengths": np.array([len(ids) for ids, _ in rows], dtype=np.int32),
        }
        if self.spec.second_type:
            feeds["second_start"] = np.array([start for _, start in rows], dtype=np.int32)
        scores: Scores = self.session.run(["scores"], feeds)[0]
        return scores


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_folder_gives_the_logits_of_transformers(case: TinyReranker, tmp_path: Path) -> None:
    model = Reranker(write_reference_reranker(case, tmp_path / "model"), tmp_path)
    found, expected = model.score(case.rows()), RerankerReference.load(case).logits
    assert found.shape == expected.shape
    limit = TOLERANCE * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=limit)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_neither_neighbours_nor_padding_change_a_score(case: TinyReranker, tmp_path: Path) -> None:
    model = Reranker(write_reference_reranker(case, tmp_path / "model"), tmp_path)
    alone = np.concatenate([model.score([row]) for row in case.rows()])
    for padding in (0, 95):
        together = model.score(case.rows(), padding=padding)
        np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6 * np.abs(alone).max() + 1e-6)


def test_where_the_second_text_starts_matters_to_bert_alone(tmp_path: Path) -> None:
    ids = BERT.rows()[1][0]
    model = Reranker(write_reference_reranker(BERT, tmp_path / "model"), tmp_path)
    first, second = model.score([(ids, 5), (ids, 9)])
    assert abs(first - second) > 1e-3
    inputs = {case.name for case in CASES if _tells_types(case, tmp_path / case.name)}
    assert inputs == {"bert"}


def _tells_types(case: TinyReranker, folder: Path) -> bool:
    spec = open_model(write_reference_reranker(case, folder)).spec()
    assert isinstance(spec, EmbeddingSpec)
    return spec.second_type


@pytest.mark.parametrize(
    ("config", "activation"),
    [
        ({}, ScoreActivation.SIGMOID),
        (
            {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"},
            ScoreActivation.IDENTITY,
        ),
        (
            {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}},
            ScoreActivation.SIGMOID,
        ),
    ],
)
def test_the_activation_is_that_of_sentence_transformers(
    config: dict[str, Any], activation: ScoreActivation, tmp_path: Path
) -> None:
    folder = _folder_with(tmp_path, **config)
    assert open_model(folder).spec().head.score is activation  # type: ignore[union-attr]


def test_another_activation_is_refused(tmp_path: Path) -> None:
    folder = _folder_with(tmp_path, sbert_ce_default_activation_function="evil.module.Softmax")
    with pytest.raises(UnsupportedArchitectureError, match=r"evil\.module\.Softmax"):
        open_model(folder)


def test_several_labels_are_refused(tmp_path: Path) -> None:
    folder = write_reference_reranker(BERT, tmp_path)
    _change_weights(folder, lambda weights: weights | _labels(weights, 3))
    with pytest.raises(UnsupportedArchitectureError, match="tells 3 labels apart"):
        open_model(folder)


@pytest.mark.parametrize("name", ["classifier.bias", "bert.pooler.dense.bias"])
def test_a_head_that_lacks_something_is_refused(name: str, tmp_path: Path) -> None:
    folder = write_reference_reranker(BERT, tmp_path)
    _change_weights(folder, lambda weights: {k: v for k, v in weights.items() if k != name})
    with pytest.raises(CorruptCheckpointError, match="a part of the head"):
        open_model(folder)


def test_a_decoder_that_classifies_is_refused(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForSequenceClassification"],
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": 8,
        "vocab_size": 8,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    score = np.zeros((1, 8), dtype=np.float32)
    save_file({"score.weight": score}, tmp_path / "model.safetensors")
    with pytest.raises(UnsupportedArchitectureError, match="llama model classifies texts"):
        open_model(tmp_path)


@pytest.mark.parametrize("squeezed", [False, True], ids=["matrix", "vector"])
def test_a_gguf_file_gives_the_logits_of_transformers(squeezed: bool, tmp_path: Path) -> None:
    """The output layer has one row, which some converters store as a vector."""
    case = next(case for case in CASES if case.name == "xlm-roberta")
    path = write_gguf_reranker(case, tmp_path / "model", squeezed=squeezed)
    found, expected = Reranker(path, tmp_path).score(case.rows()), RerankerReference.load(case)
    limit = TOLERANCE * np.abs(expected.logits).max()
    np.testing.assert_allclose(found, expected.logits, rtol=0, atol=limit)


def test_a_gguf_file_joins_texts_as_xlm_roberta_does(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "xlm-roberta")
    vocabulary = {
        key: value[: case.config["vocab_size"]] if isinstance(value, list) else value
        for key, value in unigram_metadata(bos_token_id=0, eos_token_id=1).items()
    }
    path = write_gguf_reranker(case, tmp_path / "model", vocabulary=vocabulary)
    facts = export(path, ModelRepository(tmp_path / "repository")).lock.model.reranker
    assert facts is not None
    assert (facts.before, facts.between, facts.after) == ((0,), (1, 1), (1,))
    assert (facts.token_types, facts.activation) == (False, "sigmoid")


def test_a_gguf_file_without_the_first_layer_of_the_head_is_refused(tmp_path: Path) -> None:
    """So are those that were made from BERT, whose pooler converters leave out."""
    case = next(case for case in CASES if case.name == "xlm-roberta")
    path = write_gguf_reranker(case, tmp_path / "model", left_out=("cls.weight", "cls.bias"))
    with pytest.raises(UnsupportedArchitectureError, match="lacks the layer cls"):
        open_model(path)


def _folder_with(folder: Path, **config: Any) -> Path:
    reference = RerankerReference.load(BERT)
    return BERT.write(folder, {**reference.config, **config}, reference.shapes)


def _change_weights(folder: Path, change: Any) -> None:
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path)


def _labels(weights: dict[str, Any], count: int) -> dict[str, Any]:
    return {
        name: np.repeat(weights[name], count, axis=0)
        for name in ("classifier.weight", "classifier.bias")
    }
