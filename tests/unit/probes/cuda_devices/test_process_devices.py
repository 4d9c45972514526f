"""Tests device labels of processes: they come from the most reliable source, and unknown labels stay
empty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.model.devices.device import Device, DeviceProcess, Devices, MigInstance
from stalltop.probes.cuda_devices.process_devices import ProcessDevices
from stalltop.probes.layout import UNKNOWN_DEVICE
from stalltop.probes.maps.cuda_programs import CudaProgram
from stalltop.probes.tenants.environment import Environments

PID = 4711
NO_CHOICE = 0


def uuid(index: int) -> str:
    return f"{index}bcd0000-aaaa-bbbb-cccc-dddd00000000"


def device(index: int, *pids: int, name: str = "NVIDIA H100") -> Device:
    processes = tuple(DeviceProcess(pid, "C") for pid in pids)
    return Device(index, f"GPU-{uuid(index)}", name, processes=processes)


def devices(*found: Device) -> Devices:
    return Devices(found, driver="580.65")


FOUR = devices(*map(device, range(4)))


class HostWithProcess:
    """Writes the files of a host with one process, and has the facts about this process from the BPF
    programs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.program = CudaProgram(1, True, {})
        self.watched = False
        self.places = ProcessDevices(lambda pid: self.program, lambda pid: self.watched, root, 60)
        self.start({})

    def start(self, environment: Mapping[str, str], files: tuple[int, ...] = ()) -> None:
        folder = self.root / f"proc/{PID}"
        (folder / "root/dev").mkdir(parents=True, exist_ok=True)
        for minor in files:
            (folder / f"root/dev/nvidia{minor}").touch()
        text = "".join(f"{name}={value}\0" for name, value in environment.items())
        (folder / "environ").write_text(text)

    def driver_tells(self, *indices: int, minors: tuple[int, ...]) -> None:
        for index, minor in zip(indices, minors, strict=True):
            folder = self.root / f"proc/driver/nvidia/gpus/0000:0{index}:00.0"
            folder.mkdir(parents=True)
            text = f"Model: \t NVIDIA H100\nGPU UUID: \t GPU-{uuid(index)}\nDevice Minor: \t {minor}\n"
            (folder / "information").write_text(text)

    def labels(self, found: Devices, *codes: int) -> list[str]:
        self.places.begin(found)
        return [self.places.label(PID, code) for code in codes]


@pytest.fixture
def host(tmp_path: Path) -> HostWithProcess:
    return HostWithProcess(tmp_path)


def test_ordinals_follow_the_visible_devices(host: HostWithProcess) -> None:
    host.start({"CUDA_VISIBLE_DEVICES": "3,1"})
    assert host.labels(FOUR, 1, 2, 3, NO_CHOICE, UNKNOWN_DEVICE) == ["3", "1", "", "3", ""]


def test_a_process_with_one_visible_device_made_all_calls_there(host: HostWithProcess) -> None:
    host.start({"CUDA_VISIBLE_DEVICES": "2"})
    host.program = CudaProgram(1, False, {})
    assert host.labels(FOUR, NO_CHOICE, 1, UNKNOWN_DEVICE) == ["2", "2", "2"]


def test_a_process_older_than_the_probes_may_have_chosen_any_device(host: HostWithProcess) -> None:
    host.program = CudaProgram(1, False, {})
    assert host.labels(FOUR, NO_CHOICE, 3) == ["", "2"]
    host.watched = True  # stalltop saw the process before the process loaded the driver
    assert host.labels(FOUR, NO_CHOICE, 3) == ["0", "2"]


def test_uuids_read_by_the_program_override_its_environment(host: HostWithProcess) -> None:
    different = devices(device(0, name="Tesla T4"), device(1))
    assert host.labels(different, 1, 2) == ["", ""], "the GPU that CUDA takes for the faster one is unknown"
    host.program = CudaProgram(1, True, {0: uuid(1), 1: uuid(0)})
    assert host.labels(different, 1, 2) == ["1", "0"]


