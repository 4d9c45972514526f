"""Tests demangling C++ names in a child process, for any input and whatever happens to that process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stalltop.probes.symbols import demangler
from stalltop.probes.symbols.cuda_kernel_names import for_display
from stalltop.probes.symbols.demangler import COMMAND, MOST_BYTES, MOST_DEATHS, Demangler
from tests.kernel.harness import wait_until

KNOWN = {
    "_Z5scalePffi": "scale(float*, float, int)",
    "_Z4gemmPKfS0_Pfiii": "gemm(float const*, float const*, float*, int, int, int)",
    "_ZN2nn17attention_forwardILi128ELb1EEEvPfPKfNS_4TileIXT_EXT0_EEE": (
        "void nn::attention_forward<128, true>(float*, float const*, nn::Tile<128, true>)"
    ),
    "_ZN2nn4eachIZ4mainEUllE_EEvT_l": "void nn::each<main::{lambda(long)#1}>(main::{lambda(long)#1}, long)",
    "_ZN12_GLOBAL__N_19histogramEPKhPj": (
        "(anonymous namespace)::histogram(unsigned char const*, unsigned int*)"
    ),
    "_Z1fIJidEEvDpT_": "void f<int, double>(int, double)",
    "_Z1fIJEEvDpT_": "void f<>()",
    "_Z1fPFiPA3_KdE": "f(int (*)(double const (*) [3]))",
    "_Z1fM1AFvvEMS_i": "f(void (A::*)(), int A::*)",
    "_Z3addIfEvT_.constprop.0": "void add<float>(float) [clone .constprop.0]",
    "_ZN1AC1ERKS_": "A::A(A const&)",
    "_ZNK1A3getB5cxx11Ev": "A::get[abi:cxx11]() const",
    "_ZZ3fooIiEvT_ENKUlvE_clEv": "foo<int>(int)::{lambda()#1}::operator()() const",
    "_ZNSt6vectorISt4pairIifESaIS1_EE4sizeEv": (
        "std::vector<std::pair<int, float>, std::allocator<std::pair<int, float>>>::size()"
    ),
}
NO_NAMES = [
    "",
    "main",
    "i",
    "triton_poi_fused_add_0",
    "_Z",
    "_Z1",
    "_ZN",
    "_Z5scale?",
    "_Z1fT_",
    "_Z9999999999f",
]


def doubled(times: int) -> bytes:
    """Returns a mangled name that doubles in length with each step: ``f(A, B<A, A>, C<B<A, A>, B<A, A>>,
    …)``."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    name, last = "_Z1f1A", 0
    for step in range(times):
        number = last - 1
        before = "" if not last else digits[number // 36] * (number > 35) + digits[number % 36]
        name += f"3N{step:02}IS{before}_S{before}_E"
        last = 2 * step + 2
    return name.encode()


HOSTILE = {
    "twice as long with each step": doubled(60),
    "deep pointers": b"_Z1f" + b"P" * 4000 + b"i",
    "deep names": b"_Z1f" + b"1AI" * 1000 + b"i" + b"E" * 1000,
    "deep expressions": b"_Z1fIX" + b"nt" * 2000 + b"Lb1EEEvv",
    "packs in packs": b"_Z1fIJ" + b"i" * 60 + b"EEv" + b"Dp" * 40 + b"T_",
    "functions": b"_Z1f" + b"PF" * 1000 + b"v" + b"vE" * 1000,
    "a name without end": b"_Z999999999a",
    "not ASCII": b"_Z4\xff\xfe\x1b\xe2v",
    "a NUL": b"_Z5sc\0lePf",
    "megabytes": b"_Z1f" + b"i" * 4_000_000,
}
ENDS_IT = HOSTILE["twice as long with each step"]


@pytest.fixture(autouse=True)
def _wait_for_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demangler, "WAIT_SECONDS", 30.0)


@pytest.fixture
def names() -> Iterator[Demangler]:
    found = Demangler()
    yield found
    found.close()


def child(names: Demangler) -> int:
    assert names._process is not None
    return names._process._process.pid


def test_names_are_demangled_as_in_the_source(names: Demangler) -> None:
    answers = names.ask(map(str.encode, KNOWN))
    assert {name.decode(): for_display(answer) for name, answer in answers.items()} == KNOWN


