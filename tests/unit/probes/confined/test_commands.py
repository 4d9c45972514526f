"""Tests that command lines of processes are read, remembered for some windows, and never waited for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from stalltop.probes.confined import commands
from stalltop.probes.confined.commands import KEPT_SAMPLES, ProcessCommands
from stalltop.probes.confined.examiner import Examiner
from stalltop.probes.confined.link import Confined, Here, NoAnswerError, UnavailableError

GONE = 4_000_000
"""A PID above any that the Linux kernel assigns on a host of a few CPUs."""


class Counting:
    """Answers here, and counts the questions about each process."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.error: OSError | None = None

    def ask(self, question: Callable[..., Any], given: Iterable[Sequence[Any]]) -> list[Any]:
        arguments = [*given]
        self.asked += [pid for _, pid in arguments]
        assert self.goes_on.wait(10)
        return [self.error] if self.error else Here().ask(question, arguments)


@pytest.fixture
def asks() -> Counting:
    return Counting()


@pytest.fixture
def read(asks: Counting) -> Iterator[ProcessCommands]:
    read = ProcessCommands(asks)
    read.begin()
    yield read
    read.close()


def test_numbers_are_left_out_of_command_lines() -> None:
    confined = Confined()
    confined.ask(Examiner.running, [("/", os.getpid())])  # waits until it has started
    read = ProcessCommands(confined)
    with subprocess.Popen(["sleep", "3600.25"]) as sleeping:
        until = time.monotonic() + 10
        while not (found := read.commands([sleeping.pid, GONE]))[sleeping.pid]:
            assert time.monotonic() < until
        sleeping.kill()
    assert found == {sleeping.pid: b"sleep\0.\0", GONE: b""}
    read.close()
    confined.close()


def test_python_is_recognized(read: ProcessCommands) -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        assert read.python([os.getpid(), sleeping.pid, GONE]) == (os.getpid(),)
        sleeping.kill()
    assert "python" in os.readlink(f"/proc/{os.getpid()}/exe"), sys.executable


def test_a_process_is_read_once_and_again_after_some_windows(asks: Counting, read: ProcessCommands) -> None:
    for _ in range(KEPT_SAMPLES + 1):
        assert read.commands([os.getpid(), GONE])[os.getpid()]
        read.begin()
    assert asks.asked == [os.getpid(), GONE]
    assert read.commands([os.getpid()])[os.getpid()]
    assert asks.asked == [os.getpid(), GONE, os.getpid()]


def test_an_answer_that_comes_late_is_for_the_next_window(asks: Counting, read: ProcessCommands) -> None:
    asks.goes_on.clear()
    before = time.monotonic()
    assert read.commands([os.getpid()]) == {os.getpid(): b""}
    assert read.python([os.getpid()]) == (), "nothing else is asked meanwhile"
    assert time.monotonic() - before < 5
    asks.goes_on.set()
    while not read.commands([os.getpid()])[os.getpid()]:
        time.sleep(0.01)
    assert asks.asked == [os.getpid()]


def test_a_process_that_does_not_answer_is_left_alone(asks: Counting, read: ProcessCommands) -> None:
    asks.error = NoAnswerError("it hangs")
    for _ in range(3):
        assert read.commands([os.getpid()]) == {os.getpid(): b""}
        read.begin()
    assert asks.asked == [os.getpid()]


def test_without_a_confined_process_nothing_is_known(asks: Counting, read: ProcessCommands) -> None:
    asks.error = UnavailableError("it cannot be started")
    assert read.commands([os.getpid()]) == {os.getpid(): b""}
    asks.error = None
    assert read.commands([os.getpid()])[os.getpid()], "it is asked again"
    assert commands.WINDOW_SECONDS < 0.5
