"""Tests that a loop of tool calls alone finds who slows whom among real tenants."""

from __future__ import annotations

import asyncio
import os

import pytest
from mcp import Client

from scripts.agent_sessions import ToolCall, investigated
from stalltop.cli.agent.places import LivePlace
from stalltop.cli.agent.server import agent_server
from stalltop.cli.agent.tools import HostTools
from stalltop.cli.commands.record import read_until
from stalltop.cli.tellings import tellings
from stalltop.demo.scenario import load_scenario
from stalltop.demo.source import demo_source
from stalltop.diagnosis.diagnosed import Diagnosed
from stalltop.diagnosis.engine import Diagnosis

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can trace"),
    pytest.mark.timeout(300),
]


def test_a_loop_of_tool_calls_finds_who_keeps_the_disk_busy() -> None:
    cause, culprit = "loader_disk", "nightly-backup"

    async def session(place: LivePlace) -> list[ToolCall]:
        async with Client(agent_server(HostTools(place, tellings()), "1")) as one:
            return await investigated(one, cause, culprit)

    place = LivePlace(
        Diagnosed(demo_source(load_scenario("slow-disk")), Diagnosis(own_pid=os.getpid())), read_until, None
    )
    try:
        _, explained, rows = asyncio.run(session(place))
    finally:
        place.close()
    assert explained.answer["problem"]["culprit"] == f"⟦{culprit}⟧"
    assert not explained.answer["simulated"]
    assert rows.answer["rows"]
