"""What is stored of the conversation that a request goes on with."""

from __future__ import annotations

from collections.abc import Sequence

from mrs.server.responses.database import Item, KnownItem
from mrs.server.responses.errors import (
    PreviousResponseNotFoundError,
    PreviousResponseUnfinishedError,
)
from mrs.server.responses.items import referenced_ids
from mrs.server.responses.preparation import Turn
from mrs.server.responses.runs import ResponseRuns
from mrs.server.responses.schemas import ResponsesRequest
from mrs.server.responses.store import ResponseStore

_UNFINISHED = {
    "queued": "has not begun",
    "in_progress": "is still being generated",
    "failed": "failed",
}


async def find_turn(
    request: ResponsesRequest, store: ResponseStore, runs: ResponseRuns, owner: str
) -> Turn:
    """Fetch what a request refers to.

    Raises:
        PreviousResponseNotFoundError: there is no such response.
        PreviousResponseUnfinishedError: it has no answer to go on from.
        ResponseStoreError: the store cannot be read.
    """
    context: Sequence[KnownItem] = ()
    if request.previous_response_id is not None:
        context = await _context(request.previous_response_id, store, runs, owner)
    known: dict[str, Item] = {}
    if wanted := referenced_ids(request):
        known = await store.items(wanted, owner)
        known |= {one.item["id"]: one.item for one in context}
    return Turn(request, context, known)


async def _context(
    response_id: str, store: ResponseStore, runs: ResponseRuns, owner: str
) -> Sequence[KnownItem]:
    run = runs.find(response_id, owner)
    found = None if run is not None else await store.get(response_id, owner)
    if run is None and found is None:
        raise PreviousResponseNotFoundError(response_id)
    status = run.resource["status"] if run is not None else found and found.resource["status"]
    if status in _UNFINISHED or found is None:
        raise PreviousResponseUnfinishedError(
            f"The previous response {response_id[:100]!r} {_UNFINISHED.get(str(status), 'ends')}.",
            hint="Go on from a response that is complete.",
            param="previous_response_id",
        )
    return [*found.context, *found.outputs]
