"""Tests that calls count for the device that their thread chose through the runtime, the driver or NCCL."""

from __future__ import annotations

import subprocess
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.demo.build import Built
from stalltop.demo.latencies import Latency
from stalltop.probes.layout import UNKNOWN_DEVICE
from stalltop.probes.operations import DRIVER, NCCL, RUNTIME, operation
from stalltop.probes.tenants.process_watch import is_alive
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.children import Child, compile_library
from tests.kernel.harness import Workplace, probe, wait_until

pytestmark = pytest.mark.beside

PROGRAM = """
import ctypes, threading
cuda, runtime, nccl = (ctypes.CDLL(path) for path in {libraries!r})
cuda.cuInit(0)
def on(function, *arguments):  # run in a new thread
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()
def set_device(ordinal):
    assert runtime.cudaSetDevice(ordinal) == 0
def launch(times):
    for _ in range(times):
        assert runtime.cudaDeviceSynchronize() == 0
def drive(times):
    for _ in range(times):
        assert cuda.cuCtxSynchronize() == 0
def made(ordinal, function="cuCtxCreate_v2"):
    context = ctypes.c_void_p()
    arguments = {{"cuCtxCreate_v3": (None, 0, 0), "cuCtxCreate_v4": (None, 0)}}.get(function, (0,))
    assert getattr(cuda, function)(ctypes.byref(context), *arguments, ordinal) == 0
    return context
def retained(ordinal):
    context = ctypes.c_void_p()
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal) == 0
    return context
def pop():
    assert cuda.cuCtxPopCurrent_v2(None) == 0
"""
"""The first lines of a program that calls CUDA through ctypes."""

CALLS = {"cudaDeviceSynchronize", "cuCtxSynchronize", "ncclAllReduce", "ncclSend", "ncclRecv"}


@pytest.fixture(scope="module", params=["multi", pytest.param("perf", marks=pytest.mark.perf)])
def kernel(request: pytest.FixtureRequest, built: Built) -> Iterator[KernelSide]:
    side = KernelSide(slots=512, threads=256, way=request.param)
    for library, layer in ((built.cuda, DRIVER), (built.cudart, RUNTIME), (built.nccl, NCCL)):
        probe(side, library, layer)
    yield side
    side.close()


def program(built: Built, text: str) -> str:
    libraries = [str(library) for library in (built.cuda, built.cudart, built.nccl)]
    return PROGRAM.format(libraries=libraries) + text


