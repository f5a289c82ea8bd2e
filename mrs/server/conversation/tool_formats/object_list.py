"""A JSON list of call objects, as several families write it behind a marker of their own."""

from __future__ import annotations

from mrs.server.conversation.call_object import read_call_object
from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.feed import Feed, Reading


def read_call_list(feed: Feed, sink: EventSink) -> Reading[bool]:
    """Take ``[{...}, {...}]``, or one object without the brackets."""
    yield from feed.spaces()
    if not (yield from feed.accept("[")):
        return (yield from read_call_object(feed, sink))
    while True:
        yield from feed.spaces()
        if not (yield from read_call_object(feed, sink)):
            return False
        if sink.complete:
            return True
        yield from feed.spaces()
        if (yield from feed.accept("]")):
            return True
        if not (yield from feed.accept(",")):
            return False
