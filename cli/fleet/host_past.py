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
from stalltop.fleet.watch import stamp
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.window import Window
from stalltop.recordings.message.decoding import MessageDecoder

LEAST_SECONDS: Final = 10.0
"""The shortest window that a host is asked for, unless a longer one is too large for a message."""
MOST_PARTS: Final = 60
"""Windows that a host is asked for, of about equal lengths, unless they are too large."""
MOST_REQUESTS: Final = 500
LEAST_PART_SECONDS: Final = 0.6
"""Smaller parts of what is too large are not asked for: windows are a second long."""
HOLE_SECONDS: Final = 0.2
"""A host is not asked for less: windows of a second follow each other closely."""
NEWEST_SECONDS: Final = 5.0
"""Windows of this time may still be on their way."""
ANSWER_SECONDS: Final = 60.0
"""Longest wait for the answer of a host."""
CLOCK_SECONDS: Final = 60.0
"""How much older windows are read from the server, in case its clock is behind, s."""
CLOCKS_AGREE_SECONDS: Final = 5.0
"""Clocks that differ by less are taken for equal."""
_TOLD_SECONDS: Final = 2.0
"""If less time than this is missing, s, nothing is said."""
_SAME: Final = 0.01
"""Times that differ by less are equal, s."""
_LONGEST: Final = 3600.0
"""A window of a recording is no longer than this, s."""


class _Part(NamedTuple):
    window: Window
    start: float
    end: float
    """The times of a window, by the host's clock. Between those, some may be missing in a sum of windows."""


class _HostTime(NamedTuple):
    since: float
    until: float
    """Times by the host's clock."""


def host_windows(
    access: ServerAccess, address: HostAddress, seconds: float, say: Callable[[str], object]
) -> list[Window]:
    """Returns the windows of the last ``seconds`` of a host, oldest first, no call twice. ``say`` gets a line
    if time is missing. Raises FleetError if there are none."""
    parts, whole, why = asyncio.run(_parts(access, address, seconds))
    if not parts:
        raise FleetError(
            f"nothing is known of {address.text} at that time" + (f": {why}" if why else ""),
            "stalltop fleet --once lists the hosts",
        )
    missing = sum(until - since for since, until in _holes(parts, whole))
    if missing > _TOLD_SECONDS:
        why = why or "neither the server nor the recording of the host has that time"
        say(f"{missing:,.0f} s of the past of {address.text} are missing: {why}")
    return [part.window for part in parts]


async def _parts(
    access: ServerAccess, address: HostAddress, seconds: float
) -> tuple[list[_Part], _HostTime, str]:
    """Returns the windows, oldest first; the time that was wanted; and the last reason for which a window
    could not be read ('': all could)."""
    client = await connected(access, f"stalltop fleet, {address.text}")
    now, why = time.time(), ""
    try:
        stored, ahead = list[_Part](), 0.0
        try:
            stored, ahead = await _stored(client, address, now - seconds - CLOCK_SECONDS)
        except FleetError as error:
            why = error.reason
        whole = _HostTime(now - seconds + ahead, now + ahead)
        stored = [one for one in stored if one.end > whole.since]
        asking = _Asking(client, address)
        holes = _holes(stored, whole)
        length = max(sum(until - since for since, until in holes) / MOST_PARTS, LEAST_SECONDS)
        for hole in reversed(holes):
            await asking.read(hole, length)
    finally:
        await close(client)
    # A recorded window may be longer than the hole: it has the calls of the stored ones beside it.
    kept = [one for one in stored if not any(_overlap(one, other) for other in asking.found)]
    parts = sorted([*kept, *asking.found], key=lambda one: one.start)
    return [one for one in parts if one.window.host == parts[-1].window.host], whole, asking.why or why


async def _stored(client: Client, address: HostAddress, since: float) -> tuple[list[_Part], float]:
    """Returns the windows that the server has stored since a Unix time, and by how much the host's clock is
    ahead of this one, s."""
    decoder = MessageDecoder()

    def decode(message: Msg) -> tuple[Window, float]:
        return decoded_window(message.data, decoder), stamp(message)[0]

    js = jetstream_of(client, Rack(address.cluster, address.rack), READ_SECONDS)
    subject = subjects.of_host(subjects.WINDOW, address)
    found = await decoded_messages(js, "ST1_WIN", subject, "its windows", decode, since)
    # Windows that an agent could not send at once come after newer ones.
    by_time = {(one.start, one.end): _Part(one, one.start, one.end) for one, _ in found}
    return [by_time[times] for times in sorted(by_time)], _ahead(found, time.time())


