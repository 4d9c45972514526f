"""The past of one host of a fleet: the windows that the server of its rack keeps, and what the host's own
recording has where these are missing."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from nats.aio.client import Client
from nats.aio.msg import Msg

from stalltop.fleet import subjects
from stalltop.fleet.answers import NOTHING, TOO_LARGE
from stalltop.fleet.connection import FleetError, ServerAccess, close, connected
from stalltop.fleet.messages.window_message import END, START, decoded_window
from stalltop.fleet.remote_host import UnansweredError, request
from stalltop.fleet.server_place import Rack, jetstream_of
from stalltop.fleet.stored import READ_SECONDS, decoded_messages
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.window import Window
from stalltop.recordings.message.decoding import MessageDecoder

LEAST_SECONDS: Final = 10.0
"""The shortest window that a host is asked for, unless a longer one is too large for a message."""
MOST_PARTS: Final = 60
"""Windows that a host is asked for at most, of about equal lengths."""
HOLE_SECONDS: Final = 2.0
"""A host is not asked for less."""
NEWEST_SECONDS: Final = 5.0
"""Windows of this time may still be on their way."""
ANSWER_SECONDS: Final = 60.0
"""Longest wait for the answer of a host."""
_SAME: Final = 0.01
"""Times that differ by less are equal, s."""
_LONGEST: Final = 3600.0
"""A window of a recording is no longer than this, s."""


class _Part(NamedTuple):
    window: Window
    start: float
    end: float
    """The times of a window. Between those, some may be missing in a sum of windows."""


def host_windows(
    access: ServerAccess, address: HostAddress, seconds: float, say: Callable[[str], object]
) -> list[Window]:
    """Returns the windows of the last ``seconds`` of a host, oldest first, no call twice. ``say`` gets a line
    if the host does not answer. Raises FleetError if there are none."""
    parts, why = asyncio.run(_parts(access, address, time.time() - seconds))
    if not parts:
        raise FleetError(
            f"nothing is known of {address.text} at that time" + (f": {why}" if why else ""),
            "stalltop fleet --once lists the hosts",
        )
    if why:
        say(f"a part of that time is missing: {why}")
    return [part.window for part in parts]


async def _parts(access: ServerAccess, address: HostAddress, since: float) -> tuple[list[_Part], str]:
    """Returns the windows, oldest first, and why the host was not asked to the end ('': it was)."""
    client = await connected(access, f"stalltop fleet, {address.text}")
    why = ""
    try:
        stored = list[_Part]()
        try:
            stored = await _stored(client, address, since)
        except FleetError as error:
            why = error.reason
        found = list[_Part]()
        holes = _holes(stored, since, time.time())
        shortest = max(sum(until - begin for begin, until in holes) / MOST_PARTS, LEAST_SECONDS)
        for begin, until in reversed(holes):
            more, refused = await _recorded(client, address, begin, until, shortest)
            found += more
            if refused:
                why = refused
                break
    finally:
        await close(client)
    # A recorded window may be longer than the hole: it has the calls of the stored ones beside it.
    kept = [one for one in stored if not any(_overlap(one, other) for other in found)]
    parts = sorted([*kept, *found], key=lambda one: one.start)
    return [one for one in parts if one.window.host == parts[-1].window.host], why


async def _stored(client: Client, address: HostAddress, since: float) -> list[_Part]:
    decoder = MessageDecoder()

    def decode(message: Msg) -> Window:
        return decoded_window(message.data, decoder)

    js = jetstream_of(client, Rack(address.cluster, address.rack), READ_SECONDS)
    subject = subjects.of_host(subjects.WINDOW, address)
    windows = await decoded_messages(js, "ST1_WIN", subject, "its windows", decode, since)
    # Windows that an agent could not send at once come after newer ones.
    by_time = {(one.start, one.end): _Part(one, one.start, one.end) for one in windows if one.end > since}
    return [by_time[times] for times in sorted(by_time)]


def _holes(parts: Sequence[_Part], since: float, now: float) -> list[tuple[float, float]]:
    """Returns the stretches from ``since`` to ``now`` of which no window of ``parts`` is."""
    holes, at = [], since
    times = [(one.start, one.end) for one in parts]
    for start, end in [*times, (now - NEWEST_SECONDS if times else now, now)]:
        if start - at > HOLE_SECONDS:
            holes.append((at, start))
        at = max(at, end)
    return holes


def _overlap(one: _Part, other: _Part) -> bool:
    return one.start < other.end - _SAME and other.start < one.end - _SAME


async def _recorded(
    client: Client, address: HostAddress, begin: float, until: float, length: float
) -> tuple[list[_Part], str]:
    """Asks a host for what it has recorded from ``begin`` to ``until``, in windows of about ``length``, s.
    Returns the windows, newest first, and why it was not asked to the end ('': it was)."""
    found, at, seconds = list[_Part](), until, length
    while at - begin > HOLE_SECONDS:
        # Windows that only touch this time are not wanted.
        asked = {"what": "window", "at": at - _SAME, "seconds": min(seconds, at - begin) - 2 * _SAME}
        try:
            part = _part(await request(client, address, asked, ANSWER_SECONDS))
        except UnansweredError as error:
            if error.code == TOO_LARGE and seconds > 1.0:
                seconds = max(seconds / 4, 1.0)
                continue
            if error.code not in (NOTHING, TOO_LARGE):
                return found, error.reason
            at -= seconds
            continue
        except FleetError as error:
            return found, error.reason
        if not at - seconds - _LONGEST < part.start < at < part.start + seconds + 2 * _LONGEST:
            return found, f"{address.text} sends a window of another time"
        if found and _overlap(part, found[-1]):
            return found, f"{address.text} sends the same time twice"
        found.append(part)
        at = part.start
    return found, ""


def _part(message: Msg) -> _Part:
    """Returns the window in an answer. Raises FleetError."""
    try:
        window = decoded_window(message.data)
        headers = message.headers or {}
        start = float(headers.get(START, window.start))
        end = float(headers.get(END, window.end))
        if not (math.isfinite(start) and math.isfinite(end) and start < end):
            raise ValueError("its times are invalid")
    except ValueError as error:
        raise FleetError(f"the host sends no window: {error}") from None
    return _Part(window, start, end)


class HostAnswer(NamedTuple):
    """What a host answers to SQL."""

    columns: list[str]
    rows: list[list[Any]]
    """Texts, numbers and None."""
    warnings: list[str]
    more: bool
    """Whether there are more rows, which the host does not send."""


def host_answer(access: ServerAccess, address: HostAddress, sql: str, seconds: float) -> HostAnswer:
    """Returns what a host answers to ``sql`` on its recording within ``seconds``. Raises FleetError."""

    async def asked() -> Msg:
        client = await connected(access, f"stalltop query, {address.text}")
        try:
            what = {"what": "query", "sql": sql, "seconds": seconds}
            return await request(client, address, what, ANSWER_SECONDS)
        finally:
            await close(client)

    content = asyncio.run(asked()).data
    try:
        found = json.loads(content)
        columns, rows = list(map(_text, found["columns"])), [list(row) for row in found["rows"]]
        if not all(len(row) == len(columns) and all(map(_is_plain, row)) for row in rows):
            raise ValueError("rows and columns do not fit")
        return HostAnswer(columns, rows, list(map(_text, found["warnings"])), found.get("more") is True)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FleetError(f"{address.text} gives an answer that cannot be read: {error}") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is none")
    return value


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)
