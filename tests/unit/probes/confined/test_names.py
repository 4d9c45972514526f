"""Tests that names from state files and daemons are those that this process would read, and come from the
confined process."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.demo.grpc_server import listening_at
from stalltop.probes.confined import names as confined_names
from stalltop.probes.confined.link import Confined, NoAnswerError
from stalltop.probes.confined.names import ConfinedNames
from stalltop.probes.tenants import container_sockets
from stalltop.probes.tenants import names as tenant_names
from stalltop.probes.tenants.jobs import Job
from stalltop.probes.tenants.name_lookups import NamesHere
from stalltop.probes.tenants.names import Names
from tests.manual_clock import ManualClock
from tests.unit.probes.tenants.fake_host import FakeHost

A = "a1" * 32
STATE: dict[str, object] = {"Name": "/train-a", "Config": {"Labels": {"team": "vision"}}}
KNOWN = Names("train-a", labels=(("team", "vision"),))
SILENT = """
import time
from stalltop.probes.confined import examiner, process
of = examiner.NameFiles.look_up
def look_up(self, container_id, pod_uid="", uid=None):
    if uid == 1000:
        time.sleep(60)
    return of(self, container_id, pod_uid, uid)
examiner.NameFiles.look_up = look_up
process.main()
"""
"""A confined process that gives no answer about files of user 1000."""


@pytest.fixture
def names(tmp_path: Path) -> Iterator[ConfinedNames]:
    found = ConfinedNames(Confined(), tmp_path)
    yield found
    found.close()


@contextlib.contextmanager
def daemon(path: Path, content: bytes) -> Iterator[list[bytes]]:
    """Answers every request at the socket ``path`` with ``content``. Provides the requests."""
    path.parent.mkdir(parents=True, exist_ok=True)
    asked: list[bytes] = []

    def run() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    asked.append(connection.recv(1 << 16))
                    connection.sendall(content)

    with listening_at(path) as listening:
        threading.Thread(target=run, daemon=True).start()
        yield asked
        listening.shutdown(socket.SHUT_RDWR)


def test_state_files_are_read_in_the_confined_process(
    names: ConfinedNames, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost(tmp_path)
    host.write("etc/passwd", "eve:x:1000:1000::/home/eve:/bin/sh\n")
    host.write(f"var/lib/docker/containers/{A}/config.v2.json", STATE)
    host.write(f"home/eve/.local/share/docker/containers/{A}/config.v2.json", {"Name": "/hers"})
    here = NamesHere(tmp_path, tmp_path)
    questions = [(A, "", None), (A, "", 1000), ("b2" * 32, "", None)]
    expected = [here.files(*question) for question in questions]
    assert [one.container for one in expected] == ["train-a", "hers", ""]
    # From now on, this process reads no state file.
    monkeypatch.setattr(tenant_names, "read_regular", None)
    assert [names.files(*question) for question in questions] == expected
    assert names.user(1000) == "eve"
    assert names.job(os.getpid(), None) is None
    host.write("run/stalltop/jobs/42", "SLURM_JOB_ID=42\nSLURM_JOB_PARTITION=gpu\n")
    host.write("run/stalltop/gpus/1", "42\n")
    assert names.prepared_job("42") == Job("42", labels=(("gpus", "1"), ("partition", "gpu")))


def test_an_answer_of_a_daemon_is_parsed_in_the_confined_process(
    names: ConfinedNames, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(STATE).encode()
    monkeypatch.setattr(container_sockets, "answer", None)
    with daemon(tmp_path / "run/docker.sock", content) as asked:
        assert names.sockets(A, None) == KNOWN
        assert names.sockets(A, None) == KNOWN
    assert [request.split()[:2] for request in asked] == [[b"GET", f"/containers/{A}/json".encode()]]


@pytest.mark.parametrize("content", [b"", b"\xff" * 99, b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 200_000])
def test_a_daemon_without_a_valid_answer_is_left_alone(
    names: ConfinedNames, tmp_path: Path, content: bytes
) -> None:
    with daemon(tmp_path / "run/docker.sock", content) as asked:
        assert names.sockets(A, None) == names.sockets(A, None) == Names()
    assert len(asked) == 1


def test_what_is_no_socket_is_not_connected_to(names: ConfinedNames, tmp_path: Path) -> None:
    FakeHost(tmp_path).write("run/docker.sock", "x")
    assert names.sockets(A, None) == Names()


def test_a_user_whose_files_do_not_answer_is_left_alone_and_no_other(
    tmp_path: Path,
) -> None:
    clock, host = ManualClock(), FakeHost(tmp_path)
    host.write(f"var/lib/docker/containers/{A}/config.v2.json", STATE)
    host.write("etc/passwd", "eve:x:1000:1000::/home/eve:/bin/sh\n")
    names = ConfinedNames(Confined((sys.executable, "-P", "-c", SILENT), 1.0), tmp_path, clock)
    for pause in confined_names.ALONE_SECONDS:
        with pytest.raises(NoAnswerError):
            names.files(A, "", 1000)
        process = names._asks._process
        for _ in range(5):  # These are no further questions.
            with pytest.raises(NoAnswerError):
                names.files(A, "", 1000)
        assert names._asks._process is process is None
        assert names.unanswering() == [1000]
        assert names.files(A, "", None).container == "train-a"
        clock.now += pause
        assert names.unanswering() == []
    names.close()
