"""A version of the repository -> a model that is served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from mrs.errors import UsageError
from mrs.memory import give_memory_back
from mrs.model_repo.lock_file import artifact_digest
from mrs.model_repo.version import ModelVersion
from mrs.runtime.speculation.options import NO_SPECULATION, SpeculationOptions
from mrs.server.conversation.chat_format import chat_format
from mrs.server.served_model import (
    ModelDescription,
    ModelKind,
    ServedEmbedder,
    ServedModel,
    ServedReranker,
)

# ONNX Runtime maps the weights and packs some of them a second time.
_MEMORY_PER_WEIGHT_BYTE = 1.25

AnyServedModel = ServedModel | ServedEmbedder | ServedReranker


@dataclass(frozen=True)
class OpenModel:
    """A loaded model and how to let it go.

    Attributes:
        model: what requests lease.
        close: gives its memory back. Idempotent.
    """

    model: AnyServedModel
    close: Callable[[], None]


class ModelSource(Protocol):
    """A model that can be loaded, as often as needed."""

    @property
    def description(self) -> ModelDescription:
        """What is known of it."""

    @property
    def memory(self) -> int:
        """About how many bytes it takes once it is loaded."""

    def load(self) -> OpenModel:
        """Load it; blocks.

        Raises:
            MrsError: it cannot be loaded.
        """


@dataclass(frozen=True)
class EngineOptions:
    """How models are loaded; see `mrs.runtime.loading.load_served`."""

    max_seqs: int = 16
    max_model_len: int | None = None
    max_waiting: int = 256
    step_timeout: float = 120.0
    threads: int | None = None
    kv_cache_bytes: int | None = None
    kv_cache_type: str = "fp32"
    prefix_cache_bytes: int | None = None
    generation_config: bool = True
    speculation: SpeculationOptions = NO_SPECULATION
    alone: bool = True
    tool_format: str | None = None

    def arguments(self) -> Mapping[str, Any]:
        """As keyword arguments."""
        return {name: value for name, value in self.__dict__.items() if name != "tool_format"}


class RepositoryModel:
    """A `ModelSource` over a version.

    Args:
        version: what to load.
        options: how.
        name: what clients call it.
    """

    def __init__(self, version: ModelVersion, options: EngineOptions, name: str) -> None:
        self.version = version
        self._options = options
        self._description = _describe(version, options, name)

    @property
    def description(self) -> ModelDescription:
        """What the lock says of it."""
        return self._description

    @property
    def memory(self) -> int:
        """The weights, and the keys and values of one text of full length."""
        weights = int(self.version.size * _MEMORY_PER_WEIGHT_BYTE)
        if self._description.kind is not ModelKind.TEXT:
            return weights
        if self._options.kv_cache_bytes is not None:
            return weights + self._options.kv_cache_bytes
        from mrs.runtime.kv_cache_shape import KVCacheType
        from mrs.runtime.version_cache import cache_shape

        tokens, type = self._description.max_model_len, KVCacheType(self._options.kv_cache_type)
        return weights + cache_shape(self.version, 1, tokens, type).committed_bytes(tokens)

    def load(self) -> OpenModel:
        """Load it; returns once it has produced something.

        Raises:
            MrsError: see `mrs.runtime.loading.load_served`, `open_embedder` and `open_reranker`.
        """
        if self._description.kind is ModelKind.RERANKER:
            return self._load_reranker()
        if self._description.kind is ModelKind.EMBEDDING:
            return self._load_embedder()
        from mrs.runtime.loading import load_served

        loaded = load_served(self.version, **self._options.arguments())
        with ExitStack() as closing:
            closing.callback(loaded.close)
            if (grammars := loaded.engine.engine.grammars) is not None:
                grammars.warm_up()  # Streams of requests would stand still for it.
            model = ServedModel(
                name=self._description.name,
                created=self._description.created,
                max_model_len=loaded.max_model_len,
                vocab_size=loaded.vocab_size,
                prompts=loaded.prompts,
                engine=loaded.engine,
                token_bytes=loaded.tokenizer.token_bytes,
                tokenizer=loaded.tokenizer,
                chat_template=_text(self.version.chat_template_path),
                tool_template=_text(self.version.tool_template_path),
                tool_format=self._options.tool_format,
                sampling_defaults=loaded.sampling_defaults,
                architecture=self._description.architecture,
                quant=self._description.quant,
                digest=self._description.digest,
            )
            chat_format(model).warm_up()
            # Vocabularies and graphs were read in large pieces that nobody needs any more.
            give_memory_back()
            return OpenModel(model, closing.pop_all().close)
        raise AssertionError("unreachable")

    def _load_embedder(self) -> OpenModel:
        from mrs.runtime.embedder import open_embedder

        with ExitStack() as closing:
            embedder = closing.enter_context(
                open_embedder(
                    self.version, threads=self._options.threads, alone=self._options.alone
                )
            )
            model = ServedEmbedder(self._description, embedder)
            return OpenModel(model, closing.pop_all().close)
        raise AssertionError("unreachable")

    def _load_reranker(self) -> OpenModel:
        from mrs.runtime.reranker import open_reranker

        with ExitStack() as closing:
            reranker = closing.enter_context(
                open_reranker(
                    self.version, threads=self._options.threads, alone=self._options.alone
                )
            )
            model = ServedReranker(self._description, reranker)
            return OpenModel(model, closing.pop_all().close)
        raise AssertionError("unreachable")


def repository_models(
    versions: Iterable[ModelVersion], options: EngineOptions
) -> list[RepositoryModel]:
    """Sources for versions, in order. Versions of one name are told apart by their numbers.

    Raises:
        UsageError: a version is there twice.
    """
    versions = list(versions)
    names = [version.name for version in versions]
    sources: dict[str, RepositoryModel] = {}
    for version in versions:
        name = version.name if names.count(version.name) == 1 else version.reference
        if name in sources:
            raise UsageError(f"The model {version.reference} is named twice.")
        sources[name] = RepositoryModel(version, _fitting(options, version, len(names)), name)
    return list(sources.values())


def _fitting(options: EngineOptions, version: ModelVersion, models: int) -> EngineOptions:
    """With several models, ``max_model_len`` bounds those that can be longer, and none is alone."""
    if models == 1:
        return options
    longest = version.lock.model.context_length
    wanted = options.max_model_len
    return replace(
        options, alone=False, max_model_len=None if wanted is None else min(wanted, longest)
    )


def _describe(version: ModelVersion, options: EngineOptions, name: str) -> ModelDescription:
    facts = version.lock.model
    if facts.embedding is not None:
        kind, longest = ModelKind.EMBEDDING, facts.embedding.max_length
    elif facts.reranker is not None:
        kind, longest = ModelKind.RERANKER, facts.reranker.max_length
    else:
        kind, longest = ModelKind.TEXT, options.max_model_len or facts.context_length
    return ModelDescription(
        name=name,
        kind=kind,
        created=int(version.path.stat().st_mtime),
        max_model_len=longest,
        architecture=facts.architecture,
        quant=version.lock.inputs.options.get("quant", ""),
        digest=artifact_digest(version.lock),
    )


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
