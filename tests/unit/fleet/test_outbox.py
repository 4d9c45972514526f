"""Tests the buffer of windows for a server that is away."""

from __future__ import annotations

from stalltop.fleet.outbox import DROPPED, Outbox, OutgoingWindow
from stalltop.model.fleet.host_summary import WindowGap


def outgoing(second: int, size: int = 100) -> OutgoingWindow:
    return OutgoingWindow(f"w{second}", second, second + 1, b"x" * size)


def filled(seconds: int, most_bytes: int) -> Outbox:
    box = Outbox(most_bytes)
    for second in range(seconds):
        box.put(outgoing(second))
    return box


def test_windows_leave_in_order() -> None:
    box = filled(5, 1_000)
    first = box.first(2)
    assert [one.id for one in first] == ["w0", "w1"]
    box.sent(first)
    assert [one.id for one in box.first(9)] == ["w2", "w3", "w4"]
    assert box.bytes == 300
    assert not box.gaps


def test_what_does_not_fit_is_one_gap() -> None:
    box = filled(100, 1_000)
    assert len(box) == 10
    assert box.gaps == (WindowGap(0, 90, DROPPED),)


def test_a_window_that_alone_is_too_large_is_kept() -> None:
    box = Outbox(50)
    box.put(outgoing(0))
    assert len(box) == 1


def test_a_window_that_was_on_its_way_when_it_was_dropped_is_no_gap() -> None:
    box = filled(10, 1_000)
    underway = box.first(3)
    for second in range(10, 15):
        box.put(outgoing(second))
    assert box.gaps == (WindowGap(0, 5, DROPPED),)
    box.sent(underway[1:])
    left: tuple[WindowGap, ...] = box.gaps
    assert left == (WindowGap(0, 1, DROPPED), WindowGap(3, 5, DROPPED))


def test_gaps_with_other_reasons_stay_apart() -> None:
    box = Outbox(100)
    box.miss(WindowGap(0, 5, "a"))
    box.miss(WindowGap(5, 6, "a"))
    box.miss(WindowGap(6, 9, "b"))
    assert box.next_gap() == WindowGap(0, 6, "a")
    assert box.next_gap() == WindowGap(6, 9, "b")
    assert box.next_gap() is None
