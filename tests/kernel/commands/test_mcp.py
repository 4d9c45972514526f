"""Tests that a loop of tool calls alone finds who slows whom among real tenants."""

from __future__ import annotations

import os

import pytest
from mcp import Client

from scripts.agent_sessions import investigated
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


@pytest.mark.parametrize(
    ("scenario", "cause", "culprit"),
    [
        pytest.param(
            *("noisy-neighbour", "cpu_contention", "video-encoder"),
            marks=pytest.mark.quiet_machine("other load takes the same CPU, and is named first", 2),
        ),
        ("slow-disk", "loader_disk", "nightly-backup"),
        ("straggler", "nccl_straggler", "rank 1"),
    ],
)
async def test_a_loop_of_tool_calls_finds_the_culprit(scenario: str, cause: str, culprit: str) -> None:
    source = Diagnosed(demo_source(load_scenario(scenario)), Diagnosis(own_pid=os.getpid()))
    place = LivePlace(source, read_until, None)
    try:
        async with Client(agent_server(HostTools(place, tellings()), "1")) as one:
            _, explained, rows = await investigated(one, cause, culprit)
    finally:
        place.close()
    assert explained.answer["problem"]["culprit"] == f"⟦{culprit}⟧"
    assert not explained.answer["simulated"]
    assert rows.answer["rows"]
