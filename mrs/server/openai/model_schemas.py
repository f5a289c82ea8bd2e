"""What the endpoints of models take and answer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from mrs.server.model_catalog import ModelStatus
from mrs.server.served_model import ModelKind
from mrs.server.validation import RequestModel


class ModelCard(BaseModel):
    """A model that is served."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "mrs"
    root: str = Field(description="The name itself.")
    parent: str | None = None
    max_model_len: int = Field(
        description="Most tokens of prompt and answer together, or of a text to embed."
    )
    kind: ModelKind
    status: ModelStatus
    quant: str | None = Field(description="How its export was told to store the weights.")
    architecture: str | None


class ModelList(BaseModel):
    """The models that are served."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class ModelOperationRequest(RequestModel):
    """Which model something is to be done with."""

    model_config = ConfigDict(protected_namespaces=())

    model_id: str = Field(description="A name as `GET /v1/models` lists it, or an alias.")


class ModelStatusResponse(BaseModel):
    """Where a model is."""

    model_config = ConfigDict(protected_namespaces=())

    model_id: str
    status: ModelStatus
    error: str | None = Field(None, description="Why it is not where it was meant to be.")
