"""Finds out whether the TCP connections of a process lose segments."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.facts import Facts

RETRANSMITS_A_SECOND: Final = 2.0
"""Least number of retransmits per second that matters. A lost segment that no other segment follows is sent
again only after a timer of 200 ms or more, so two lost segments per second cost a connection much of its
time."""


def loses_segments(facts: Facts, pid: int) -> bool:
    """Returns whether the connections of a process retransmit segments again and again."""
    process = facts.process(pid)
    if process is None:
        return False
    return facts.per_second(process.retransmits_v4 + process.retransmits_v6) >= RETRANSMITS_A_SECOND
