"""Stops another process for a part of each second: by SIGSTOP, by the freezer of its cgroup, or as a
debugger. Number 0 of the control file is the length of that part, as a share from 0 to 1."""

import argparse
import ctypes
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import control

_ATTACH, _DETACH, _WALL = 16, 17, 0x40000000  # linux/ptrace.h, linux/wait.h
_libc = ctypes.CDLL(None, use_errno=True)


def _trace(request: int, tid: int) -> None:
    if _libc.ptrace(request, tid, None, None):
        raise OSError(ctypes.get_errno(), f"ptrace({request}, {tid})")


def by_signal(pid: int, seconds: float) -> None:
    """Stops a process by SIGSTOP for some time, then continues it by SIGCONT."""
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


def by_debugger(pid: int, seconds: float) -> None:
    """Stops a process for some time by attaching to all its threads with ptrace, then detaches."""
    threads = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    for tid in threads:
        _trace(_ATTACH, tid)
        os.waitpid(tid, _WALL)
    time.sleep(seconds)
    for tid in threads:
        _trace(_DETACH, tid)


def by_freezer(cgroup: Path) -> Callable[[int, float], None]:
    """Returns a function that freezes a cgroup for some time."""

    def freeze(_: int, seconds: float) -> None:
        (cgroup / "cgroup.freeze").write_text("1")
        time.sleep(seconds)
        (cgroup / "cgroup.freeze").write_text("0")

    return freeze


def worker_of(pid: int) -> int:
    """Returns the pid of the first child that the main thread of a process has started."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def main() -> None:
    """Stops the other process again and again, until this program is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--worker", action="store_true", help="stop the first child of --pid")
    parser.add_argument("--cgroup", type=Path)
    parser.add_argument("--by", choices=("signal", "freezer", "debugger"), required=True)
    chosen = parser.parse_args()
    pid = worker_of(chosen.pid) if chosen.worker else chosen.pid
    stop = {"signal": by_signal, "debugger": by_debugger, "freezer": by_freezer(chosen.cgroup)}[chosen.by]
    control.ready()
    while True:
        seconds = control.number()
        if seconds:
            stop(pid, seconds)
        time.sleep(1.0 - seconds)


if __name__ == "__main__":
    main()
