from __future__ import annotations

import pytest

from mrs.errors import UnknownModelError, UsageError
from mrs.server.model_names import ModelNames, WrongModelKindError
from mrs.server.served_model import ModelDescription, ModelKind

CHAT = ModelDescription("chat", ModelKind.TEXT, 1, 10)
OTHER = ModelDescription("other", ModelKind.TEXT, 1, 10)
VECTORS = ModelDescription("vectors", ModelKind.EMBEDDING, 1, 10)
RANKS = ModelDescription("ranks", ModelKind.RERANKER, 1, 10)
MODELS = (CHAT, OTHER, VECTORS)


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        (None, None, CHAT),
        ("default", None, CHAT),
        ("default", ModelKind.TEXT, CHAT),
        ("default", ModelKind.EMBEDDING, VECTORS),
        (None, ModelKind.EMBEDDING, VECTORS),
        ("other", ModelKind.TEXT, OTHER),
        ("gpt-4o", ModelKind.TEXT, OTHER),
        ("vectors", ModelKind.EMBEDDING, VECTORS),
    ],
)
def test_a_name_means_a_model(
    name: str | None, kind: ModelKind | None, found: ModelDescription
) -> None:
    assert ModelNames(MODELS, aliases={"gpt-4o": "other"}).find(name, kind) is found


@pytest.mark.parametrize("name", ["", "Chat", "chat ", "gpt-4"])
def test_other_names_are_unknown(name: str) -> None:
    with pytest.raises(UnknownModelError, match="'chat', 'other', 'vectors'"):
        ModelNames(MODELS).find(name)


def test_any_name_can_mean_the_default() -> None:
    names = ModelNames(MODELS, accept_any=True)
    assert names.find("gpt-9", ModelKind.TEXT) is CHAT
    assert names.find("gpt-9", ModelKind.EMBEDDING) is VECTORS
    assert names.find("other") is OTHER


def test_a_default_of_the_wrong_kind_is_told() -> None:
    with pytest.raises(WrongModelKindError, match="'vectors'"):
        ModelNames([VECTORS]).find(None, ModelKind.TEXT)


def test_a_kind_that_will_do_as_well() -> None:
    """Embedding models rank too, where no reranker is served or one of them is named."""
    ranking = (ModelKind.RERANKER, ModelKind.EMBEDDING)
    assert ModelNames(MODELS).find(None, *ranking) is VECTORS
    assert ModelNames([*MODELS, RANKS]).find(None, *ranking) is RANKS
    assert ModelNames([*MODELS, RANKS]).find("vectors", *ranking) is VECTORS
    with pytest.raises(WrongModelKindError, match="'chat' generates text and ranks no documents"):
        ModelNames(MODELS).find("chat", *ranking)


@pytest.mark.parametrize("kind", [ModelKind.TEXT, ModelKind.EMBEDDING])
def test_a_reranker_does_nothing_else(kind: ModelKind) -> None:
    with pytest.raises(WrongModelKindError, match="'ranks' is a reranker"):
        ModelNames([*MODELS, RANKS]).find("ranks", kind)


def test_an_alias_of_an_alias_means_its_model() -> None:
    names = ModelNames(MODELS, aliases={"a": "other", "b": "a"})
    assert names.find("b") is OTHER


@pytest.mark.parametrize("aliases", [{"chat": "other"}, {"default": "other"}, {"a": "nothing"}])
def test_an_alias_that_cannot_be_is_refused(aliases: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        ModelNames(MODELS, aliases=aliases)


def test_a_long_unknown_name_is_cut() -> None:
    with pytest.raises(UnknownModelError) as caught:
        ModelNames(MODELS).find("x" * 10_000)
    assert len(caught.value.message) < 300
