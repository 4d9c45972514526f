"""Whose a process is, for those that nobody traces; and whose a socket is."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator

import pytest

from stalltop.probes.host.socket_owners import KEEP_LOOKS, PATIENCE_LOOKS, SocketOwners
from stalltop.probes.tenants.owners import HOST, REMEMBERED_LOOKS, Owner, Owners
from stalltop.probes.tenants.process_names import ProcessNames
from stalltop.probes.tenants.tenants import Tenants, process_name

NOBODY = 5_000_000
"""Above all numbers that the kernel gives."""


@pytest.fixture
def names() -> ProcessNames:
    return ProcessNames()


@pytest.fixture
def owners(names: ProcessNames) -> Iterator[Owners]:
    tenants = Tenants()
    found = Owners(tenants, names)
    found.begin(())
    yield found
    tenants.close()


def test_a_process_of_this_user(owners: Owners) -> None:
    owner = owners.of(os.getpid())
    assert owner.pid == os.getpid()
    assert owner.process
    assert owners.found[owner.tenant].id == owner.tenant


def test_kernel_threads_are_the_host_s(owners: Owners) -> None:
    if process_name(2) != "kthreadd":
        pytest.skip("this PID namespace shows no kernel threads")
    assert owners.of(2) == Owner("", 2, "kthreadd")
    assert owners.found == {}


@pytest.mark.parametrize("cgroup_id", [0, 1])
def test_no_process_and_the_root_cgroup_are_nobody(owners: Owners, cgroup_id: int) -> None:
    assert owners.of(0, cgroup_id) == owners.of_cgroup(cgroup_id) == HOST


def test_a_process_that_has_ended_keeps_its_name_for_a_while(owners: Owners, names: ProcessNames) -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        alive = owners.of(process.pid)
        process.kill()
    names.begin()
    owners.begin(())
    assert owners.of(process.pid) == alive
    assert alive.process == "sleep"
    for _ in range(REMEMBERED_LOOKS + 1):
        names.begin()
        owners.begin(())
    assert process.pid not in names
    assert owners.of(process.pid).process == f"pid {process.pid}"


def test_traced_processes_are_not_let_go_by_time(owners: Owners, names: ProcessNames) -> None:
    own = os.getpid()
    owners.of(own)
    for _ in range(2 * REMEMBERED_LOOKS):
        owners.begin({own})
    assert own in names


def test_processes_that_are_not_known_are_not_looked_up(owners: Owners) -> None:
    assert owners.known(NOBODY, 1) == HOST
    assert owners.known(os.getpid(), 1) == HOST
    own = owners.of(os.getpid())
    assert owners.known(os.getpid(), 1) == own


def test_whose_a_socket_is() -> None:
    one, two = socket.socketpair()
    with one, two:
        inodes = [os.fstat(side.fileno()).st_ino for side in (one, two)]
        sockets = SocketOwners()
        assert sockets.look(inodes, {os.getpid()}) == dict.fromkeys(inodes, os.getpid())
        assert not sockets.wanted
        # Of a process that is watched no more, nothing is known.
        assert sockets.look(inodes, ()) == {}


def test_a_socket_that_nobody_has_is_searched_for_a_while() -> None:
    sockets = SocketOwners()
    missing = 1 << 60
    for look in range(PATIENCE_LOOKS):
        assert bool(sockets.wanted) == (look > 0)
        assert sockets.look({missing} if look == 0 else (), {os.getpid(), NOBODY}) == {}
    assert not sockets.wanted


def test_the_socket_of_nobody_is_not_searched_for() -> None:
    sockets = SocketOwners()
    assert sockets.look({0}, {os.getpid()}) == {}
    assert not sockets.wanted


def test_a_closed_socket_is_forgotten() -> None:
    sockets = SocketOwners()
    one, two = socket.socketpair()
    with one, two:
        asked, other = (os.fstat(side.fileno()).st_ino for side in (one, two))
        assert len(sockets.look({asked, other}, {os.getpid()})) == 2
        for _ in range(2 * KEEP_LOOKS):
            assert sockets.look({asked}, {os.getpid()}) == {asked: os.getpid()}
        assert sockets._owner.keys() == {asked}
    for _ in range(KEEP_LOOKS + 1):
        sockets.look((), {os.getpid()})
    assert not sockets._owner
    assert not sockets._asked
