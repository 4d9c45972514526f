"""Tests that a host has one tracer: clients attach no probes, and take its place when it is killed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from stalltop.cli.host import this_process
from stalltop.demo.build import Built
from stalltop.demo.tenants import DemoTenants
from stalltop.files.host_places import TRACER_SOCKET
from stalltop.model.window import Window
from stalltop.serving.host.host_source import HostSource
from stalltop.serving.host.place import TracerPlace, connected
from stalltop.serving.host.tracer_link import TracerLink
from tests.kernel.commands.program import started
from tests.kernel.harness import wait_until
from tests.tui.pseudo_terminal import PseudoTerminal

KILLS = 2
OPTIONS = ("--memory=200M", "--attach=perf", "--budget=3%", "--sample")
"""Options that only a tracer can follow."""

IN_CONTAINER = f"""
mount -t tmpfs run /run
mkdir -m 755 {TRACER_SOCKET.parent}
touch {TRACER_SOCKET}
mount --bind "$STALLTOP_SOCKET" {TRACER_SOCKET}
mount -t tmpfs hidden "$(dirname "$STALLTOP_SOCKET")"
unset STALLTOP_SOCKET
exec setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all "$@"
"""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can trace"),
    pytest.mark.timeout(600),
]


def recorder(folder: Path, number: int = 0) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    return started(folder, "record", "--to", str(folder / f"{number}.stalltop"))


def client(path: Path, said: list[str]) -> HostSource:
    """Connects to the tracer as a client that may not trace."""
    link = wait_until(lambda: connected(path), what="a tracer")
    assert link is not None
    return HostSource(TracerLink(link), TracerPlace(path), None, tell=said.append)


def links_of(pid: int) -> int:
    """Returns how many links of uprobes and perf events with BPF programs a process has."""
    count = 0
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            count += bool(
                re.search(r"^link_type:\s+(uprobe_multi|perf|perf_event)$", info.read_text(), re.MULTILINE)
            )
    return count


def calls(window: Window) -> int:
    return int(
        sum(
            n
            for key, n in zip(window.rows.keys, window.rows.calls.tolist(), strict=True)
            if key.layer == "runtime"
        )
    )


def test_clients_attach_no_probes_and_see_the_same_calls(
    built: Built, tmp_path: Path, tracer_socket: Path
) -> None:
    said: list[str] = []
    with DemoTenants("trio", built=built), recorder(tmp_path) as tracer:
        mine = client(tracer_socket, said)
        wait_until(lambda: calls(mine.read()), what="calls of the tenants")
        attached = links_of(tracer.pid)
        assert attached
        with (
            started(tmp_path, "once", "--json", "--seconds", "4") as one,
            started(tmp_path, "explain", "--json", "--seconds", "4") as other,
        ):
            wait_until(lambda: len(children_at(tracer_socket)) >= 4, what="two clients")
            assert [links_of(process.pid) for process in (one, other)] == [0, 0]
            out, err = one.communicate(timeout=100)
            told, _ = other.communicate(timeout=100)
            assert links_of(tracer.pid) == attached
        document = json.loads(out)
        assert document["probes"]["tracer"]["pid"] == tracer.pid
        assert document["probes"]["tracer"]["user"] == this_process().user
        assert document["probes"]["tracer"]["command"].startswith("stalltop record --to")
        assert f"windows of the tracer of this host: PID {tracer.pid} of" in err
        assert sum(row["calls"] for row in document["operations"] if row["layer"] == "runtime")
        assert json.loads(told)["looked_at"]["calls"]
        mine.close()
    assert said == []


def test_the_screen_the_demo_and_the_browsers_screen_are_clients(tmp_path: Path, tracer_socket: Path) -> None:
    with recorder(tmp_path) as tracer:
        client(tracer_socket, []).close()
        with started(tmp_path, "demo", "trio", "--json", "--seconds", "4") as demo:
            wait_until(lambda: len(children_at(tracer_socket)) >= 2, what="the demo as a client")
            assert links_of(demo.pid) == 0
            out, err = demo.communicate(timeout=100)
        document = json.loads(out)
        assert document["probes"]["tracer"]["pid"] == tracer.pid, err
        assert not document["simulated"]
        assert "bert-trainer" in {tenant["name"] for tenant in document["tenants"]}
        with started(tmp_path, "serve", "--port", "0") as serve:
            wait_until(lambda: len(children_at(tracer_socket)) >= 2, what="the server as a client")
            assert links_of(serve.pid) == 0
            serve.send_signal(signal.SIGINT)
            serve.communicate(timeout=100)
        with PseudoTerminal("-P", "-m", "stalltop", "live", "--no-state", size=(140, 40)) as screen:
            screen.sees(f"root {tracer.pid}")
            assert links_of(screen.process.pid) == 0


def children_at(path: Path) -> list[str]:
    """Returns the connections to the socket at ``path``, as the Linux kernel lists them."""
    return [line for line in Path("/proc/net/unix").read_text().splitlines() if line.endswith(f" {path}")]


@pytest.mark.beside
def test_a_client_refuses_options_of_the_tracer(tmp_path: Path, tracer_socket: Path) -> None:
    with recorder(tmp_path) as tracer:
        link = wait_until(lambda: connected(tracer_socket), what="a tracer")
        assert link is not None
        link.close()
        for option in OPTIONS:
            with started(tmp_path, "once", option) as refused:
                out, err = refused.communicate(timeout=100)
            assert (refused.returncode, out) == (2, "")
            told = rf"{option.partition('=')[0]}: only the tracer .*PID {tracer.pid} of root.*--own"
            assert re.search(told, err, re.DOTALL)
        with started(tmp_path, "once", *OPTIONS, "--own", "--seconds", "0.2") as own:
            _, err = own.communicate(timeout=100)
        assert own.returncode == 0
        assert "twice" in err


@pytest.mark.beside
def test_clients_go_on_when_the_tracer_is_killed(tmp_path: Path, tracer_socket: Path) -> None:
    said: list[str] = []
    with contextlib.ExitStack() as stack:
        processes = {}
        for number in range(KILLS + 1):
            process = stack.enter_context(recorder(tmp_path, number))
            processes[process.pid] = process
            if not number:
                mine = client(tracer_socket, said)
                mine.read()
        for kill in range(KILLS):
            wait_until(lambda: len(children_at(tracer_socket)) >= KILLS + 2 - kill, what="all clients")  # noqa: B023
            tracer = mine.read().coverage.tracer
            assert tracer is not None
            os.kill(tracer.pid, signal.SIGKILL)
            processes.pop(tracer.pid).wait()
            found = tracer
            while found == tracer:
                told = mine.read().coverage.tracer
                assert told is not None
                found = told
            assert found.pid in processes
        (last,) = processes.values()
        mine.close()
        last.send_signal(signal.SIGINT)
        _, err = last.communicate(timeout=100)
    assert len(said) == KILLS
    assert err.count("this stalltop traces now") == 1
    assert "cannot trace" not in err
    assert last.returncode == 0


@pytest.mark.beside
def test_of_two_that_start_at_once_one_traces(tmp_path: Path, tracer_socket: Path) -> None:
    with (
        started(tmp_path, "once", "--json", "--seconds", "2") as one,
        started(tmp_path, "once", "--json", "--seconds", "2") as other,
    ):
        told = {process.pid: process.communicate(timeout=100) for process in (one, other)}
    assert (one.returncode, other.returncode) == (0, 0)
    tracers = [json.loads(out)["probes"]["tracer"] for out, _ in told.values()]
    # The client traces at last, if the tracer ends before it.
    clients = [err for _, err in told.values() if "windows of the tracer of this host" in err]
    assert len(clients) == 1
    assert None in tracers
    assert {tracer["pid"] for tracer in tracers if tracer} <= set(told)


@pytest.mark.beside
def test_a_client_in_other_namespaces_gets_the_windows_of_the_host(
    tmp_path: Path, tracer_socket: Path
) -> None:
    with recorder(tmp_path) as tracer:
        client(tracer_socket, []).close()
        unshared = ("unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--mount-proc")
        with started(tmp_path, "once", "--json", "--seconds", "1", within=unshared) as inside:
            out, err = inside.communicate(timeout=100)
        assert inside.returncode == 0, err
        assert json.loads(out)["probes"]["tracer"]["pid"] == tracer.pid


@pytest.mark.beside
def test_a_container_needs_nothing_of_the_host_but_its_socket(tmp_path: Path, tracer_socket: Path) -> None:
    """The container has a `/run` of its own, into which the socket is mounted at its usual place, none of the
    host's other files of stalltop, and no capabilities."""
    with recorder(tmp_path) as tracer:
        client(tracer_socket, []).close()
        unshared = ("unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--mount-proc")
        with started(
            tmp_path, "once", "--json", "--seconds", "1", within=(*unshared, "sh", "-ec", IN_CONTAINER, "sh")
        ) as inside:
            out, err = inside.communicate(timeout=100)
        assert inside.returncode == 0, err
        assert json.loads(out)["probes"]["tracer"]["pid"] == tracer.pid


