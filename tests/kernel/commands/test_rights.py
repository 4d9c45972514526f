"""Tests that stalltop gives up what tracing does not need, in all of its threads and processes, and that it
works without it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from stalltop.probes.host.process_use import children
from stalltop.probes.privileges import BY_HAND, Capability
from tests.kernel.children import until
from tests.kernel.commands.walker import walking
from tests.tui.pseudo_terminal import ROOT

PROGRAM = (sys.executable, "-m", "stalltop")
USER = 65534
KEPT_BY_CONFINED = {Capability.SYS_PTRACE, Capability.DAC_READ_SEARCH, Capability.CHECKPOINT_RESTORE}


@pytest.fixture(scope="module")
def walker(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Run a process that makes calls all the time."""
    with walking(built, tmp_path_factory.mktemp("walker")) as caller:
        yield caller


@contextmanager
def recording(to: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [*PROGRAM, "record", "--to", str(to), "--own", "--no-state"]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **variables})
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def confined_of(pid: int) -> list[int]:
    """Returns the children of a process that examine files and are confined (seccomp)."""
    return [
        child
        for child in children(pid)
        if b"probes.confined.process" in Path(f"/proc/{child}/cmdline").read_bytes()
        and "\nSeccomp:\t2\n" in Path(f"/proc/{child}/status").read_text()
    ]


def calls(to: Path) -> int:
    """Returns the number of calls in a recording; 0 if there is none yet."""
    query = [*PROGRAM, "query", str(to), "select sum(calls) from operations"]
    found = subprocess.run(query, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return max(map(int, re.findall(r"\d+", found.replace(",", ""))), default=0)


def rights(path: Path) -> tuple[set[int], bool]:
    """Returns the permitted capabilities and no_new_privs of a thread or process."""
    status = path.read_text()
    (permitted,) = re.findall(r"^CapPrm:\t(\w+)$", status, re.M)
    (no_new,) = re.findall(r"^NoNewPrivs:\t(\d)$", status, re.M)
    bits = int(permitted, 16)
    return {number for number in range(64) if bits >> number & 1}, no_new == "1"


def test_a_recorder_keeps_few_rights_and_writes_for_the_user_of_sudo(walker: Caller, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    os.chown(folder, USER, USER)
    folder.chmod(0o700)
    to = folder / "some.stalltop"
    with recording(to, SUDO_UID=str(USER), SUDO_GID=str(USER)) as process:
        assert until(lambda: calls(to) > 0)
        assert until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 2)
        assert until(lambda: confined_of(process.pid) != [])
        for path in Path(f"/proc/{process.pid}/task").glob("*/status"):
            kept, no_new = rights(path)
            assert kept <= BY_HAND
            assert no_new
        assert Capability.SYS_ADMIN in kept
        for pid in children(process.pid):
            assert rights(Path(f"/proc/{pid}/status"))[0] <= BY_HAND
        # There is a second one if the host has containers whose names are looked up.
        for confined in confined_of(process.pid):
            assert rights(Path(f"/proc/{confined}/status")) == (KEPT_BY_CONFINED, True)
    assert process.returncode == 0
    assert (to.stat().st_uid, to.stat().st_gid) == (USER, USER)