def devices(kernel: KernelSide, *pids: int) -> dict[int, int]:
    """Return the number of outermost calls since the previous read, by device as ``SlotKey`` numbers it."""
    counts = kernel.read()
    found = Counter[int]()
    for key, calls in zip(counts.keys, counts.calls.tolist(), strict=True):
        if key.tgid in pids and not key.nested and operation(key.operation).name in CALLS:
            found[key.device] += calls
    return dict(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("launch(5)", {1: 5}, id="the first device, without a choice"),
        pytest.param(
            "launch(1)\nset_device(3)\nlaunch(4)\nset_device(0)\nlaunch(2)", {1: 3, 4: 4}, id="runtime"
        ),
        pytest.param("runtime.cudaSetDevice(99)\nlaunch(2)", {1: 2}, id="a device that does not exist"),
        pytest.param(
            "set_device(2)\non(launch, 3)\nlaunch(1)", {1: 3, 3: 1}, id="each thread chooses for itself"
        ),
        pytest.param(
            "for each in range(8): on(lambda: (set_device(each), launch(each + 1)))",
            {ordinal + 1: ordinal + 1 for ordinal in range(8)},
            id="a thread for each device",
        ),
        pytest.param(
            "made(1)\ndrive(2)\nmade(5)\ndrive(3)\npop()\ndrive(4)", {2: 6, 6: 3}, id="pushed and popped"
        ),
        pytest.param("made(1, 'cuCtxCreate')\ndrive(2)", {2: 2}, id="cuCtxCreate"),
        pytest.param("made(3, 'cuCtxCreate_v3')\ndrive(2)", {4: 2}, id="cuCtxCreate_v3"),
        pytest.param("made(4, 'cuCtxCreate_v4')\ndrive(2)", {5: 2}, id="cuCtxCreate_v4"),
        pytest.param(
            "context = made(6)\npop()\non(lambda: (cuda.cuCtxPushCurrent_v2(context), drive(3)))\ndrive(1)",
            {7: 3, 1: 1},
            id="a context in another thread",
        ),
        pytest.param("cuda.cuCtxSetCurrent(retained(2))\ndrive(3)", {3: 3}, id="primary"),
        pytest.param(
            "set_device(1)\ncuda.cuCtxPushCurrent_v2(retained(2))\nlaunch(2)\npop()\nlaunch(3)",
            {3: 2, 2: 3},
            id="the runtime follows the driver's context, and back",
        ),
        pytest.param(
            "made(1)\nmade(2)\nfor _ in range(2): cuda.cuCtxSetCurrent(None)\nlaunch(1)",
            {1: 1},
            id="none left",
        ),
        pytest.param(
            "set_device(3)\nlaunch(2)\ncuda.cuCtxSetCurrent(None)\nlaunch(1)\nset_device(3)\nlaunch(4)",
            {4: 6, UNKNOWN_DEVICE: 1},
            id="none left of a thread that chose by the runtime",
        ),
        pytest.param(
            "set_device(0)\nmade(1)\nfor _ in range(2): cuda.cuCtxSetCurrent(None)\nlaunch(1)",
            {1: 1},
            id="none left, and the first device either way",
        ),
        pytest.param("made(1)\ncuda.cuCtxDestroy_v2(made(2))\ndrive(3)", {2: 3}, id="destroyed"),
        pytest.param(
            "for each in range(14): made(each % 7)\nfor _ in range(13): pop()\ndrive(1)", {1: 1}, id="deep"
        ),
        pytest.param(
            "context = made(1)\ndrive(1)\n"
            "cuda.cuCtxSetCurrent(ctypes.c_void_p(context.value + 16))\ndrive(2)",
            {2: 1, UNKNOWN_DEVICE: 2},
            id="a context from before the probes",
        ),
    ],
)
def test_calls_go_to_the_device_that_their_thread_chose(
    kernel: KernelSide, built: Built, text: str, expected: dict[int, int]
) -> None:
    with Child() as child:
        child.do("run", program(built, text))
        assert devices(kernel, child.pid) == expected


def test_host_gaps_count_for_the_device_too(kernel: KernelSide, built: Built) -> None:
    with Child() as child:
        child.do("run", program(built, "set_device(2)\nlaunch(4)\nset_device(1)\nlaunch(3)"))
        counts = kernel.read()
    gaps = {
        key.device: calls
        for key, calls in zip(counts.keys, counts.calls.tolist(), strict=True)
        if key.tgid == child.pid and key.between_calls
    }
    assert gaps == {3: 3, 2: 3}


def test_an_open_call_has_its_device(kernel: KernelSide, workplace: Workplace, tmp_path: Path) -> None:
    held = tmp_path / "held"
    held.touch()
    caller = workplace.caller(latencies={"cudaDeviceSynchronize": Latency("hold", path=held)})
    caller.run("cudaSetDevice:1:6")
    caller.tell("start 1 1 cudaSetDevice:1:4 cudaDeviceSynchronize")
    found = wait_until(lambda: [call for call in kernel.open_calls() if call.tgid == caller.pid])
    assert [call.device for call in found] == [5]
    held.unlink()
    caller.answer()
    caller.do("wait")


