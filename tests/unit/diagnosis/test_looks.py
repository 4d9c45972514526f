"""Tests which tool is proposed to see what a process does."""

from __future__ import annotations

import pytest

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Who
from stalltop.diagnosis.wording.looks import at_line
from tests.windows.evidence import TRAIN, window


@pytest.mark.parametrize(
    ("process", "doing", "command"),
    [
        ("python3", "computes", "py-spy dump --pid 7"),
        ("train.py", "holds the lock", "py-spy dump --pid 7"),
        ("pt_data_worker", "sleeps", "py-spy dump --pid 7"),
        ("decode_pool", "computes", "perf top -p 7"),
        ("decode_pool", "holds the lock", "gdb -p 7 -batch -ex 'thread apply all bt'"),
        ("redis-server", "computes", "redis-cli slowlog get"),
        ("postgres", "sleeps", ""),
    ],
)
def test_the_tool_fits_the_program(process: str, doing: str, command: str) -> None:
    fix = at_line(Facts(window()), Who(TRAIN, 7, process), doing)
    assert (fix.command, fix.look) == (command, True)
    assert ("asyncio" in fix.text) == (doing == "sleeps" and process == "pt_data_worker")
