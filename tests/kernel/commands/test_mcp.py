"""Tests that a loop of tool calls alone finds who slows whom among real tenants."""

from __future__ import annotations

import asyncio
import os

import pytest

from scripts.agent_sessions import session, verdict

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can trace"),
    pytest.mark.timeout(300),
]


@pytest.mark.quiet_machine(reason="others' load on CPUs and disks is a problem, too", tries=2)
def test_a_loop_of_tool_calls_finds_who_keeps_the_disk_busy() -> None:
    calls = asyncio.run(session("slow-disk"))
    found = verdict(calls)
    assert (found["cause"], found["culprit"]) == ("loader_disk", "⟦nightly-backup⟧")
    assert not any(call.answer["simulated"] for call in calls)
    assert calls[-1].answer["calls"]
