"""Tests XIDs and identities while GPUs come, go and change their index, with the stand-in driver library."""

from __future__ import annotations

from pathlib import Path

import pytest

from stalltop.probes.nvml.driver import PUT_OFF_LOOKS
from tests.unit.probes.nvml.standin import run_with_clock

BUS = """
bus = pathlib.Path({folder!r})
for name in "abc"[:{gpus}]:
    (bus / name).mkdir()
nvml = Nvml(clock=clock, gpus_folder=str(bus))
seen = []

def see(said, after=1.0, without=()):
    show(said)
    clock.now += after
    seen.append([[device.index, device.uuid, device.lost, device.xids] for device in nvml.devices(without)])

"""
NONE: list[int] = []


def told(folder: Path, gpus: int, program: str) -> list[list[list[object]]]:
    found: list[list[list[object]]] = run_with_clock(
        BUS.format(folder=str(folder), gpus=gpus) + program + "\nprint(json.dumps(seen))\n", f"devices={gpus}"
    )
    return found


def test_the_last_xids_of_a_gpu_are_reported_before_it_goes(tmp_path: Path) -> None:
    seen = told(
        tmp_path,
        2,
        """
see("devices=2")
(bus / "b").rmdir()
see("devices=1\\n1.xids=79")
see("devices=1")
""",
    )
    first = [0, "GPU-0", False, NONE]
    assert seen == [
        [first, [1, "GPU-1", False, NONE]],
        [first, [1, "GPU-1", False, [79]]],
        [first],
    ]


@pytest.mark.parametrize("looks", [0, PUT_OFF_LOOKS])
def test_xids_are_kept_when_nvml_is_opened_anew(tmp_path: Path, looks: int) -> None:
    """GPU 1 is lost, so NVML is opened again, either in the sample in which new XIDs arrive or up to
    ``looks`` samples later."""
    seen = told(
        tmp_path,
        2,
        f"""
from stalltop.probes.nvml import driver as module
module.PUT_OFF_LOOKS = {looks}
see("1.lost=1")
for number in range(3):
    see(f"1.lost=1\\n0.xids={{48 + number}}", after=module.LOST_SECONDS)
    see("1.lost=1", after=module.LOST_SECONDS)
""",
    )
    assert [row[0][3] for row in seen] == [NONE, [48], NONE, [49], NONE, [50], NONE]


@pytest.mark.parametrize("without", [0, 1])
def test_xids_of_a_skipped_gpu_are_reported_later(tmp_path: Path, without: int) -> None:
    seen = told(
        tmp_path,
        2,
        f"""
see("devices=2")
see("xids=31", without=[{without}])
see("xids=31,48", without=[{without}])
see("xids=31,48")
""",
    )
    assert [[row[3] for row in rows if row[0] == without] for rows in seen] == [[NONE], [], [], [[31, 48]]]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_gpu_without_a_uuid_gets_no_other_gpus_uuid(tmp_path: Path, lost: int) -> None:
    seen = told(
        tmp_path,
        3,
        f"""
see("devices=3")
(bus / "a").rmdir()
see("devices=2\\n0.uuid=GPU-1\\n1.uuid=GPU-2\\n{lost}.lost=1")
""",
    )
    expected: list[list[object]] = [[0, "GPU-1", False, NONE], [1, "GPU-2", False, NONE]]
    expected[lost][1:3] = ["", True]
    assert seen[1] == expected