def test_names_that_are_not_mangled_stay_as_they_are(names: Demangler) -> None:
    answers = names.ask(map(str.encode, NO_NAMES))
    assert all(name == answer for name, answer in answers.items())
    assert set(answers) == {name.encode() for name in NO_NAMES if name.startswith("_Z")}


def test_many_names_are_demangled_at_once(names: Demangler) -> None:
    wanted = [f"_Z{len(str(n)) + 1}k{n}PKfiRSt6vectorIfSaIfEE".encode() for n in range(5000)]
    answers = names.ask([*wanted, *wanted])
    assert list(answers) == wanted
    assert answers[wanted[4711]] == (b"k4711(float const*, int, std::vector<float, std::allocator<float> >&)")


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_name_costs_little_and_others_get_answers(names: Demangler, what: str) -> None:
    names.ask([b"_Z1av"])
    began = time.process_time()
    answers = names.ask([b"_Z1bv", HOSTILE[what], b"_Z1cv"])
    assert time.process_time() - began < 0.2
    assert (answers[b"_Z1bv"], answers[b"_Z1cv"]) == (b"b()", b"c()")
    assert len(answers.get(HOSTILE[what], b"")) <= 1 << 16
    assert names.unavailable == ""


def test_a_name_that_crashes_the_process_is_not_asked_again(names: Demangler) -> None:
    names.ask([b"_Z1av"])
    first = child(names)
    assert names.ask([ENDS_IT]) == {ENDS_IT: ENDS_IT}
    assert not psutil.pid_exists(first)
    assert names.ask([b"_Z1av"]) == {b"_Z1av": b"a()"}
    second = child(names)
    assert names.ask([ENDS_IT]) == {ENDS_IT: ENDS_IT}
    assert child(names) == second


def test_after_repeated_crashes_names_stay_mangled_for_a_while(
    names: Demangler, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [doubled(60 + n) for n in range(MOST_DEATHS + 2)]
    answers = names.ask([*wanted, b"_Z1av"])
    assert answers == {name: name for name in wanted[:MOST_DEATHS]}
    assert names.unavailable == "the process that demangles them ended 4 times within a minute"
    assert names.ask([b"_Z1av"]) == {}
    names.prepare()
    assert names._process is None
    monkeypatch.setattr(demangler, "DEATHS_SECONDS", 0.0)
    assert names.unavailable == ""
    assert names.ask([b"_Z1av"]) == {b"_Z1av": b"a()"}


def test_a_killed_process_is_replaced_and_no_name_is_blamed(names: Demangler) -> None:
    names.ask([b"_Z1av"])
    os.kill(child(names), signal.SIGKILL)
    assert names._process is not None
    names._process._process.wait(10.0)
    assert names.ask([b"_Z1bv"]) == {b"_Z1bv": b"b()"}


def test_a_stuck_process_is_replaced(names: Demangler, monkeypatch: pytest.MonkeyPatch) -> None:
    names.ask([b"_Z1av"])
    os.kill(child(names), signal.SIGSTOP)
    monkeypatch.setattr(demangler, "WAIT_SECONDS", 0.01)
    began = time.monotonic()
    assert names.ask([b"_Z1bv"]) == {}
    assert time.monotonic() - began < 1.0
    monkeypatch.setattr(demangler, "LATE_SECONDS", 0.0)
    assert names.ask([b"_Z1bv"]) == {b"_Z1bv": b"_Z1bv"}
    monkeypatch.setattr(demangler, "LATE_SECONDS", 2.0)
    wait_until(lambda: names.ask([b"_Z1cv"]) == {b"_Z1cv": b"c()"}, what="a new process")


def test_late_answers_arrive_with_the_next_request(names: Demangler, monkeypatch: pytest.MonkeyPatch) -> None:
    names.ask([b"_Z1av"])
    os.kill(child(names), signal.SIGSTOP)
    monkeypatch.setattr(demangler, "WAIT_SECONDS", 0.0)
    assert names.ask([b"_Z1bv"]) == {}
    os.kill(child(names), signal.SIGCONT)
    monkeypatch.setattr(demangler, "WAIT_SECONDS", 30.0)
    assert names.ask([b"_Z1cv"]) == {b"_Z1bv": b"b()", b"_Z1cv": b"c()"}


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("print(end=chr(0))", "neither libstdc++.so.6 nor libc++abi.so.1 is on this host"),
        ("", "the process that demangles them ended 4 times within a minute"),
        (
            "print(chr(1), end='~' * 999, flush=True); input()",
            "the process that demangles them ended 4 times within a minute",
        ),
    ],
)
def test_a_process_that_cannot_answer_is_reported(program: str, why: str) -> None:
    names = Demangler((sys.executable, "-I", "-S", "-c", program))
    assert names.ask([b"_Z1av"]).get(b"_Z1av", b"_Z1av") == b"_Z1av"
    assert names.unavailable == why
    assert names._process is None
    assert names.ask([b"_Z1bv"]) == {}