def _ahead(found: Sequence[tuple[Window, float]], now: float) -> float:
    """Returns by how much the host's clock is ahead of this one, s, from windows with the times at which the
    server has stored them; 0 if it is not clear that they differ."""
    late = max((one.end for one, _ in found), default=now) - now
    if late > CLOCKS_AGREE_SECONDS:
        return late
    # The host's clock is behind, or the host has sent nothing for some time. Windows that were sent late say
    # nothing of its clock, but one of them was sent at once.
    behind = max((one.end - at for one, at in found), default=0.0)
    return behind if late < -CLOCKS_AGREE_SECONDS and behind < -CLOCKS_AGREE_SECONDS else 0.0


def _holes(parts: Sequence[_Part], whole: _HostTime) -> list[_HostTime]:
    """Returns the stretches within ``whole`` of which no window of ``parts`` is, oldest first."""
    holes, at = [], whole.since
    times = [(one.start, one.end) for one in parts]
    for start, end in [*times, (whole.until - NEWEST_SECONDS if times else whole.until, whole.until)]:
        if start - at > HOLE_SECONDS:
            holes.append(_HostTime(at, start))
        at = max(at, end)
    return holes


def _overlap(one: _Part, other: _Part) -> bool:
    return one.start < other.end - _SAME and other.start < one.end - _SAME


class _Asking:
    """Asks a host for what it has recorded."""

    def __init__(self, client: Client, address: HostAddress) -> None:
        self._client, self._address = client, address
        self._requests = MOST_REQUESTS
        self.found: list[_Part] = []
        """Newest first."""
        self.why = ""
        """Why the last window that was not read was not."""

    async def read(self, hole: _HostTime, length: float) -> None:
        """Reads windows of about ``length``, s, from the end of ``hole`` to its beginning."""
        seconds, too_large = length, False
        # The windows that filled a newer hole may reach into this one.
        at = min(hole.until, self.found[-1].start) if self.found else hole.until
        while (rest := at - hole.since) > HOLE_SECONDS:
            wanted = rest if rest < 1.5 * seconds and not too_large else min(seconds, rest)
            if not self._requests:
                self.why = self.why or f"{self._address.text} was asked {MOST_REQUESTS} times"
                return
            self._requests -= 1
            try:
                part = await self._recorded(at, wanted)
            except UnansweredError as error:
                if error.code == TOO_LARGE and math.isnan(error.start) and wanted > LEAST_PART_SECONDS:
                    seconds, too_large = max(wanted / 4, LEAST_PART_SECONDS), True
                    continue
                if error.code == NOTHING:
                    seconds = min(2 * seconds, length)
                else:
                    self.why = error.reason
                skipped = error.start if at - _LONGEST < error.start < at else at
                at = min(at - wanted, skipped)
                continue
            except FleetError as error:
                self.why, self._requests = error.reason, 0
                return
            at, seconds, too_large = part.start, min(2 * seconds, length), False
            # If the recorder has merged windows since the previous answer, this one has what those have.
            before = [one for one in self.found if _overlap(part, one)]
            if all(one.end <= part.end + _SAME for one in before):
                self.found = [one for one in self.found if one not in before]
                self.found.append(part)
            else:
                self.why = f"{self._address.text} sends the same time twice"

    async def _recorded(self, at: float, seconds: float) -> _Part:
        """Returns the window of ``seconds`` that ends at ``at``. Raises FleetError."""
        # Windows that only touch this time are not wanted.
        asked = {"what": "window", "at": at - _SAME, "seconds": seconds - 2 * _SAME}
        part = _part(await request(self._client, self._address, asked, ANSWER_SECONDS))
        if not at - seconds - _LONGEST < part.start < at < part.start + seconds + 2 * _LONGEST:
            raise FleetError(f"{self._address.text} sends a window of another time")
        return part


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
