"""Tests pressure stall information: shares of the time between two readings, or none on old Linux kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from stalltop.model.devices.device import System
from stalltop.model.text.figures import pressure
from stalltop.probes.host.pressure_stall import HostPressure


def tell(root: Path, name: str, total_us: int) -> None:
    file = root / "proc/pressure" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f"some avg10=1.00 avg60=2.00 avg300=3.00 total={total_us}\n"
        f"full avg10=0.00 avg60=0.00 avg300=0.00 total={total_us + 7}\n"
    )


def test_pressure_is_the_share_of_the_time_between_two_readings(tmp_path: Path) -> None:
    now = [5_000_000_000]
    tell(tmp_path, "cpu", 1_000_000)
    tell(tmp_path, "io", 40)
    reader = HostPressure(tmp_path, lambda: now[0])
    now[0] += 2_000_000_000
    tell(tmp_path, "cpu", 1_500_000)
    tell(tmp_path, "memory", 9)  # was not in the first reading, so no share is known
    assert reader.read() == {"cpu": 25.0, "io": 0.0}
    now[0] += 1_000_000
    # The pressure rises by more than the elapsed time. This can happen because the Linux kernel and stalltop
    # read their clocks at different instants.
    tell(tmp_path, "cpu", 9_500_000)
    assert reader.read() == {"cpu": 100.0, "io": 0.0, "memory": 0.0}
    assert reader.read() == {}, "no time has passed"


@pytest.mark.parametrize("text", ["", "some avg10=0.00\n", "some avg10=0.00 total=many\n", "full total=3\n"])
def test_malformed_pressure_is_left_out(tmp_path: Path, text: str) -> None:
    tell(tmp_path, "cpu", 1)
    (tmp_path / "proc/pressure/cpu").write_text(text)
    reader = HostPressure(tmp_path)
    assert reader.read() == {}


def test_a_kernel_without_pressure_files_gives_none(tmp_path: Path) -> None:
    assert HostPressure(tmp_path).read() == {}


def test_pressure_is_shown_in_the_host_panel() -> None:
    assert pressure(System(cpus=2, cpu_percent=0.0)) == []
    seen = System(cpus=2, cpu_percent=0.0, cpu_pressure_percent=54.13, io_pressure_percent=0.0)
    assert pressure(seen) == ["pressure CPU 54.1% I/O 0%"]
