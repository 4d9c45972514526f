"""TCP connections: whether they lose segments."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.facts import Facts

RETRANSMITS_A_SECOND: Final = 2.0
"""One lost segment costs a timer of 200 ms or more where no others follow it: two a second are noticed."""


def loses_segments(facts: Facts, pid: int) -> bool:
    """Whether a process's connections have to send segments again and again."""
    process = facts.process(pid)
    if process is None:
        return False
    return facts.per_second(process.retransmits_v4 + process.retransmits_v6) >= RETRANSMITS_A_SECOND
