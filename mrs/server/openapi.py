"""The OpenAPI description, and the page that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from mrs.server.access_keys import AccessPolicy
from mrs.server.openapi_access import describe_access

_REFERENCE = "#/components/schemas/{model}"
# The page holds its own style and script, and may talk to this server alone.
_PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:"
)


def schema_reference(name: str) -> dict[str, str]:
    """Return a reference to the schema of the model called ``name``."""
    return {"$ref": _REFERENCE.format(model=name)}


def json_body(name: str) -> dict[str, Any]:
    """Return what an operation says of a JSON body that it reads by itself."""
    content = {"application/json": {"schema": schema_reference(name)}}
    return {"requestBody": {"required": True, "content": content}}


def describe(app: FastAPI, models: Sequence[type[BaseModel]], access: AccessPolicy) -> None:
    """Make ``/openapi.json`` hold the schemas of models that only references name, and keys."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _schema(app, models)
            describe_access(app.openapi_schema, access)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def openapi_document(app: FastAPI) -> Callable[[Request], Response]:
    """An endpoint that answers as ``/openapi.json`` does: mistral.rs has it elsewhere."""

    def document(_: Request) -> Response:
        return JSONResponse(app.openapi())

    return document


def _schema(app: FastAPI, models: Sequence[type[BaseModel]]) -> dict[str, Any]:
    schema = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    _, referenced = models_json_schema(
        [(model, "validation") for model in models], ref_template=_REFERENCE
    )
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    components.update(referenced["$defs"])
    _drop_validation_errors(schema)
    _drop_unused(schema)
    return schema


def _drop_validation_errors(schema: dict[str, Any]) -> None:
    """Remove FastAPI's own 422 replies, which this server never sends."""
    for operations in schema["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)


def _drop_unused(schema: dict[str, Any]) -> None:
    """Remove what nothing refers to.

    Where two models share a name, each of the two generators above finds longer ones of its own
    for them, and only one's are used.
    """
    schemas = schema["components"]["schemas"]
    used: set[str] = set()
    found = set(_references(schema["paths"]))
    while found:
        used |= found
        found = {name for each in found for name in _references(schemas[each])} - used
    schema["components"]["schemas"] = {name: schemas[name] for name in schemas if name in used}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref":
                yield inner.rpartition("/")[2]
            else:
                yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def docs_router() -> APIRouter:
    """Return the route of the documentation page, which needs nothing from other servers."""
    router = APIRouter(include_in_schema=False)
    page = resources.files("mrs.server").joinpath("docs.html").read_text("utf-8")

    @router.get("/docs")
    async def get_docs() -> HTMLResponse:
        return HTMLResponse(page, headers={"content-security-policy": _PAGE_POLICY})

    return router
