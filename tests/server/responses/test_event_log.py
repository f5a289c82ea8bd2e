from __future__ import annotations

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st

from mrs.server.responses.event_log import EventLog, pack_events, unpack_events
from mrs.server.responses.event_writer import EventWriter, obfuscated


@given(st.lists(st.text()))
def test_packed_events_are_the_same_ones_again(texts: list[str]) -> None:
    writer = EventWriter()
    frames = [writer.event("response.output_text.delta", delta=text) for text in texts]
    assert unpack_events(pack_events(frames)) == frames


async def _collect(log: EventLog, after: int) -> bytes:
    return b"".join([b"".join(frames) async for frames in log.follow(after)])


def test_followers_see_all_that_is_after_their_number_however_early_they_come() -> None:
    async def play() -> list[bytes]:
        log = EventLog()
        early = asyncio.ensure_future(_collect(log, -1))
        log.append([b"0", b"1"])
        await asyncio.sleep(0)
        middle = asyncio.ensure_future(_collect(log, 0))
        ahead = asyncio.ensure_future(_collect(log, 2))
        await asyncio.sleep(0)
        log.append([b"2"])
        await asyncio.sleep(0)
        log.append([b"3"])
        log.close()
        late = asyncio.ensure_future(_collect(log, 1))
        return await asyncio.gather(early, middle, ahead, late)

    assert asyncio.run(play()) == [b"0123", b"123", b"3", b"23"]


def test_a_follower_beyond_the_end_hears_nothing() -> None:
    async def play() -> bytes:
        log = EventLog()
        log.append([b"0"])
        log.close()
        return await _collect(log, 7)

    assert asyncio.run(play()) == b""


def test_obfuscation_can_come_later_and_only_once() -> None:
    writer = EventWriter()
    frame = writer.delta(writer.frame_of_delta("response.output_text.delta", item_id="a"), "Hi")
    hidden = obfuscated(frame)
    assert len(json.loads(hidden.partition(b"data: ")[2])["obfuscation"]) == 62
    assert obfuscated(hidden) == hidden
    other = writer.event("response.output_text.done", text="Hi")
    assert obfuscated(other) == other


def test_a_delta_is_the_event_that_it_seems() -> None:
    writer = EventWriter()
    writer.event("response.created")
    text = 'say "hi"\n\u2028é'
    frame = writer.delta(writer.frame_of_delta("a.delta", item_id="i", output_index=0), text)
    name, data, *rest = frame.split(b"\n")
    assert name == b"event: a.delta"
    assert rest == [b"", b""]
    assert json.loads(data.removeprefix(b"data: ")) == {
        "type": "a.delta",
        "item_id": "i",
        "output_index": 0,
        "sequence_number": 1,
        "delta": text,
    }