def test_nccl_calls_count_for_the_device_of_their_communicator(kernel: KernelSide, built: Built) -> None:
    text = """
comms = (ctypes.c_void_p * 3)()
nccl.ncclCommInitAll(comms, 3, (ctypes.c_int * 3)(5, 3, 1))
others = (ctypes.c_void_p * 2)()
nccl.ncclCommInitAll(others, 2, None)
class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]
one, part = ctypes.c_void_p(), ctypes.c_void_p()
set_device(7)
nccl.ncclCommInitRank(ctypes.byref(one), 1, Id(b"one"), 0)
set_device(6)
nccl.ncclCommSplit(one, 0, 0, ctypes.byref(part), None)
for times, comm in enumerate([*comms, *others, one.value, part.value], 1):
    for _ in range(times):
        nccl.ncclAllReduce(None, None, ctypes.c_size_t(1), 7, 0, ctypes.c_void_p(comm), None)
for function in (nccl.ncclSend, nccl.ncclRecv):
    function(None, ctypes.c_size_t(1), 7, 0, ctypes.c_void_p(comms[0]), None)
"""
    with Child() as child:
        child.do("run", program(built, text))
        assert devices(kernel, child.pid) == {6: 1 + 2, 4: 2, 2: 3 + 5, 1: 4, 8: 6 + 7}


def test_the_choice_does_not_survive_fork_and_exec(
    kernel: KernelSide, built: Built, workplace: Workplace
) -> None:
    with Child() as child:
        forked = child.do("fork")
        child.do("run", program(built, "launch(1)\nset_device(5)\nlaunch(2)"))
        assert devices(kernel, forked) == {1: 1, 6: 2}
    caller = workplace.caller()
    caller.run("cudaSetDevice:1:3 cudaDeviceSynchronize:2")
    born = kernel.cuda.program_of(caller.pid)
    assert born.watched
    assert devices(kernel, caller.pid) == {4: 2}
    caller.do("exec")
    caller.run("cudaDeviceSynchronize:3")
    assert devices(kernel, caller.pid) == {1: 3}
    assert kernel.cuda.program_of(caller.pid).born_ns > born.born_ns


def test_a_process_older_than_the_probes_has_no_device_until_it_chooses_one(built: Built) -> None:
    with Child() as child, Child() as other, Child() as fresh:
        for each in (child, other):
            each.do("run", program(built, "import sys\nsys.of_test = made(3)\nset_device(2)\nlaunch(1)"))
        side = KernelSide(slots=64, threads=64)

        def run(child: Child, text: str) -> dict[int, int]:
            again = program(built, "import sys\n").replace("cuda.cuInit(0)", "")
            child.do("run", again + text)
            return devices(side, child.pid)

        try:
            for library, layer in ((built.cuda, DRIVER), (built.cudart, RUNTIME)):
                probe(side, library, layer)
            # In a new thread the runtime makes the context of the first device current.
            assert run(child, "launch(2)\non(launch, 3)") == {0: 2, 1: 3}
            assert run(child, "cuda.cuInit(0)\ncuda.cuCtxSynchronize()") == {0: 1}
            assert not side.cuda.program_of(child.pid).watched
            assert run(child, "cuda.cuCtxGetDevice(ctypes.byref(ctypes.c_int()))\nlaunch(2)") == {3: 2}
            assert run(child, "set_device(4)\nlaunch(2)\ncuda.cuCtxSetCurrent(sys.of_test)\ndrive(1)") == {
                5: 2,
                UNKNOWN_DEVICE: 1,
            }
            # A library that is loaded later may call cuInit again; the process still counts as older than the
            # probes.
            assert run(other, "cuda.cuInit(0)\nlaunch(2)") == {0: 2}
            assert not side.cuda.program_of(other.pid).watched
            assert run(fresh, "cuda.cuInit(0)\nlaunch(2)") == {1: 2}
            assert side.cuda.program_of(fresh.pid).watched
        finally:
            side.close()


def test_contexts_stay_known_after_the_first_thread_has_ended(kernel: KernelSide, built: Built) -> None:
    with Child() as child:
        text = "import sys\nsys.of_test = made(3)\npop()\nlaunch(1)"
        child.do("run", program(built, text))
        before = kernel.cuda.program_of(child.pid)
        assert devices(kernel, child.pid) == {1: 1}
        child.tell("end_first_thread")
        state = Path(f"/proc/{child.pid}/stat")
        wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "Z", what="the thread to end")
        child.do("run", program(built, "import sys\ncuda.cuCtxPushCurrent_v2(sys.of_test)\ndrive(2)"))
        assert devices(kernel, child.pid) == {4: 2}
        child.do("run", program(built, "on(launch, 3)"))
        assert devices(kernel, child.pid) == {1: 3}
        assert kernel.cuda.program_of(child.pid) == before


