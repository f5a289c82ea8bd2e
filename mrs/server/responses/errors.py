"""What can go wrong with stored and running responses."""

from __future__ import annotations

from mrs.errors import RequestError


class ResponseNotFoundError(RequestError):
    """No response with that id is stored, or it is another client's."""

    code = "response_not_found"
    status = 404

    def __init__(self, response_id: str) -> None:
        super().__init__(
            f"The response {response_id[:100]!r} was not found.",
            hint="It was never stored, was deleted, or has become too old.",
            param="response_id",
        )


class PreviousResponseNotFoundError(RequestError):
    """``previous_response_id`` names no stored response."""

    code = "previous_response_not_found"

    def __init__(self, response_id: str) -> None:
        super().__init__(
            f"The previous response {response_id[:100]!r} was not found.",
            hint="Only responses with 'store': true can be continued, until they are too old.",
            param="previous_response_id",
        )


class PreviousResponseUnfinishedError(RequestError):
    """``previous_response_id`` names a response that cannot be continued."""

    code = "previous_response_unfinished"


class ItemNotFoundError(RequestError):
    """An ``item_reference`` names no stored item."""

    code = "item_not_found"
    status = 404


class NotInBackgroundError(RequestError):
    """Only what runs in the background can be cancelled by its id."""

    code = "response_not_in_background"


class NoEventsError(RequestError):
    """The events of a response are not stored, or not from the place that was asked for."""

    code = "response_events_not_stored"


class RunningElsewhereError(RequestError):
    """Another server that shares the store generates the response."""

    code = "response_running_elsewhere"
    status = 409


class ResponseStoreError(RequestError):
    """The store cannot be read or written; no fault of the request."""

    code = "response_store_failed"
    status = 500
