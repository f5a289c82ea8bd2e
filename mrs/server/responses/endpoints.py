"""``/v1/responses`` and what is below it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from mrs.errors import RequestError
from mrs.server.openai.error_responses import ERRORS
from mrs.server.openai.schemas import ErrorBody
from mrs.server.openapi import json_body, schema_reference
from mrs.server.request_body import read_json_body
from mrs.server.responses.creation import ResponseCreation, ResponsesContext, owner_of
from mrs.server.responses.documents import (
    DeletedResponse,
    InputItemList,
    InputTokenCount,
    ResponseResource,
)
from mrs.server.responses.errors import (
    NoEventsError,
    NotInBackgroundError,
    ResponseNotFoundError,
    RunningElsewhereError,
)
from mrs.server.responses.input_list import MAX_LIMIT, page
from mrs.server.responses.json_bytes import to_json
from mrs.server.responses.query import check_include, flag, number, page_request
from mrs.server.responses.replay import EventReplay, stored_log
from mrs.server.responses.resource import Resource
from mrs.server.responses.schemas import INCLUDABLE
from mrs.server.settings import ServerSettings

_EVENTS = {"text/event-stream": {"schema": schema_reference("ResponseStreamEvent")}}
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: ERRORS[400],
    404: {"model": ErrorBody, "description": "The response, item or model is not there."},
    500: ERRORS[500],
}
_GENERATING_ERRORS: dict[int | str, dict[str, Any]] = {
    status: ERRORS[status] for status in (413, 429, 503)
}


class CompactionNotSupportedError(RequestError):
    """Conversations are not compacted here."""

    code = "unknown_url"
    status = 404


def responses_router(context: ResponsesContext, settings: ServerSettings) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["responses"])
    _add_generating(router, context, settings)
    _add_stored(router, context)
    return router


def _add_generating(router: APIRouter, context: ResponsesContext, settings: ServerSettings) -> None:
    @router.post(
        "/v1/responses",
        response_class=Response,
        responses=_ERRORS
        | _GENERATING_ERRORS
        | {
            200: {
                "model": ResponseResource,
                "description": "The response; with `stream`, named events that end with "
                "`response.completed`, `response.incomplete` or `response.failed`.",
                "content": _EVENTS,
            }
        },
        openapi_extra=json_body("ResponsesRequest"),
    )
    async def create_response(request: Request) -> Response:
        """Continue a conversation: items in, items out."""
        body = await read_json_body(request, settings.max_body_bytes)
        return ResponseCreation(context, body)

    @router.post(
        "/v1/responses/input_tokens",
        responses=_ERRORS | _GENERATING_ERRORS,
        openapi_extra=json_body("ResponsesRequest"),
    )
    async def count_input_tokens(request: Request) -> InputTokenCount:
        """Count the tokens of a request, its tools and what it goes on from included."""
        body = await read_json_body(request, settings.max_body_bytes)
        counted = await context.parse(body)
        turn = await context.find_turn(counted, owner_of(request.scope))
        async with context.server.models.lease(counted.model) as model:
            prepared = await context.prepare(turn, len(body), model)
        return InputTokenCount(
            object="response.input_tokens", input_tokens=len(prepared.generation.prompt_ids)
        )

    @router.post("/v1/responses/compact", include_in_schema=False)
    async def compact_response() -> Response:
        raise CompactionNotSupportedError(
            "Conversations are not compacted here.",
            hint="Send 'truncation': 'auto' to leave out the oldest turns.",
        )


def _add_stored(router: APIRouter, context: ResponsesContext) -> None:
    @router.get(
        "/v1/responses/{response_id}",
        response_class=Response,
        responses=_ERRORS | {200: {"model": ResponseResource, "content": _EVENTS}},
        openapi_extra=_query(
            stream="Send the events of the response, again or as they come.",
            starting_after="The number of the last event that is not wanted.",
            include="What to include; all that there is is shown anyway.",
            include_obfuscation="Make all deltas of similar length, with random characters.",
        ),
    )
    async def get_response(response_id: str, request: Request) -> Any:
        """A response as it is now."""
        check_include(request)
        owner = owner_of(request.scope)
        if flag(request, "stream"):
            return await _replay(context, response_id, owner, request)
        run = context.runs.find(response_id, owner)
        return _json(run.resource if run else await _stored(context, response_id, owner))

    @router.delete("/v1/responses/{response_id}", responses=_ERRORS)
    async def delete_response(response_id: str, request: Request) -> DeletedResponse:
        """Forget a response; what still runs in the background ends."""
        owner = owner_of(request.scope)
        run = context.runs.find(response_id, owner)
        if run is not None:
            run.forget()
            await context.runs.cancel(run)
        deleted = await context.store.delete(response_id, owner)
        if run is None and not deleted:
            raise ResponseNotFoundError(response_id)
        return DeletedResponse(id=response_id, object="response", deleted=True)

    @router.post(
        "/v1/responses/{response_id}/cancel",
        response_class=Response,
        responses=_ERRORS | {200: {"model": ResponseResource}, 409: {"model": ErrorBody}},
    )
    async def cancel_response(response_id: str, request: Request) -> Response:
        """End a response that runs in the background; one that has ended stays as it is."""
        owner = owner_of(request.scope)
        run = context.runs.find(response_id, owner)
        if run is not None and context.runs.in_background(run):
            await context.runs.cancel(run)
        resource = run.resource if run else await _stored(context, response_id, owner)
        if not resource["background"]:
            raise NotInBackgroundError(
                f"The response {response_id!r} was not created with 'background': true.",
                hint="Close the connection to end such a response.",
                param="response_id",
            )
        if resource["status"] in ("queued", "in_progress"):
            raise RunningElsewhereError(
                f"The response {response_id!r} is being generated by another server.",
                hint="Ask that one.",
                param="response_id",
            )
        return _json(resource)

    @router.get(
        "/v1/responses/{response_id}/input_items",
        responses=_ERRORS,
        response_model=InputItemList,
        openapi_extra=_query(
            limit="Most items of a page, 1 to 100; 20 if absent.",
            order="`asc` or `desc`, which is usual.",
            after="Id of the item that the page begins after.",
            before="Id of the item that it ends before.",
            include="What to include; all that there is is shown anyway.",
        ),
    )
    async def list_input_items(response_id: str, request: Request) -> Response:
        """What a response was made from: the conversation before it, and its own input."""
        check_include(request)
        wanted, owner = page_request(request), owner_of(request.scope)
        found = await context.store.get(response_id, owner)
        if found is None:
            raise ResponseNotFoundError(response_id)
        return _json(page([known.item for known in found.context], wanted))


async def _stored(context: ResponsesContext, response_id: str, owner: str) -> Resource:
    found = await context.store.get(response_id, owner)
    if found is None:
        raise ResponseNotFoundError(response_id)
    return found.resource


async def _replay(
    context: ResponsesContext, response_id: str, owner: str, request: Request
) -> Response:
    after = number(request, "starting_after", 0, 10**18 - 1)
    after = -1 if after is None else after
    interval = context.server.keep_alive_interval
    obfuscate = flag(request, "include_obfuscation")
    run = context.runs.find(response_id, owner)
    if run is not None and run.log is not None:
        return EventReplay(run.log, interval, after, obfuscate=obfuscate)
    found = await context.store.get(response_id, owner)
    if found is None:
        raise ResponseNotFoundError(response_id)
    if found.events is None or found.server is not None:
        raise NoEventsError(
            f"The response {response_id!r} has no stored events.",
            hint="Those of responses with 'stream' or 'background' are stored.",
            param="stream",
        )
    return EventReplay(stored_log(found.events), interval, after, obfuscate=obfuscate)


def _json(value: Any) -> Response:
    return Response(to_json(value), media_type="application/json")


def _query(**descriptions: str) -> dict[str, Any]:
    """Describe query parameters that the endpoints read themselves."""
    return {
        "parameters": [
            {"name": name, "in": "query", "required": False, "schema": _KINDS.get(name, _TEXT)}
            | {"description": description}
            for name, description in descriptions.items()
        ]
    }


_TEXT = {"type": "string"}
_KINDS: dict[str, dict[str, Any]] = {
    "stream": {"type": "boolean"},
    "include_obfuscation": {"type": "boolean"},
    "starting_after": {"type": "integer", "minimum": 0},
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
    "order": {"type": "string", "enum": ["asc", "desc"]},
    "include": {"type": "array", "items": {"type": "string", "enum": list(INCLUDABLE)}},
}
