"""What folders of sentence-transformers say, in the words of old and of new releases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mrs.errors import CheckpointError, SourceNotFoundError, UnsupportedArchitectureError
from mrs.export.architectures.embedding_spec import DenseSpec, EmbeddingHead, Pooling
from mrs.export.architectures.sentence_transformers import (
    SentenceTransformer,
    read_sentence_transformer,
)
from mrs.export.architectures.spec import Activation

OLD, NEW = "sentence_transformers.models.", "sentence_transformers.base.modules."
MEAN = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}


class Folder:
    """A folder under construction."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, value: Any) -> None:
        (self.path / name).parent.mkdir(exist_ok=True)
        (self.path / name).write_text(json.dumps(value))

    def modules(self, *modules: tuple[str, str], prefix: str = OLD) -> None:
        self.write(
            "modules.json", [{"path": path, "type": prefix + kind} for path, kind in modules]
        )

    def read(self) -> SentenceTransformer:
        found = read_sentence_transformer(self.path)
        assert found is not None
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Mean pooling, not normalised."""
    folder = Folder(tmp_path)
    folder.modules(("", "Transformer"), ("1_Pooling", "Pooling"))
    folder.write("1_Pooling/config.json", MEAN)
    return folder


def test_a_generator_has_no_modules(tmp_path: Path) -> None:
    assert read_sentence_transformer(tmp_path) is None


def test_pooling_alone(folder: Folder) -> None:
    assert folder.read().head == EmbeddingHead(Pooling.MEAN, (), normalize=False)


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode_cls_token": True}, Pooling.CLS),
        ({"pooling_mode_max_tokens": True, "include_prompt": True}, Pooling.MAX),
        ({"pooling_mode_lasttoken": True}, Pooling.LAST),
        ({"pooling_mode": "mean", "embedding_dimension": 384}, Pooling.MEAN),
        ({"pooling_mode": "lasttoken"}, Pooling.LAST),
    ],
)
def test_poolings(folder: Folder, config: dict[str, Any], pooling: Pooling) -> None:
    folder.write("1_Pooling/config.json", config)
    assert folder.read().head.pooling is pooling


@pytest.mark.parametrize(
    "config",
    [
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
        {"pooling_mode_weightedmean_tokens": True},
        {"pooling_mode": "mean_sqrt_len_tokens"},
        {"pooling_mode_mean_tokens": True, "include_prompt": False},
        {},
    ],
)
def test_other_poolings_are_refused(folder: Folder, config: dict[str, Any]) -> None:
    folder.write("1_Pooling/config.json", config)
    with pytest.raises(UnsupportedArchitectureError, match="1_Pooling"):
        folder.read()


def test_linear_layers_and_normalisation_as_new_releases_write_them(folder: Folder) -> None:
    folder.modules(
        ("", "transformer.Transformer"),
        ("1_Pooling", "pooling.Pooling"),
        ("2_Dense", "dense.Dense"),
        ("3_Dense", "dense.Dense"),
        ("4_Normalize", "normalize.Normalize"),
        prefix=NEW,
    )
    tanh = {"in_features": 8, "out_features": 4, "module_input_name": "sentence_embedding"}
    folder.write(
        "2_Dense/config.json",
        {**tanh, "activation_function": "torch.nn.modules.activation.Tanh"},
    )
    folder.write(
        "3_Dense/config.json",
        {
            "in_features": 4,
            "out_features": 2,
            "activation_function": "torch.nn.modules.linear.Identity",
        },
    )
    found = folder.read()
    dense = (DenseSpec("dense_2", 8, 4, Activation.TANH), DenseSpec("dense_3", 4, 2))
    assert found.head == EmbeddingHead(Pooling.MEAN, dense, normalize=True)
    assert found.dense_folders == {
        "dense_2": folder.path / "2_Dense",
        "dense_3": folder.path / "3_Dense",
    }


def test_a_linear_layer_for_each_token_is_refused(folder: Folder) -> None:
    folder.modules(("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"))
    folder.write(
        "2_Dense/config.json",
        {"in_features": 8, "out_features": 4, "module_input_name": "token_embeddings"},
    )
    with pytest.raises(UnsupportedArchitectureError, match="token_embeddings"):
        folder.read()


@pytest.mark.parametrize("kind", ["WordEmbeddings", "LayerNorm", "CLIPModel", "Pooling"])
def test_other_modules_are_refused_by_name(folder: Folder, kind: str) -> None:
    folder.modules(("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Other", kind))
    with pytest.raises(UnsupportedArchitectureError, match=kind):
        folder.read()


def test_a_transformer_in_a_folder_of_its_own_is_refused(folder: Folder) -> None:
    folder.modules(("0_Transformer", "Transformer"), ("1_Pooling", "Pooling"))
    with pytest.raises(UnsupportedArchitectureError, match="Transformer"):
        folder.read()


def test_without_pooling_there_is_no_vector(folder: Folder) -> None:
    folder.modules(("", "Transformer"))
    with pytest.raises(CheckpointError, match="pooling"):
        folder.read()


@pytest.mark.parametrize("path", ["../1_Pooling", "/etc", "1_Pooling/../..", "x"])
def test_a_module_cannot_be_outside(folder: Folder, path: str) -> None:
    folder.modules(("", "Transformer"), (path, "Pooling"))
    with pytest.raises(CheckpointError, match="path"):
        folder.read()


@pytest.mark.parametrize("content", ["{}", "[1]", "[", '[{"path": ""}]', "[]"])
def test_a_malformed_list_of_modules(folder: Folder, content: str) -> None:
    (folder.path / "modules.json").write_text(content)
    with pytest.raises(CheckpointError):
        folder.read()


def test_a_module_without_its_folder(folder: Folder) -> None:
    (folder.path / "1_Pooling" / "config.json").unlink()
    with pytest.raises(SourceNotFoundError, match="1_Pooling"):
        folder.read()


def test_how_texts_are_prepared(folder: Folder) -> None:
    folder.write("sentence_bert_config.json", {"max_seq_length": 256, "do_lower_case": True})
    folder.write("tokenizer_config.json", {"model_max_length": 512})
    folder.write(
        "config_sentence_transformers.json",
        {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"},
    )
    folder.write("config.json", {"matryoshka_dimensions": [64, 32]})
    texts = folder.read().texts
    assert texts.max_length == 256
    assert texts.lowercase
    assert texts.prompts == {"query": "query: ", "document": ""}
    assert texts.default_prompt == "query"
    assert texts.dimensions == (64, 32)


def test_the_tokenizer_limits_texts_where_nothing_else_does(folder: Folder) -> None:
    folder.write("tokenizer_config.json", {"model_max_length": 512})
    assert folder.read().texts.max_length == 512


def test_a_tokenizer_without_limit(folder: Folder) -> None:
    folder.write("tokenizer_config.json", {"model_max_length": 1000000000000000019884624838656})
    assert folder.read().texts.max_length is None