def test_the_uuid_of_the_only_visible_device_decides(host: HostWithProcess) -> None:
    host.start({"CUDA_VISIBLE_DEVICES": "1"})
    host.program = CudaProgram(1, True, {0: uuid(3)})
    assert host.labels(FOUR, 1, NO_CHOICE) == ["3", "3"]


def test_an_unknown_uuid_is_ignored(host: HostWithProcess) -> None:
    host.program = CudaProgram(1, True, {0: uuid(9)})
    assert host.labels(FOUR, 1) == ["0"]


def test_mig_devices_are_found_by_uuid(host: HostWithProcess) -> None:
    parts = tuple(MigInstance(0, number, f"MIG-{uuid(number)}") for number in range(7))
    whole = devices(Device(0, "GPU-ffff0000-aaaa-bbbb-cccc-dddd00000000", "A100", mig=True, instances=parts))
    for number in range(7):
        host.program = CudaProgram(number, True, {0: uuid(number)})
        assert host.labels(whole, 1, NO_CHOICE) == [f"0:{number}"] * 2
    host.program = CudaProgram(8, True, {})
    assert host.labels(whole, 1) == [""]
    host.start({"CUDA_VISIBLE_DEVICES": f"MIG-{uuid(5)}"})
    host.program = CudaProgram(9, True, {})
    assert host.labels(whole, 1) == ["0:5"]


def test_a_container_sees_the_gpus_of_its_device_files(host: HostWithProcess) -> None:
    host.driver_tells(0, 1, 2, 3, minors=(3, 2, 1, 0))
    host.start({"NVIDIA_VISIBLE_DEVICES": "all"}, files=(0, 2))
    assert host.labels(FOUR, 1, 2, 3) == ["1", "3", ""]


def test_nvml_can_contradict_the_environment(host: HostWithProcess) -> None:
    host.start({"CUDA_VISIBLE_DEVICES": "1"})
    assert host.labels(FOUR, 1) == ["1"]
    assert host.labels(devices(device(0), device(1), device(2, PID), device(3)), 1) == [""]
    assert host.labels(devices(device(0), device(1, PID), device(2, PID), device(3)), 1) == [""]
    assert host.labels(devices(device(0), device(1, PID), device(2), device(3)), 1) == ["1"]


def listed_on(*indices: int) -> Devices:
    """Returns four GPUs; the driver lists the process on those with ``indices``."""
    return devices(*(device(index, *((PID,) if index in indices else ())) for index in range(4)))


def test_nvml_can_contradict_a_single_ordinal(host: HostWithProcess) -> None:
    assert host.labels(listed_on(1), 1, 2, 3) == ["", "1", ""]


def test_a_process_that_starts_on_another_gpu_keeps_its_labels(host: HostWithProcess) -> None:
    assert host.labels(listed_on(0), 1) == ["0"]
    assert host.labels(listed_on(0), 1, 3) == ["0", "2"], "the driver's list may be older than the call"
    assert host.labels(listed_on(0, 2), 1, 3) == ["0", "2"]
    assert host.labels(listed_on(0, 2), 1, 3) == ["0", "2"]
    assert host.labels(listed_on(0, 2), 1, 3, 4) == ["0", "2", "3"]
    assert host.labels(listed_on(0, 2), 1, 3, 4) == ["0", "2", "3"]
    old = devices(*(replace(each, ages=(("processes", 9.0),)) for each in listed_on(0, 2).devices))
    assert host.labels(old, 1, 3, 4) == ["0", "2", "3"], "a list read 9 s ago proves nothing"
    assert host.labels(listed_on(0, 2), 1, 3, 4) == ["0", "2", ""], "a new list would contain the process"


