"""Tests which capabilities are kept, and what they still permit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stalltop.probes.privileges import BY_HAND, OF_THE_SERVICE, Capability, capabilities
from stalltop.probes.python_path import python_path

ROOT = Path(__file__).resolve().parents[3]
TRY = """
import json, os, socket, subprocess, sys, time
from stalltop.probes.privileges import BY_HAND, keep_capabilities
folder = sys.argv[1]
keep_capabilities(BY_HAND)
results = {}
def attempt(name, work):
    try:
        work()
        results[name] = True
    except OSError:
        results[name] = False
def write():
    with open(folder + "/new", "x") as file:
        os.fchown(file.fileno(), 65534, 65534)
    os.rename(folder + "/new", folder + "/renamed")
def connect():
    with socket.socket(socket.AF_UNIX) as user:
        user.connect(folder + "/socket")
attempt("a user's folder", write)
attempt("a user's socket", connect)
attempt("another user", lambda: os.setuid(65534))
attempt("a device", lambda: os.mknod(folder + "/device", 0o20600, os.makedev(1, 3)))
attempt("another root", lambda: os.chroot(folder))
attempt("the clock", lambda: time.clock_settime(0, time.time()))
results["status"] = open("/proc/self/status").read()
child = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True)
results["child"] = child.stdout
print(json.dumps(results))
"""


def test_the_service_has_the_capabilities_that_are_named() -> None:
    unit = (ROOT / "deploy" / "stalltop-record.service").read_text()
    (line,) = re.findall(r"^CapabilityBoundingSet=(.*)$", unit, re.M)
    assert {Capability[name.removeprefix("CAP_")] for name in line.split()} == OF_THE_SERVICE
    assert "\nNoNewPrivileges=yes\n" in unit


def test_this_thread_has_the_capabilities_that_the_kernel_reports() -> None:
    status = Path("/proc/self/status").read_text()
    (permitted,) = re.findall(r"^CapPrm:\t(\w+)$", status, re.M)
    assert capabilities() == {number for number in range(64) if int(permitted, 16) >> number & 1}


def test_rights_that_tracing_does_not_need_are_gone_and_the_others_work(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("this user has no capabilities")
    import socket

    os.chown(tmp_path, 65534, 65534)
    tmp_path.chmod(0o1700)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        os.chown(tmp_path / "socket", 65534, 65534)
        (tmp_path / "socket").chmod(0o600)
        ran = subprocess.run(
            [sys.executable, "-P", "-c", TRY, str(tmp_path)],
            env={"PYTHONPATH": python_path()},
            capture_output=True,
            text=True,
            check=True,
        )
    found = json.loads(ran.stdout)
    bits = sum(1 << number for number in BY_HAND)
    for status in (found.pop("status"), found.pop("child")):
        for kind in ("CapPrm", "CapEff", "CapBnd"):
            (kept,) = re.findall(rf"^{kind}:\t(\w+)$", status, re.M)
            assert int(kept, 16) & ~bits == 0, kind
        assert re.search(r"^NoNewPrivs:\t1$", status, re.M)
    assert found == {
        "a user's folder": True,
        "a user's socket": True,
        "another user": False,
        "a device": False,
        "another root": False,
        "the clock": False,
    }
