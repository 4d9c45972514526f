"""Pressure stall information: shares of the time between two looks, and nothing where the kernel has none."""

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


def test_shares_of_the_time_between_two_looks(tmp_path: Path) -> None:
    now = [5_000_000_000]
    tell(tmp_path, "cpu", 1_000_000)
    tell(tmp_path, "io", 40)
    reader = HostPressure(tmp_path, lambda: now[0])
    now[0] += 2_000_000_000
    tell(tmp_path, "cpu", 1_500_000)
    tell(tmp_path, "memory", 9)  # it was not there before: a share of what?
    assert reader.read() == {"cpu": 25.0, "io": 0.0}
    now[0] += 1_000_000
    tell(tmp_path, "cpu", 9_500_000)  # more than passed, as both clocks are read one after the other
    assert reader.read() == {"cpu": 100.0, "io": 0.0, "memory": 0.0}
    assert reader.read() == {}, "no time has passed"


@pytest.mark.parametrize("text", ["", "some avg10=0.00\n", "some avg10=0.00 total=many\n", "full total=3\n"])
def test_what_is_not_understood_is_not_told(tmp_path: Path, text: str) -> None:
    tell(tmp_path, "cpu", 1)
    (tmp_path / "proc/pressure/cpu").write_text(text)
    reader = HostPressure(tmp_path)
    assert reader.read() == {}


def test_a_kernel_without(tmp_path: Path) -> None:
    assert HostPressure(tmp_path).read() == {}


def test_in_words() -> None:
    assert pressure(System(cpus=2, cpu_percent=0.0)) == []
    seen = System(cpus=2, cpu_percent=0.0, cpu_pressure_percent=54.13, io_pressure_percent=0.0)
    assert pressure(seen) == ["pressure CPU 54.1% I/O 0%"]