def test_graphics_on_another_gpu_do_not_contradict(host: HostWithProcess) -> None:
    host.start({"CUDA_VISIBLE_DEVICES": "1,2"})
    display = replace(device(0), processes=(DeviceProcess(PID, "G"),))
    assert host.labels(devices(display, device(1, PID), device(2), device(3)), 1) == ["1"]


def test_a_list_with_other_pids_is_ignored(host: HostWithProcess) -> None:
    host.places.begin(listed_on(1), same_numbers=False)
    assert host.places.label(PID, 1) == "0"


@pytest.mark.parametrize(
    ("given", "chosen", "listed", "expected"),
    [
        pytest.param("1,2", "0,1", (1,), ["1", ""], id="counts its own"),
        pytest.param("1,2", "0,1", (1, 2), ["1", "2"], id="both listed"),
        pytest.param("1,2", "1,2", (1, 2), ["1", "2"], id="counts all"),
        pytest.param("1,2", "1,2", (), ["1", "2"], id="counts all, not listed"),
        pytest.param("2", "0", (), ["2", "2"], id="one, counts its own"),
        pytest.param("0,1", "0", (), ["", ""], id="a task of a step"),
        pytest.param("0,1,2,3", "3,1", (), ["3", "1"], id="the whole host"),
        pytest.param("1,2", None, (), ["", ""], id="without a choice"),
        pytest.param("1,2", f"GPU-{uuid(2)},GPU-{uuid(1)}", (), ["2", "1"], id="UUIDs"),
        pytest.param("9", "0", (), ["", ""], id="no such GPU"),
    ],
)
def test_slurm_jobs_may_count_all_gpus_or_their_own(
    host: HostWithProcess, given: str, chosen: str | None, listed: tuple[int, ...], expected: list[str]
) -> None:
    variables = {"SLURM_JOB_GPUS": given} | ({} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen})
    host.start(variables, files=(0, 1, 2, 3))
    host.driver_tells(0, 1, 2, 3, minors=(0, 1, 2, 3))
    assert host.labels(listed_on(*listed), 1, 2) == expected


def test_on_exclusive_gpus_the_first_ordinal_is_uncertain(host: HostWithProcess) -> None:
    def exclusive(*indices: int) -> Devices:
        found = listed_on(*indices).devices
        return devices(*(replace(each, compute_mode="exclusive process") for each in found))

    assert host.labels(exclusive(), 1, 2) == ["", "1"]
    assert host.labels(exclusive(1), 1, 2) == ["", "1"]
    assert host.labels(exclusive(0), 1) == ["0"]


def test_with_a_lost_gpu_a_new_programs_ordinals_are_unknown(host: HostWithProcess) -> None:
    lost = devices(*(replace(each, lost=each.index == 0) for each in FOUR.devices))
    assert host.labels(lost, 1, 2) == ["", ""]
    host.start({"CUDA_VISIBLE_DEVICES": f"GPU-{uuid(2)}"})
    host.places.forget(PID)
    assert host.labels(lost, 1) == ["2"], "a UUID does not depend on the lost GPU"


def test_gpus_lost_during_a_program_keep_their_ordinals(host: HostWithProcess) -> None:
    assert host.labels(FOUR, 1, 2) == ["0", "1"]
    lost = devices(*(replace(each, lost=each.index == 0) for each in FOUR.devices))
    assert host.labels(lost, 1, 2) == ["0", "1"]


def test_device_files_without_known_minors_prove_nothing(host: HostWithProcess) -> None:
    host.start({}, files=(2,))
    assert host.labels(FOUR, 1) == [""]
    host.places.forget(PID)
    told = devices(*(replace(each, minor=3 - each.index) for each in FOUR.devices))
    assert host.labels(told, 1) == ["1"], "NVML gives the minor numbers"
    host.places.forget(PID)
    fewer = devices(*told.devices[2:])
    host.start({}, files=(0, 1, 2, 3))
    assert host.labels(fewer, 1) == [""], "files of GPUs that NVML does not list count, too"


