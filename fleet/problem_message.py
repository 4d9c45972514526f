"""The wire format of a change of a problem: a JSON object."""

from __future__ import annotations

import contextlib
import json
from typing import Final, get_args

import nats.errors
from nats.aio.client import Client

from stalltop.fleet import subjects
from stalltop.fleet.connection import FleetError
from stalltop.fleet.record_format import Readers
from stalltop.fleet.stored import READ_SECONDS, stored_messages
from stalltop.model.fleet.host_summary import HostAddress, ProblemSummary
from stalltop.model.fleet.problem_changes import Change, ProblemChange

VERSION: Final = 1
_read_problem: Final = Readers(1).of(ProblemSummary)


def encoded_change(change: ProblemChange) -> bytes:
    """Returns ``change`` as a message."""
    content = {"version": VERSION, "change": change.change, "at": change.at, **change.problem._asdict()}
    return json.dumps(content).encode()


def decoded_change(content: bytes) -> ProblemChange:
    """Returns the change in a message. Raises ValueError if it is none."""
    try:
        found = json.loads(content)
        values = [found[name] for name in ProblemSummary._fields if name in found]
        change, at = found["change"], float(found["at"])
    except (TypeError, KeyError, RecursionError, OverflowError) as error:
        raise ValueError(f"no change of a problem: {error}") from None
    if found.get("version") != VERSION or change not in get_args(Change):
        raise ValueError("no change of a problem that this program knows")
    return ProblemChange(change, _read_problem(values, False), at)


async def problem_changes(client: Client, cluster: str) -> list[tuple[HostAddress, ProblemChange]]:
    """Returns the changes of problems that the server keeps, of one cluster or of all ('').  Raises
    FleetError if they cannot be read."""
    js = client.jetstream(timeout=READ_SECONDS)
    try:
        messages = await stored_messages(js, "ST1_CHAIN", subjects.every(subjects.PROBLEM, cluster))
    except (nats.errors.Error, TimeoutError) as error:
        raise FleetError(
            f"the past problems cannot be read: {error or 'the server does not permit it'}",
            "see stalltop fleet check",
        ) from None
    found = []
    for message in messages:
        with contextlib.suppress(ValueError):
            found.append((subjects.address_in(message.subject), decoded_change(message.data)))
    return found
