"""Tests that the loop of the documented sessions finds who slows whom among the real tenants of the demo, by
tool calls alone."""

from __future__ import annotations

import asyncio

import pytest

from scripts.agent_sessions import SCENARIOS, session, verdict

FOUND = {
    "noisy-neighbour": ("cpu_contention", "⟦video-encoder⟧"),
    "slow-disk": ("loader_disk", "⟦nightly-backup⟧"),
    "straggler": ("nccl_straggler", "⟦rank 1⟧"),
}


@pytest.mark.quiet_machine(reason="others' load on CPUs and disks is a problem, too", tries=3)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_loop_of_tool_calls_finds_the_culprit(scenario: str) -> None:
    calls = asyncio.run(session(scenario))
    found = verdict(calls)
    assert found["culprit"] == FOUND[scenario][1]
    causes = [call.answer["problem"]["cause"] for call in calls if call.name == "explain"]
    assert FOUND[scenario][0] in causes
    assert not any(call.answer["simulated"] for call in calls)