def test_an_mps_client_counts_the_devices_of_its_server(host: HostWithProcess) -> None:
    control = host.root / f"proc/{PID}/root/tmp/nvidia-mps/control"
    control.parent.mkdir(parents=True)
    control.touch()
    assert host.labels(FOUR, 1) == [""]
    host.program = CudaProgram(1, True, {0: uuid(2)})
    assert host.labels(FOUR, 1) == ["2"]
    host.program = CudaProgram(2, True, {})
    assert host.labels(devices(device(0)), 1) == ["0"], "there is only one GPU"


def test_labels_survive_a_failed_reading_and_the_end_of_the_process(host: HostWithProcess) -> None:
    host.start({"CUDA_VISIBLE_DEVICES": "2"})
    assert host.labels(FOUR, 1) == ["2"]
    (host.root / f"proc/{PID}/environ").unlink()
    assert host.labels(Devices(unavailable="NVML does not answer"), 1) == ["2"]
    host.places.forget(PID)
    assert host.labels(FOUR, 1) == [""], "after ``forget`` the PID stands for another process"


def test_an_ended_process_ran_on_the_only_gpu(host: HostWithProcess) -> None:
    (host.root / f"proc/{PID}/environ").unlink()
    assert host.labels(devices(device(0)), 1, NO_CHOICE) == ["0", "0"]
    host.places.forget(PID)
    assert host.labels(FOUR, 1) == [""]


def test_a_process_without_visible_devices_has_no_label(host: HostWithProcess) -> None:
    host.start({"CUDA_VISIBLE_DEVICES": ""})
    assert host.labels(devices(device(0)), 1) == [""]


def test_without_nvml_no_label_is_known(host: HostWithProcess) -> None:
    assert host.labels(Devices(unavailable="no driver"), 1) == [""]


def test_another_program_of_the_process_is_read_anew(host: HostWithProcess) -> None:
    host.start({"CUDA_VISIBLE_DEVICES": "2"})
    assert host.labels(FOUR, 1) == ["2"]
    host.start({"CUDA_VISIBLE_DEVICES": "3"})
    assert host.labels(FOUR, 1) == ["2"], "the program has already read its environment"
    host.program = CudaProgram(2, True, {})
    assert host.labels(FOUR, 1) == ["3"]


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize(
    ("started", "set_since", "listed", "expected"),
    [
        ({"CUDA_VISIBLE_DEVICES": "2"}, "3", (), ["", "", ""]),
        ({}, "3", (0,), ["0", "", ""]),  # set too late: CUDA had already read the first value
        ({}, "3", (3,), ["3", "", ""]),
        ({}, "3", (), ["", "1", "2"]),
        ({"CUDA_VISIBLE_DEVICES": "2"}, "2,3", (), ["2", "3", ""]),
    ],
)
def test_a_variable_set_by_the_program_may_come_too_late(
    host: HostWithProcess,
    monkeypatch: pytest.MonkeyPatch,
    watched: bool,
    started: dict[str, str],
    set_since: str,
    listed: tuple[int, ...],
    expected: list[str],
) -> None:
    host.start(started)
    monkeypatch.setattr(Environments, "now", lambda self, pid, names: {"CUDA_VISIBLE_DEVICES": set_since})
    host.program = CudaProgram(1, watched, {})
    assert host.labels(listed_on(*listed), 1, 2, 3) == expected


def test_ordinals_stay_when_gpus_go_and_return(host: HostWithProcess) -> None:
    assert host.labels(FOUR, 1, 2, 3) == ["0", "1", "2"]
    fewer = devices(*(replace(device(index), index=index - 1) for index in (1, 2, 3)))
    assert host.labels(fewer, 1, 2, 3) == ["", "0", "1"], "the driver numbers the remaining GPUs anew"
    assert host.labels(FOUR, 1, 2, 3) == ["0", "1", "2"]
