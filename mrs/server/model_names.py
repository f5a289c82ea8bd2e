"""Which of the served models a name means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mrs.errors import RequestError, UnknownModelError, UsageError
from mrs.server.served_model import DEFAULT_MODEL, ModelDescription, ModelKind

_LONGEST_SHOWN_NAME = 100
_MOST_SHOWN_MODELS = 20


class WrongModelKindError(RequestError):
    """The model that the request names cannot do what the endpoint is for."""

    code = "wrong_model_kind"


class ModelNames:
    """Names, aliases and defaults.

    The first model of each kind is the ``default`` of that kind.

    Args:
        models: in the order in which they were named; their names differ.
        aliases: more names, each of a model, or of another name of one.
        accept_any: a name that nobody has means the default.

    Raises:
        UsageError: an alias is taken, or names nothing.
    """

    def __init__(
        self,
        models: Sequence[ModelDescription],
        *,
        aliases: Mapping[str, str] | None = None,
        accept_any: bool = False,
    ) -> None:
        self._models = tuple(models)
        self._by_name = {model.name: model for model in models}
        self._accept_any = accept_any
        for alias, target in (aliases or {}).items():
            self._add(alias, target)

    @property
    def models(self) -> tuple[ModelDescription, ...]:
        """All of them, the default first."""
        return self._models

    @property
    def default(self) -> ModelDescription:
        """The first one."""
        return self._models[0]

    def find(
        self, name: str | None, kind: ModelKind | None = None, *others: ModelKind
    ) -> ModelDescription:
        """The model that ``name`` means.

        Args:
            name: as the client wrote it; None or ``default`` for the default model.
            kind: what it must make; None for anything.
            others: kinds that will do where no model of that kind is named.

        Raises:
            UnknownModelError: nobody has the name.
            WrongModelKindError: who has it makes something else.
        """
        found = None if name is None else self._by_name.get(name)
        if found is None:
            if name not in (None, DEFAULT_MODEL) and not self._accept_any:
                raise self._unknown(name or "")
            found = self._default_of(kind, *others)
        if kind is not None and found.kind not in (kind, *others):
            raise _wrong_kind(found, kind)
        return found

    def _default_of(self, *kinds: ModelKind | None) -> ModelDescription:
        fitting = (model for kind in kinds for model in self._models if kind in (None, model.kind))
        return next(fitting, self.default)

    def _add(self, alias: str, target: str) -> None:
        if alias in self._by_name or alias == DEFAULT_MODEL:
            raise UsageError(f"The alias {alias!r} is the name of a model already.")
        if target not in self._by_name:
            raise UsageError(
                f"The alias {alias!r} is for {target!r}, which is not served.",
                hint=f"Served are: {_listed(self._models)}.",
            )
        self._by_name[alias] = self._by_name[target]

    def _unknown(self, name: str) -> UnknownModelError:
        return UnknownModelError(
            f"The model {name[:_LONGEST_SHOWN_NAME]!r} is not served here. Served are: "
            f"{_listed(self._models)}; {DEFAULT_MODEL!r} is {self.default.name!r}.",
            param="model",
        )


def _listed(models: Iterable[ModelDescription]) -> str:
    names = [repr(model.name) for model in models]
    more = ["..."] if len(names) > _MOST_SHOWN_MODELS else []
    return ", ".join(names[:_MOST_SHOWN_MODELS] + more)


def _wrong_kind(model: ModelDescription, asked: ModelKind) -> WrongModelKindError:
    if model.kind is ModelKind.EMBEDDING:
        return WrongModelKindError(
            f"{model.name!r} is an embedding model, which generates no text.",
            hint="Send texts to /v1/embeddings, or name another model.",
            param="model",
        )
    if model.kind is ModelKind.RERANKER:
        return WrongModelKindError(
            f"{model.name!r} is a reranker: it generates no text and makes no embeddings.",
            hint="Send query and documents to /v1/rerank, or name another model.",
            param="model",
        )
    if asked is ModelKind.RERANKER:
        return WrongModelKindError(
            f"{model.name!r} generates text and ranks no documents.",
            hint="Name a reranker or an embedding model.",
            param="model",
        )
    return WrongModelKindError(
        f"{model.name!r} generates text and makes no embeddings.",
        hint="Name an embedding model.",
        param="model",
    )
