"""Provides a recording in memory that a test can extend and damage, and runs the screen on such a
recording."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np

from stalltop.model.errors import StalltopError
from stalltop.model.merge.packing import Peak
from stalltop.model.text.glyphs import ASCII, UNICODE
from stalltop.model.window import Window
from stalltop.recordings.past.opened import OpenedRecording
from stalltop.recordings.read.reading import WindowGoneError, WindowList
from stalltop.tui.app import StalltopApp
from stalltop.tui.screens.run_options import RunOptions
from tests.tui.screen import Screen
from tests.tui.sources import FedSource


@dataclass
class MemoryFile:
    """A recording in memory, with the interface of a file that ``recordings.read.reading`` has opened."""

    windows: dict[int, Window] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)
    reads: list[int] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)
    new: bool = False
    warnings: list[str] = field(default_factory=list)

    @staticmethod
    def of(windows: Iterable[Window]) -> MemoryFile:
        return MemoryFile(dict(enumerate(windows, 1)))

    def add(self, window: Window) -> None:
        self.windows = {**self.windows, max(self.windows, default=0) + 1: window}
        self.new = True

    @property
    def moments(self) -> WindowList:
        windows = list(self.windows.values())
        hosts = sorted({window.host for window in windows})
        before = [None, *(window.chains for window in windows)]
        peaks = [Peak.of(window, chains) for window, chains in zip(windows, before, strict=False)]
        return WindowList(
            np.array(list(self.windows), np.int64),
            np.array([hosts.index(window.host) for window in windows], np.int64),
            np.array([window.start for window in windows], np.float64),
            np.array([window.seconds for window in windows], np.float64),
            np.zeros(len(windows), np.int64),
            np.array([peak.lost_ms_per_s for peak in peaks], np.float64),
            np.array([peak.worst for peak in peaks], np.int64),
            np.array([peak.began for peak in peaks], np.int64),
        )

    def changed(self) -> bool:
        was, self.new = self.new, False
        return was

    def window(self, window_id: int) -> Window:
        assert not self.closed.is_set()
        self.reads.append(window_id)
        if window_id in self.damaged:
            raise StalltopError("its checksum is wrong")
        if window_id not in self.windows:
            raise WindowGoneError("the window is no longer in the recording")
        return self.windows[window_id]

    def close(self) -> None:
        self.closed.set()


OPTIONS = RunOptions(interval=0.05, window=1.0, theme="dark", tour=False)


@asynccontextmanager
async def opened(
    file: MemoryFile | OpenedRecording, size: tuple[int, int] = (120, 40), options: RunOptions = OPTIONS
) -> AsyncIterator[Screen]:
    """Run the screen on ``file`` and wait until the screen shows the newest moment of the file."""
    app = StalltopApp(OpenedRecording(file) if isinstance(file, MemoryFile) else file, options)
    app.glyphs = ASCII if options.ascii else UNICODE
    async with app.run_test(size=size) as pilot:
        screen = Screen(app, pilot, FedSource())
        await screen.until(lambda: app.main.shown is not None, "no window was shown")
        await screen.sees("RECORDED")
        try:
            yield screen
        finally:
            app.collector.stop(1.0)
