"""Tests that rows of a window name the GPU of the host on which their calls were made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stalltop.demo.build import Built
from stalltop.model.evidence import HOST_WORK
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions
from tests.kernel.children import Child
from tests.kernel.harness import wait_until

UUIDS = [f"GPU-{number}bcd0000-aaaa-bbbb-cccc-dddd00000000" for number in range(4)]

PROGRAM = """
import ctypes, threading
runtime = ctypes.CDLL({cudart!r})
cuda = ctypes.CDLL({cuda!r})
def work(ordinal=None, times=3):
    def calls():
        if ordinal is not None:
            assert runtime.cudaSetDevice(ordinal) == 0
        for _ in range(times):
            assert runtime.cudaDeviceSynchronize() == 0
    thread = threading.Thread(target=calls)
    thread.start()
    thread.join()
"""
"""The first lines of a program whose threads use devices."""

Placed = Counter[tuple[str, str, bool]]
"""Number of calls by (operation, device, whether the call is nested)."""


class CallReader:
    """Reads a monitor and adds up the calls of each process."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._found: dict[int, Placed] = {}
        wait_until(lambda: len(monitor.read().devices.devices) == len(UUIDS), what="all GPUs")

    def until(self, child: Child, calls: int) -> Placed:
        """Read until ``calls`` calls of ``child`` to cudaDeviceSynchronize are counted; return all its
        calls."""

        def counted() -> bool:
            rows = self._monitor.read().rows
            for key, made in zip(rows.keys, rows.calls.tolist(), strict=True):
                place = key.operation, key.device, key.nested
                self._found.setdefault(key.pid, Counter())[place] += made
            return sum(own(self._found.get(child.pid, Counter())).values()) >= calls

        wait_until(counted, what=f"{calls} calls")
        return self._found.pop(child.pid)


def own(placed: Placed) -> dict[str, int]:
    """Return, by device, the number of calls that the program itself made: those to cudaDeviceSynchronize."""
    return {device: calls for (name, device, _), calls in placed.items() if name == "cudaDeviceSynchronize"}


def devices_of(placed: Placed) -> set[str]:
    """Return the devices of all rows except host work, whose threads make no calls."""
    return {device for name, device, _ in placed if name != HOST_WORK}


@contextmanager
def looking(built: Built, folder: Path) -> Iterator[CallReader]:
    """Run a monitor on a stand-in host with four GPUs."""
    scenario = folder / "gpus"
    scenario.write_text("\n".join([f"devices={len(UUIDS)}", *(f"{n}.uuid={u}" for n, u in enumerate(UUIDS))]))
    library = {"LD_LIBRARY_PATH": str(built.folder), "NVML_STANDIN_SCENARIO": str(scenario)}
    monitor = Monitor(MonitorOptions(nvml_environment=library))
    try:
        yield CallReader(monitor)
    finally:
        monitor.close()


def run(child: Child, built: Built, text: str, *, before: str = "") -> None:
    child.do("run", before + PROGRAM.format(cudart=str(built.cudart), cuda=str(built.cuda)) + text)


def test_rows_name_the_gpu_on_which_their_calls_were_made(built: Built, tmp_path: Path) -> None:
    def started(*variables: str) -> Child:
        return Child(("env", *variables))

    with (
        started("CUDA_VISIBLE_DEVICES=1") as older,
        started("CUDA_VISIBLE_DEVICES=3,1") as two,
        started("CUDA_VISIBLE_DEVICES=0") as changed,
        started(f"CUDA_VISIBLE_DEVICES={UUIDS[2]},0", f"STALLTOP_DEMO_UUIDS={UUIDS[3]},{UUIDS[0]}") as asks,
        started() as every,
    ):
        run(older, built, "work(0)")
        with looking(built, tmp_path) as looks:
            # The process sees one device only. All of its rows belong to this device, even if no probe has
            # seen how a thread chose its device.
            run(
                older,
                built,
                "work()\nfor _ in range(4): assert runtime.cudaDeviceSynchronize() == 0\nwork(0)",
            )
            placed = looks.until(older, 10)
            assert (own(placed), devices_of(placed)) == ({"1": 10}, {"1"}), placed

            run(two, built, "work(None, 2)\nwork(1, 3)\nwork(0, 4)")
            placed = looks.until(two, 9)
            assert (own(placed), devices_of(placed)) == ({"3": 6, "1": 3}, {"3", "1"})
            nested = {device: calls for (_, device, inside), calls in placed.items() if inside}
            assert nested == {"3": 6, "1": 3}, "the driver's calls are on the runtime's device"

            environ = "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '2,1'\n"
            run(changed, built, "work(1, 3)", before=environ)
            assert own(looks.until(changed, 3)) == {"1": 3}

            run(
                asks,
                built,
                "cuda.cuDeviceGetUuid_v2(ctypes.create_string_buffer(16), 0)\nwork(0, 2)\nwork(1, 1)",
            )
            assert own(looks.until(asks, 3)) == {"3": 2, "0": 1}, "UUIDs from the driver have priority"

            run(every, built, "for each in range(4): work(each, each + 1)")
            assert own(looks.until(every, 10)) == {str(each): each + 1 for each in range(4)}


def test_a_process_older_than_the_probes_has_no_device_until_it_chooses_one(
    built: Built, tmp_path: Path
) -> None:
    with Child() as child:
        run(child, built, "assert runtime.cudaSetDevice(2) == 0\nassert runtime.cudaDeviceSynchronize() == 0")
        with looking(built, tmp_path) as looks:
            run(child, built, "for _ in range(5): assert runtime.cudaDeviceSynchronize() == 0")
            assert own(looks.until(child, 5)) == {"": 5}
            run(
                child,
                built,
                "assert runtime.cudaSetDevice(2) == 0\nassert runtime.cudaDeviceSynchronize() == 0",
            )
            assert own(looks.until(child, 1)) == {"2": 1}
