"""Tells whether TCP connections lose segments."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.facts import Facts

RETRANSMITS_A_SECOND: Final = 2.0
"""Least rate of retransmits that is noticeable, per second: a lost segment that no others follow is sent
again only after a timer of 200 ms or more, so that two of them cost a connection much of a second."""


def loses_segments(facts: Facts, pid: int) -> bool:
    """Returns whether a process's connections keep retransmitting segments."""
    process = facts.process(pid)
    if process is None:
        return False
    return facts.per_second(process.retransmits_v4 + process.retransmits_v6) >= RETRANSMITS_A_SECOND
