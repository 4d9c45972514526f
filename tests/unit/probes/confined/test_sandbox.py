"""Tests what the process that examines others' files may do, and what it may not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stalltop.probes.confined.coding import Descriptor
from stalltop.probes.confined.examiner import Examiner
from stalltop.probes.confined.process import signature
from stalltop.probes.privileges import Capability
from stalltop.probes.python_path import python_path

TRY = """
import ctypes, errno, fcntl, json, mmap, os, socket, sys
from stalltop.probes.confined.sandbox import confine
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
connection = socket.socket(fileno=0)
folder, other = sys.argv[1], int(sys.argv[2])
spare = os.dup(1)
kept, listed = os.open(folder + "/file", os.O_RDONLY), os.open(folder, os.O_RDONLY)
confined = confine(0)

def call(name, *arguments):
    if libc.syscall(ctypes.c_long(NUMBERS[name]), *map(ctypes.c_long, arguments)) < 0:
        raise OSError(ctypes.get_errno(), name)

NUMBERS = {
    "x86_64": dict(clone=56, execve=59, kill=62, ptrace=101, mount=165, bpf=321, openat2=437,
                   io_uring_setup=425,
                   process_vm_writev=311, setns=308, unshare=272, perf_event_open=298, socketpair=53),
    "aarch64": dict(clone=220, execve=221, kill=129, ptrace=117, mount=40, bpf=280, openat2=437,
                    io_uring_setup=425, process_vm_writev=271, setns=268, unshare=97, perf_event_open=241,
                    socketpair=199),
}[os.uname().machine]
TRIES = {
    "read": lambda: os.close(os.open(folder + "/file", os.O_RDONLY)),
    "list": lambda: os.listdir(folder),
    "maps": lambda: open("/proc/%d/maps" % other, "rb", buffering=0).read(),
    "memory": lambda: bytearray(64 << 20),
    "write": lambda: os.open(folder + "/file", os.O_WRONLY),
    "read and write": lambda: os.open(folder + "/file", os.O_RDWR),
    "truncate": lambda: os.open(folder + "/file", os.O_RDONLY | os.O_TRUNC),
    "create": lambda: os.open(folder + "/new", os.O_RDONLY | os.O_CREAT),
    "temporary": lambda: os.open(folder, os.O_TMPFILE | os.O_RDWR),
    "remove": lambda: os.unlink(folder + "/file"),
    "rename": lambda: os.rename(folder + "/file", folder + "/other"),
    "folder": lambda: os.mkdir(folder + "/folder"),
    "mode": lambda: os.chmod(folder + "/file", 0o777),
    "owner": lambda: os.chown(folder + "/file", 1, 1),
    "say": lambda: os.write(spare, b"x"),
    "send elsewhere": lambda: call("sendmsg", spare, 0, 0),
    "inet": lambda: socket.socket(socket.AF_INET),
    "unix": lambda: socket.socket(socket.AF_UNIX),
    "code": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC),
    "duplicate": lambda: os.close(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 10)),
    "flags": lambda: fcntl.fcntl(0, fcntl.F_SETFD, fcntl.fcntl(0, fcntl.F_GETFD)),
    "signals to others": lambda: fcntl.fcntl(0, fcntl.F_SETOWN, other),
    "which signal": lambda: fcntl.fcntl(0, fcntl.F_SETSIG, 9),
    "asynchronous": lambda: fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC),
    "lease": lambda: fcntl.fcntl(kept, fcntl.F_SETLEASE, fcntl.F_RDLCK),
    "lock": lambda: fcntl.flock(kept, fcntl.LOCK_SH),
    "record lock": lambda: fcntl.lockf(kept, fcntl.LOCK_SH),
    "notify": lambda: fcntl.fcntl(listed, fcntl.F_NOTIFY, fcntl.DN_ACCESS),
    **{name: (lambda name=name: call(name, other, 0, 0, 0, 0)) for name in NUMBERS},
}
NUMBERS["sendmsg"] = {"x86_64": 46, "aarch64": 211}[os.uname().machine]
results = {}
for name, attempt in TRIES.items():
    try:
        attempt()
        results[name] = "done"
    except OSError as error:
        results[name] = errno.errorcode[error.errno]
results["status"] = open("/proc/self/status", buffering=0, mode="rb").read().decode()
results["confined"] = confined
connection.sendmsg([json.dumps(results).encode()])
"""
ALLOWED = {"read", "list", "maps", "memory", "duplicate", "flags"}
ANSWERS = {"status", "confined"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("files")
    (folder / "file").write_text("x")
    ours, theirs = socket.socketpair()
    with (
        ours,
        subprocess.Popen(
            [sys.executable, "-P", "-c", TRY, str(folder), str(os.getpid())],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            env={"PYTHONPATH": python_path()},
        ),
    ):
        theirs.close()
        data = b"".join(iter(lambda: ours.recv(1 << 16), b""))
    found: dict[str, object] = json.loads(data)
    assert (folder / "file").read_text() == "x"
    assert [path.name for path in folder.iterdir()] == ["file"]
    return found


def test_system_calls_are_restricted(results: dict[str, object]) -> None:
    if not results["confined"]:
        pytest.skip("this Linux kernel has no seccomp")
    done = {name for name, result in results.items() if result == "done"}
    assert done == ALLOWED
    refused = {name: result for name, result in results.items() if name not in ALLOWED | ANSWERS}
    assert len(refused) > 25
    assert set(refused.values()) == {"EPERM"}, refused


def test_capabilities_are_those_that_reading_needs(results: dict[str, object]) -> None:
    lines = dict(line.split(":\t", 1) for line in str(results["status"]).splitlines() if ":\t" in line)
    most = [Capability.SYS_PTRACE, Capability.DAC_READ_SEARCH, Capability.CHECKPOINT_RESTORE]
    bits = sum(1 << number for number in most)
    for kind in ("CapPrm", "CapEff", "CapBnd"):
        assert int(lines[kind], 16) & ~bits == 0, kind
    assert int(lines["CapInh"], 16) == int(lines["CapAmb"], 16) == 0
    assert lines["NoNewPrivs"] == "1"


def test_a_process_with_threads_is_not_confined(tmp_path: Path) -> None:
    program = (
        "import threading, time; from stalltop.probes.confined.sandbox import SandboxError, confine\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "try:\n    confine(0)\nexcept SandboxError as error:\n    print(error)"
    )
    command = [sys.executable, "-P", "-c", program]
    found = subprocess.run(
        command, env={"PYTHONPATH": python_path()}, capture_output=True, text=True, check=True
    )
    assert "other threads" in found.stdout


def test_only_methods_of_the_examiner_are_questions() -> None:
    assert signature("find").answer.__name__ == "FoundFile"
    assert signature("same").arguments == (Descriptor, Descriptor)
    for name in ("__init__", "_symbols", "__class__", "missing", ""):
        with pytest.raises(ValueError, match="no question"):
            signature(name)
    for name in vars(Examiner):
        if not name.startswith("_"):
            assert signature(name)
