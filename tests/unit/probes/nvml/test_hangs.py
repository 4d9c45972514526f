"""Tests a driver that hangs or crashes, with the stand-in driver library: reading goes on, no process is left
behind."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import psutil

from tests.unit.probes.nvml.standin import BEGIN, library, read, run

HANGS = (
    BEGIN
    + """
from stalltop.probes.nvml import reader as devices
devices.STALE_SECONDS, devices.HANG_SECONDS, devices.SET_ASIDE_SECONDS = 0.2, 1.0, (2.0, 2.0)
reader = devices.DeviceReader(patience_seconds=60)
end = time.monotonic() + 80

def until(wanted):
    while time.monotonic() < end:
        found = reader.read().devices
        if wanted(found):
            return found
        time.sleep(0.01)
    raise SystemExit("waited in vain: " + repr(reader.read()))

def aged(device):
    return any("has not answered" in note for note in device.notes)

until(lambda found: len(found) == 2)
reader._patience = 0.05
"""
)


def test_a_hanging_gpu_costs_only_its_own_figures() -> None:
    told = run(
        HANGS
        + """
first = reader._link._process.pid
show("0.hang=1\\n1.power=90000\\npower=640250")
found = until(lambda found: aged(found[0]) and not aged(found[1]) and found[1].power_watts == 90.0)
seen = [found[0].power_watts, dict(found[0].ages)["power_watts"] >= 0.2, reader._link._process.pid != first]
show("power=640250")
found = until(lambda found: found[0].power_watts == 640.25 and not aged(found[0]))
reader.close()
print(json.dumps([*seen, os.path.exists(f"/proc/{first}")]))
""",
        library(),
    )
    watts, aged, another, left = json.loads(told)
    assert watts == 70.0  # the last known value
    assert (aged, another, left) == (True, True, False)


def test_a_hanging_driver_delays_neither_reading_nor_exit() -> None:
    told = run(
        HANGS
        + """
devices.HANG_SECONDS = 3600
show("hang=1")
found = until(lambda found: aged(found[0]))
reader._patience = 3600
for _ in range(100):
    reader.read()  # reads do not wait, although they may wait 3600 s
reader.close()
print(json.dumps([found[0].power_watts]))
""",
        library(),
    )
    assert json.loads(told) == [70.0]


def test_a_reader_that_is_not_closed_leaves_no_process() -> None:
    told = run(
        BEGIN
        + """
from stalltop.probes.nvml.reader import DeviceReader
reader = DeviceReader(patience_seconds=60)
assert reader.read().devices
print(reader._link._process.pid, flush=True)
os._exit(0)
""",
        library(),
    )
    end = time.monotonic() + 60
    while _runs(int(told)):
        assert time.monotonic() < end
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_library_that_crashes_its_process_is_reported(tmp_path: Path) -> None:
    source = tmp_path / "crash.c"
    source.write_text("#include <stdlib.h>\nint nvmlInitWithFlags(unsigned f) { (void)f; abort(); }\n")
    command = ["cc", "-shared", "-fPIC", "-o", str(tmp_path / "libnvidia-ml.so.1"), str(source)]
    subprocess.run(command, check=True, timeout=100)
    assert "NVML crashed the process" in read("", tmp_path)["unavailable"]


SERVED = (
    BEGIN
    + """
import io, pickle
from stalltop.probes.nvml import process as nvml_process

def told(server, out, **request):
    out.seek(0), out.truncate()
    server.answer(request)
    raw, found = out.getvalue(), []
    while raw:
        size = int.from_bytes(raw[:4], "big")
        found.append(pickle.loads(raw[4 : 4 + size]))
        raw = raw[4 + size :]
    return found

out = io.BytesIO()
server = nvml_process.NvmlServer(out)
"""
)


def test_a_driver_is_used_again_after_it_was_reloaded() -> None:
    seen = run(
        SERVED
        + """
def look(said, after=0.0):
    show("devices=1\\n" + said)
    now[0] += after
    return [answer[0] if answer[0] != "unavailable" else answer[1] for answer in told(server, out, look=True)]

now = [0.0]
nvml_process.time.monotonic = lambda: now[0]
retry = nvml_process.RETRY_SECONDS
print(json.dumps([
    look("fail.nvmlInitWithFlags=9", 1.0),
    look("", 1.0),  # NVML is not opened again before RETRY_SECONDS
    look("", retry),
    look("fail.nvmlDeviceGetUtilizationRates=1", 1.0),
    look("", retry),
    look("fail.nvmlDeviceGetHandleByIndex_v2=999", 1.0),
]))
""",
        library(),
        "devices=1\n",
    )
    fine = ["begun", "asking", "device", "done"]
    gone = "the NVIDIA driver was unloaded"
    assert json.loads(seen) == [
        ["the NVIDIA driver is not loaded"],
        ["the NVIDIA driver is not loaded"],
        fine,
        ["begun", "asking", gone],
        fine,
        fine,
    ]


def test_suspect_gpus_are_asked_last_or_not_at_all() -> None:
    seen = run(
        SERVED
        + """
def asked(**request):
    return [answer[1] for answer in told(server, out, look=True, **request) if answer[0] == "asking"]

print(json.dumps([asked(), asked(without=[1]), asked(last=[0]), asked(without=[0, 1, 2])]))
""",
        library(),
        "devices=3\n",
    )
    assert json.loads(seen) == [[0, 1, 2], [0, 2], [1, 2, 0], []]