def test_a_process_that_cannot_start_is_reported(tmp_path: Path) -> None:
    names = Demangler((str(tmp_path / "nothing"),))
    for _ in range(MOST_DEATHS):
        assert names.ask([b"_Z1av"]) == {}
    assert names.unavailable


def test_without_a_library_the_process_says_so_and_ends() -> None:
    program = (
        "import runpy, ctypes\n"
        "class Missing(ctypes.CDLL):\n"
        "    def __init__(self, name): raise OSError(name)\n"
        "ctypes.CDLL = Missing\n"
        f"runpy.run_path({COMMAND[-1]!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], input=b"", capture_output=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == (b"\0", b"")


def test_the_process_is_confined(names: Demangler) -> None:
    with open("/dev/null", "rb") as other:
        os.set_inheritable(other.fileno(), True)
        names.ask([b"_Z1av"])
    process = psutil.Process(child(names))
    assert sorted(os.listdir(f"/proc/{process.pid}/fd")) == ["0", "1", "2"]
    assert not process.environ()
    assert os.getsid(process.pid) == process.pid
    status = Path(f"/proc/{process.pid}/status").read_text()
    assert "NoNewPrivs:\t1" in status
    assert "CapPrm:\t0000000000000000" in status
    if os.getuid() == 0:
        assert "Uid:\t65534\t65534\t65534\t65534" in status
        assert "Groups:\t \n" in status
    limits = Path(f"/proc/{process.pid}/limits").read_text()
    for what in ("Max open files", "Max processes", "Max core file size"):
        (line,) = [line for line in limits.splitlines() if line.startswith(what)]
        assert line.removeprefix(what).split()[:2] == ["0", "0"]
    assert process.memory_info().vms < 200 << 20
    assert "numpy" not in Path(f"/proc/{process.pid}/maps").read_text()


HOLDER = """
import sys, time
from stalltop.probes.symbols.demangler import Demangler
names = Demangler()
while not names.ask([b"_Z1av"]):
    pass
print(names._process._process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("end", [subprocess.Popen.kill, subprocess.Popen.terminate])
def test_the_process_ends_with_its_parent(end: Callable[[subprocess.Popen[str]], None]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as holder:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        assert psutil.pid_exists(pid)
        end(holder)
    # In a container without an init process nobody reaps the child, and it stays a zombie.
    wait_until(lambda: _ended(pid), what="the end of the child process")


def _ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_close_ends_the_process_for_good(names: Demangler) -> None:
    names.ask([b"_Z1av"])
    pid = child(names)
    names.close()
    names.close()
    assert not psutil.pid_exists(pid)
    names.prepare()
    assert names.ask([b"_Z1av"]) == {}
    assert names._process is None


@pytest.fixture(scope="module")
def shared() -> Iterator[Demangler]:
    found = Demangler()
    yield found
    found.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from(list(KNOWN)), min_size=1, max_size=3), st.data())
def test_arbitrary_bytes_are_accepted(shared: Demangler, names: list[str], data: st.DataObject) -> None:
    text = "".join(names).encode()
    cut = data.draw(st.integers(0, len(text)))
    other = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 8))
    noise = data.draw(st.binary(max_size=4))
    name = text[:cut] + noise + text[other : other + length] + text[cut:]
    answers = shared.ask([name, b"_Z" + noise])
    assert all(len(known) <= MOST_BYTES for known in answers)
    assert shared.ask([b"_Z1av"]) == {b"_Z1av": b"a()"}