def test_calls_that_choose_a_device_are_counted(kernel: KernelSide, built: Built) -> None:
    kernel.cuda.choices()
    with Child() as child:
        child.do(
            "run", program(built, "set_device(1)\nfor _ in range(100): made(1), pop()\non(set_device, 2)")
        )
        assert kernel.cuda.choices() >= 200
    wait_until(lambda: not is_alive(child.pid))
    kernel.cuda.choices()
    assert kernel.cuda.choices() == 0


def test_uuids_that_a_program_queries_are_known(kernel: KernelSide, built: Built) -> None:
    uuids = [str(uuid.UUID(int=0x1234_5678_9ABC_DEF0_1122_3344_5566_7788 + number)) for number in range(3)]
    given = ",".join(("GPU-", "MIG-", "GPU-")[number] + each for number, each in enumerate(uuids))
    text = "for each in (2, 1): cuda.cuDeviceGetUuid_v2(ctypes.create_string_buffer(16), each)"
    with Child(("env", f"STALLTOP_DEMO_UUIDS={given}")) as child:
        child.do("run", program(built, text))
        assert kernel.cuda.program_of(child.pid).uuids == {1: uuids[1], 2: uuids[2]}
        whole = (
            "import os\n"
            f"os.environ['STALLTOP_DEMO_UUIDS'] = {','.join([uuids[0]] * 3)!r}\n"
            "for each in (0, 1): cuda.cuDeviceGetUuid(ctypes.create_string_buffer(16), each)"
        )
        child.do("run", program(built, whole))
        assert kernel.cuda.program_of(child.pid).uuids == dict(enumerate(uuids)), (
            "the UUID of a MIG instance has priority over that of its GPU"
        )
    wait_until(lambda: not is_alive(child.pid))
    assert kernel.cuda.program_of(child.pid).uuids == dict(enumerate(uuids)), (
        "UUIDs stay known after the process has ended"
    )


RACING_CUDA = """
int cuCtxCreate_v2(void **to, unsigned flags, int device) { *to = (void *)(device + 1L); return 0; }
int cuCtxSetCurrent(void *context) { __asm__ volatile(""); return 0; }
int cuCtxSynchronize(void) { __asm__ volatile(""); return 0; }
"""

RACING = """
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

int cuCtxCreate_v2(void **, unsigned, int), cuCtxSetCurrent(void *), cuCtxSynchronize(void);
static int begun, made;

static void together(int *arrived)
{
    __atomic_fetch_add(arrived, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(arrived, __ATOMIC_SEQ_CST) < 2)
        ;
}

static void *work(void *device)
{
    void *context;

    together(&begun);
    cuCtxCreate_v2(&context, 0, (long)device);
    together(&made);
    cuCtxSetCurrent(context);
    cuCtxSynchronize();
    return NULL;
}

int main(void)
{
    for (int i = 0; i < 500; i++) {
        pthread_t other;

        if (!fork()) {
            pthread_create(&other, NULL, work, (void *)1);
            work((void *)0);
            pthread_join(other, NULL);
            _exit(0);
        }
        wait(NULL);
    }
    return 0;
}
"""
"""A program of 500 processes, in each of which two threads make their first call at the same time."""


def test_two_first_calls_of_a_program_find_the_same_program(tmp_path: Path) -> None:
    library = compile_library(RACING_CUDA, tmp_path / "libcuda.so.1")
    options = ("-no-shared", "-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{tmp_path}", "-lpthread")
    racing = compile_library(RACING, tmp_path / "racing", *options)
    kernel = KernelSide(threads=256, splits=False)
    try:
        probe(kernel, library, DRIVER)
        subprocess.run([racing], check=True)
        counts = kernel.read()
        found = Counter[int]()
        for key, calls in zip(counts.keys, counts.calls.tolist(), strict=True):
            if operation(key.operation).name == "cuCtxSynchronize":
                found[key.device] += calls
        assert found == {1: 500, 2: 500}
    finally:
        kernel.close()
