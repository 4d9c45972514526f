"""Tests each format from which stalltop can read a window back."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from stalltop.model.devices.device import Device
from stalltop.model.errors import UsageError
from stalltop.model.rows.pivot import PERCENTS
from stalltop.model.window import Window
from stalltop.recordings.message.decoding import MessageDecoder
from stalltop.recordings.message.encoding import encode
from stalltop.recordings.read import reading
from stalltop.recordings.write import saving
from tests.windows.by_hand import Calls, key, same_window, window
from tests.windows.drawn import FEW, windows
from tests.windows.full import full_window


@dataclass(frozen=True)
class WindowFormat:
    """Writes a window to a file and reads it back."""

    write: Callable[[Window, Path], object]
    load: Callable[[Path], Window]

    def again(self, one: Window, path: Path) -> Window:
        """Writes ``one`` and reads it back."""
        self.write(one, path)
        return self.load(path)


FORMATS = {
    "message": WindowFormat(
        lambda one, path: path.write_bytes(encode(one)),
        lambda path: MessageDecoder().decode(path.read_bytes()).window,
    ),
    "SQLite": WindowFormat(lambda one, path: saving.save(one, path, overwrite=True), reading.load),
}
WINDOWS = {
    "full": full_window(),
    "empty": window(),
    "no system": replace(full_window(), system=None),
    "no devices": replace(
        full_window(), devices=replace(full_window().devices, devices=(), unavailable="none")
    ),
    "normals": replace(full_window(), normals={full_window().rows.keys[0]: (4_000, 90_000)}),
    "split": window([Calls(key(), [10]), Calls(key("cudaFree"), [20])], split=True),
    "devices": window([Calls(key(device=device), [at]) for at, device in enumerate(("", "0", "0:3", "11"))]),
    "two hosts": window(
        [Calls(key(), [10]), Calls(key(host="gpu8", tenant="gpu8/docker:aa"), [20])], host="gpu7, gpu8"
    ),
}


@pytest.fixture(params=FORMATS)
def format_(request: pytest.FixtureRequest) -> WindowFormat:
    return FORMATS[request.param]


@pytest.mark.parametrize("name", WINDOWS)
def test_every_field_of_a_window_is_read_back(name: str, format_: WindowFormat, tmp_path: Path) -> None:
    same_window(format_.again(WINDOWS[name], tmp_path / "w.stalltop"), WINDOWS[name])


@pytest.mark.parametrize("name", FORMATS)
def test_any_window_is_read_back_and_written_the_same_again(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("saved") / "any.stalltop"
    format_ = FORMATS[name]

    @FEW
    @given(windows())
    def check(one: Window) -> None:
        found = format_.again(one, path)
        same_window(found, one)
        assert np.array_equal(
            found.rows.histograms.percentiles(PERCENTS), one.rows.histograms.percentiles(PERCENTS)
        )
        before = path.read_bytes()
        format_.write(found, path)
        assert path.read_bytes() == before

    check()


def test_control_characters_in_a_file_never_reach_the_screen(format_: WindowFormat, tmp_path: Path) -> None:
    bad = Device(0, "GPU-1\x1b[2J", "H100\u202e\n")
    one = replace(full_window(), devices=replace(full_window().devices, devices=(bad,)))
    one = replace(one, rows=window([Calls(key(device="0\x1b[2J"), [5])]).rows, kernels=())
    found = format_.again(one, tmp_path / "w.stalltop")
    (device,) = found.devices.devices
    assert (device.uuid, device.name) == ("GPU-1[2J", "H100")
    assert [row.device for row in found.rows.keys] == ["0[2J"]


def test_a_nan_is_saved_as_unknown(format_: WindowFormat, tmp_path: Path) -> None:
    full = full_window()
    (device,) = full.devices.devices
    devices = replace(full.devices, devices=(replace(device, power_watts=float("nan")),))
    coverage = replace(full.coverage, probe_ns=float("nan"))
    found = format_.again(replace(full, devices=devices, coverage=coverage), tmp_path / "w.stalltop")
    assert found.devices.devices[0].power_watts is None
    assert found.coverage.probe_ns == 0.0


def test_an_unreadable_path_is_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        reading.load(tmp_path / "nothing")
    with pytest.raises(UsageError, match="no regular file"):
        reading.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="no regular file"):
        reading.load(tmp_path / "pipe")
