"""Tests that the screen keeps working, with old figures of devices, while NVML hangs or takes a second per
call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.model.window import Window
from stalltop.probes.nvml.reader import DeviceReader
from stalltop.tui.app import StalltopApp
from stalltop.tui.screens.run_options import RunOptions
from tests.unit.probes.nvml.standin import library
from tests.windows.by_hand import Calls, key, window


class DeviceSource:
    """A source of windows with the stand-in GPUs that ``DeviceReader`` reads in the background."""

    def __init__(self, scenario: Path) -> None:
        self._scenario = scenario
        self.show("")
        self.devices = DeviceReader(
            {"LD_LIBRARY_PATH": str(library()), "NVML_STANDIN_SCENARIO": str(scenario)},
        )
        self.reads = 0

    def show(self, said: str) -> None:
        new = self._scenario.with_suffix(".new")
        new.write_text(f"devices=2\n{said}")
        new.rename(self._scenario)

    def read(self) -> Window:
        self.reads += 1
        rows = [
            Calls(key("cudaMalloc", tenant="docker:aa", pid=100), [1_000]),
            Calls(key("cudaFree", tenant="docker:bb", pid=200), [1_000]),
        ]
        return replace(window(rows, start=1_000.0 + self.reads, seconds=1.0), devices=self.devices.read())

    def close(self) -> None:
        self.devices.close()


@pytest.fixture
def source(tmp_path: Path) -> Iterator[DeviceSource]:
    made = DeviceSource(tmp_path / "scenario")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("hang=1\n", "s old"),  # NVML calls for all devices hang
        ("1.hang=1\n", "s old"),
        ("delay=1000\n", "NVML"),  # every call is slow: the first sample takes a minute
    ],
)
async def test_keys_are_handled_while_the_driver_hangs(source: DeviceSource, said: str, seen: str) -> None:
    app = StalltopApp(source, RunOptions(interval=0.05, theme="dark"))
    async with app.run_test(size=(120, 40)) as pilot:

        def text() -> str:
            return "\n".join(strip.text for strip in app.screen._compositor.render_strips())

        async def sees(what: str) -> None:
            for _ in range(3_000):
                if what in text():
                    return
                await pilot.pause(0.02)
            raise AssertionError(f"never saw {what!r}\n{text()}")

        await sees("GPU1")
        source.show(said)
        if "old" in seen:
            await sees(seen)
        # While NVML is slow or hangs, every key acts and new windows come.
        before = source.reads
        for pressed, answer in (
            ("o", "operations"),
            ("c", "containers"),
            ("D", "devices"),
            ("escape", "containers"),
        ):
            await pilot.press(pressed)
            await sees(answer)
        for _ in range(3_000):
            if source.reads > before + 5:
                break
            await pilot.pause(0.02)
        assert source.reads > before + 5
        source.show("power=640250\n")  # ends the hung call, so that the reader can close
