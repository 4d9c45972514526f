"""Tests calls in another thread: results, errors, and a call that hangs."""

from __future__ import annotations

import threading
import time

import pytest

from stalltop.probes.aside import Aside


def test_results_and_errors_reach_the_caller() -> None:
    aside = Aside("test")
    assert aside.call(lambda: 42, 30) == 42
    with pytest.raises(ZeroDivisionError):
        aside.call(lambda: 1 // 0, 30)
    assert aside.call(lambda: "still there", 30) == "still there"
    assert aside.call(threading.current_thread, 30) is not threading.current_thread()
    aside.close()
    aside.close()


def test_a_hanging_call_blocks_nobody_and_further_calls_are_dropped() -> None:
    aside = Aside("test")
    go_on = threading.Event()
    assert aside.call(go_on.wait, 0.01) is None
    assert aside.busy
    made: list[int] = []
    assert aside.call(lambda: made.append(1), 30) is None
    go_on.set()
    deadline = time.monotonic() + 30
    while aside.busy and time.monotonic() < deadline:
        time.sleep(0.01)
    assert aside.call(lambda: "again", 30) == "again"
    assert made == []
    aside.close()


def test_a_call_after_the_end_returns_at_once() -> None:
    aside = Aside("test")
    aside.close()
    began = time.monotonic()
    assert aside.call(lambda: 42, 30) is None
    assert time.monotonic() - began < 15
