from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from pathlib import Path

import pytest

from mrs.errors import UsageError
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from mrs.server.model_source import EngineOptions, RepositoryModel, repository_models
from mrs.server.served_model import ModelKind, ServedEmbedder, ServedModel, ServedReranker
from tests import tiny_embedder, tiny_reranker
from tests.export.gguf_files import write_llama
from tests.model_repo.samples import publish


@pytest.fixture(scope="module")
def embedding(tmp_path_factory: pytest.TempPathFactory) -> ModelVersion:
    folder = tmp_path_factory.mktemp("embedder")
    model = tiny_embedder.write_folder(folder / "model")
    return tiny_embedder.export(model, ModelRepository(folder / "repo"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> ModelVersion:
    from mrs.export.pipeline import ExportRequest, export_model
    from mrs.export.progress import SilentProgress

    folder = tmp_path_factory.mktemp("tiny")
    request = ExportRequest(str(write_llama(folder / "tiny.gguf")), quant="fp32")
    return export_model(request, ModelRepository(folder / "repo"), SilentProgress()).version


def test_a_version_that_generates_text_is_loaded_whole(tiny: ModelVersion) -> None:
    source = RepositoryModel(tiny, EngineOptions(max_seqs=1, max_model_len=10), "x")
    opened = source.load()
    try:
        assert isinstance(opened.model, ServedModel)
        assert opened.model.description == source.description
        assert (opened.model.name, opened.model.max_model_len) == ("x", 10)
        assert opened.model.tokenizer.decode(opened.model.tokenizer.encode("ab")) == "ab"
        assert opened.model.chat_template == tiny.chat_template_path.read_text()
        assert opened.model.engine.ready
    finally:
        opened.close()
    assert not opened.model.engine.alive


def test_an_embedding_model_makes_vectors(embedding: ModelVersion) -> None:
    source = RepositoryModel(embedding, EngineOptions(), "x")
    assert source.description.kind is ModelKind.EMBEDDING
    opened = source.load()
    try:
        assert isinstance(opened.model, ServedEmbedder)
        facts = embedding.lock.model.embedding
        assert facts is not None
        assert opened.model.embedder.embed(["a"]).vectors.shape == (1, facts.size)
        assert source.description.max_model_len == facts.max_length
    finally:
        opened.close()


def test_a_reranker_makes_scores(tmp_path: Path) -> None:
    model = tiny_reranker.write_folder(tmp_path / "model")
    version = tiny_reranker.export(model, ModelRepository(tmp_path / "repo"))
    source = RepositoryModel(version, EngineOptions(), "x")
    assert (source.description.kind, source.description.max_model_len) == (ModelKind.RERANKER, 48)
    assert source.memory == int(version.size * 1.25)
    opened = source.load()
    try:
        assert isinstance(opened.model, ServedReranker)
        assert opened.model.description == source.description
        assert opened.model.reranker.score("a", ["b", "c"]).values.shape == (2,)
    finally:
        opened.close()


def test_memory_is_weights_and_one_long_text(tmp_path: Path) -> None:
    version = publish(ModelRepository(tmp_path))
    short, long = (
        RepositoryModel(version, EngineOptions(max_model_len=length), "x").memory
        for length in (1024, 2048)
    )
    # 2 layers, keys and values, 1 head of 8 floats of 4 bytes.
    assert long - short == 1024 * 2 * 2 * 8 * 4
    assert short - 1024 * 128 == int(version.size * 1.25)
    options = EngineOptions(max_model_len=2048, kv_cache_type="int8")
    assert RepositoryModel(version, options, "x").memory == short - 1024 * 128 + 2048 * 32


def test_versions_of_one_name_are_told_apart(tmp_path: Path) -> None:
    repository = ModelRepository(tmp_path)
    versions = [
        publish(repository),
        publish(repository, content=b"other"),
        publish(repository, "b"),
    ]
    sources = repository_models(versions, EngineOptions())
    assert [source.description.name for source in sources] == ["tiny:1", "tiny:2", "b"]


def test_a_version_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    version = publish(ModelRepository(tmp_path))
    with pytest.raises(UsageError, match="tiny:1"):
        repository_models([version, version], EngineOptions())


@pytest.mark.parametrize(("count", "expected"), [(1, 9999), (2, 2048)])
def test_with_several_models_the_length_is_an_upper_bound(
    tmp_path: Path, count: int, expected: int
) -> None:
    repository = ModelRepository(tmp_path)
    versions = [publish(repository, name) for name in "ab"[:count]]
    sources = repository_models(versions, EngineOptions(max_model_len=9999))
    assert sources[0].description.max_model_len == expected


def test_artifacts_of_other_content_have_other_fingerprints(tmp_path: Path) -> None:
    repository = ModelRepository(tmp_path)
    one, other = (
        RepositoryModel(publish(repository, content=content), EngineOptions(), "x").description
        for content in (b"one", b"other")
    )
    assert one.fingerprint != other.fingerprint


def test_memory_for_keys_and_values_is_what_was_given(tmp_path: Path) -> None:
    version = publish(ModelRepository(tmp_path))
    source = RepositoryModel(version, EngineOptions(kv_cache_bytes=1_000_000), "x")
    assert source.memory == int(version.size * 1.25) + 1_000_000


def test_a_closed_model_is_free_to_go(tiny: ModelVersion) -> None:
    opened = RepositoryModel(tiny, EngineOptions(max_seqs=1), "x").load()
    tokenizer = weakref.ref(opened.model.tokenizer)
    opened.close()
    del opened
    gc.collect()
    assert tokenizer() is None


def test_of_several_models_none_has_the_processors_alone(tiny: ModelVersion) -> None:
    other = replace(tiny, name="other")
    wanted = EngineOptions(max_model_len=100_000)
    one, two = repository_models([tiny, other], wanted)
    context = tiny.lock.model.context_length
    assert [source._options for source in (one, two)] == [
        EngineOptions(max_model_len=context, alone=False)
    ] * 2
    assert repository_models([tiny], wanted)[0]._options == wanted
