"""Tests how commands without a screen end."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import pytest

from stalltop.cli import ending
from stalltop.cli.ending import EndRequest
from stalltop.model.window import Window
from tests.windows.cheap import second


class EndDuringRead:
    """A source that requests the end of the recorder during every read."""

    def __init__(self, ended: EndRequest) -> None:
        self._ended = ended
        self.reads = 0

    def read(self) -> Window:
        self.reads += 1
        self._ended.set()
        return second(self.reads)

    def close(self) -> None: ...


class CollectedWindows:
    """Stands for a recorder and keeps the windows that it is given."""

    def __init__(self) -> None:
        self.windows: list[Window] = []

    def add(self, window: Window) -> None:
        self.windows.append(window)


def test_one_more_window_is_read_after_the_request_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "INTERVAL", 0.01)
    kept = CollectedWindows()
    with contextlib.closing(EndRequest()) as ended, contextlib.closing(EndRequest()) as never:
        source = EndDuringRead(ended)
        ending.read_until(source, kept.add, ended)
        assert source.reads == len(kept.windows) == 2
        ending.read_until(source, kept.add, ended)
        assert len(kept.windows) == 3, (
            "a recorder asked to end before its first read must still record what was counted"
        )
        ending.read_until(source, kept.add, never, 0.03)
    assert 4 <= len(kept.windows) <= 7


@pytest.mark.parametrize("timeout", [0.0, 1e-6, 100.0, None])
def test_a_signal_ends_a_wait_wherever_that_is(timeout: float | None) -> None:
    for late in range(25):
        left: list[bool] = []
        with ending.requests(lambda left=left: left.append(True)) as ended:  # type: ignore[misc]

            def end(seconds: float = 0.001 + late * 37e-6) -> None:
                time.sleep(seconds)
                os.kill(os.getpid(), signal.SIGINT)

            thread = threading.Thread(target=end)
            thread.start()
            while not ended.wait(timeout):
                pass
            thread.join()
        assert left == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_signal_interrupts() -> None:
    with pytest.raises(KeyboardInterrupt), ending.requests() as ended:  # noqa: PT012
        signal.raise_signal(signal.SIGTERM)
        assert ended.wait()
        signal.raise_signal(signal.SIGTERM)
