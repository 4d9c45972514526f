"""Tests what a confined process can still do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stalltop.serving.confine import landlock_version

ROOT = Path(__file__).resolve().parents[3]

# The program confines itself, tries each action, and prints which ones worked.
PROGRAM = """
import os, resource, signal, socket, subprocess, sys
from stalltop.serving.confine import confine
folder, port, outsider = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
theirs = os.open(folder + "/open", os.O_WRONLY)
print("confined", confine(parent=os.getppid()), flush=True)
tries = {
    "read": lambda: open(folder + "/there").read(),
    "import": lambda: __import__("colorsys"),
    "write": lambda: open(folder + "/there", "a").write("x"),
    "write to what was open": lambda: os.write(theirs, b"x"),
    "truncate": lambda: os.truncate(folder + "/there", 0),
    "make": lambda: open(folder + "/new", "w").close(),
    "make folder": lambda: os.mkdir(folder + "/newer"),
    "remove": lambda: os.unlink(folder + "/there"),
    "rename": lambda: os.rename(folder + "/there", folder + "/here"),
    "link": lambda: os.symlink("/etc", folder + "/etc"),
    "run": lambda: subprocess.run(["/bin/true"], check=True),
    "connect": lambda: socket.create_connection(("127.0.0.1", port), 5),
    "listen": lambda: socket.create_server(("127.0.0.1", 0)),
    "signal": lambda: os.kill(outsider, 0),
    "user": lambda: os.setgroups([]) or os.setuid(12345),
}
for name, work in tries.items():
    try:
        work()
    except OSError as error:
        print("no", name, type(error).__name__)
    else:
        print("yes", name)
print(open("/proc/self/status").read())
"""


def run(folder: Path) -> str:
    (folder / "there").write_text("text")
    (folder / "open").touch()
    outsider = subprocess.Popen(["sleep", "600"])
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, str(folder), str(port), str(outsider.pid)],
                capture_output=True,
                text=True,
                timeout=90,
                cwd=ROOT,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )
    finally:
        outsider.kill()
        outsider.wait()
    assert done.returncode == 0, done.stderr
    return done.stdout


def could(said: str) -> set[str]:
    return {line.partition(" ")[2] for line in said.splitlines() if line.startswith("yes ")}


def status(said: str, name: str) -> str:
    return next(line.split()[1] for line in said.splitlines() if line.startswith(f"{name}:"))


def test_a_confined_process_can_only_read(tmp_path: Path) -> None:
    said = run(tmp_path)
    left = {"read", "import"}
    version = landlock_version()
    if not version:
        left |= {"make", "make folder", "remove", "rename", "link", "run", "truncate"}
    if version < 3:
        left |= {"truncate"}
    if version < 4:
        left |= {"connect", "listen"}
    if version < 6:
        left |= {"signal"}
    assert could(said) - {"make", "rename"} <= left
    assert {"read", "import"} <= could(said)
    assert f"confined {version > 0}" in said
    if version:
        assert (tmp_path / "there").read_text() == "text"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["open", "there"]
    assert (tmp_path / "open").read_text() == ""
    assert status(said, "NoNewPrivs") == "1"
    assert int(status(said, "CapEff"), 16) in (0, 1 << 2)
    assert int(status(said, "CapPrm"), 16) in (0, 1 << 2)


def test_a_confined_process_ends_with_its_parent() -> None:
    child = (
        "import os, time; from stalltop.serving.confine import confine\n"
        "confine(parent=os.getppid()); time.sleep(600)"
    )
    parent = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "print(p.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        end = time.monotonic() + 60
        while "NoNewPrivs:\t1" not in Path(f"/proc/{pid}/status").read_text():
            assert time.monotonic() < end
            time.sleep(0.02)
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    while Path(f"/proc/{pid}").exists() and "State:\tZ" not in _status(pid):
        assert time.monotonic() < end + 60
        time.sleep(0.02)


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "State:\tZ"


def test_a_process_whose_parent_has_ended_exits() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from stalltop.serving.confine import confine; confine(parent=1)"],
        cwd=ROOT,
        timeout=60,
        capture_output=True,
        check=False,
    )
    if os.getpid() == 1:
        pytest.skip("this process has PID 1, which the test takes for another process")
    assert done.returncode == -signal.SIGKILL