@pytest.mark.beside
def test_a_stopped_tracer_is_named_with_what_to_do(tmp_path: Path, tracer_socket: Path) -> None:
    with recorder(tmp_path) as tracer:
        client(tracer_socket, []).close()
        tracer.send_signal(signal.SIGSTOP)
        with started(tmp_path, "once", "--json", "--seconds", "1") as late:
            out, err = late.communicate(timeout=100)
        assert (late.returncode, out) == (1, "")
        assert f"kill -CONT {tracer.pid}" in err
        tracer.send_signal(signal.SIGCONT)
        with started(tmp_path, "once", "--json", "--seconds", "1") as later:
            out, err = later.communicate(timeout=100)
        assert json.loads(out)["probes"]["tracer"]["pid"] == tracer.pid, err


@pytest.mark.beside
def test_a_client_goes_back_to_what_the_tracer_recorded(tmp_path: Path, tracer_socket: Path) -> None:
    with recorder(tmp_path):
        mine = client(tracer_socket, [])
        first = mine.read()
        while mine.read().end < first.end + 3.0:
            pass
        link = connected(tracer_socket)
        assert link is not None
        late = TracerLink(link, past=True)
        late.start(lambda: None)
        assert late.take(60) is not None
        past = wait_until(late.past, what="the past")
        assert past[0].window.start < first.end + 3.0
        assert past[-1].window.host == first.host
        late.close()
        mine.close()
