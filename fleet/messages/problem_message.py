"""The wire format of a change of a problem: a JSON object."""

from __future__ import annotations

import json
from typing import Final, get_args

from stalltop.fleet.messages.record_format import Readers
from stalltop.model.fleet.host_summary import ProblemSummary
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
        known = {**ProblemSummary._field_defaults, **found}
        values = [known[name] for name in ProblemSummary._fields]
        change, at = found["change"], float(found["at"])
    except (TypeError, KeyError, RecursionError, OverflowError) as error:
        raise ValueError(f"no change of a problem: {error}") from None
    if found.get("version") != VERSION or change not in get_args(Change):
        raise ValueError("no change of a problem that this program knows")
    return ProblemChange(change, _read_problem(values, False), at)
