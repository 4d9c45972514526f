"""Tests owners of untraced processes and of sockets."""

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
"""A PID above any that the Linux kernel assigns."""


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


def test_a_process_of_this_user_has_an_owner(owners: Owners) -> None:
    owner = owners.of(os.getpid())
    assert owner.pid == os.getpid()
    assert owner.process
    assert owners.found[owner.tenant].id == owner.tenant


def test_kernel_threads_belong_to_the_host(owners: Owners) -> None:
    if process_name(2) != "kthreadd":
        pytest.skip("this PID namespace shows no kernel threads")
    assert owners.of(2) == Owner("", 2, "kthreadd")
    assert owners.found == {}


@pytest.mark.parametrize("cgroup_id", [0, 1])
def test_pid_0_and_the_root_cgroup_belong_to_the_host(owners: Owners, cgroup_id: int) -> None:
    assert owners.of(0, cgroup_id) == owners.of_cgroup(cgroup_id) == HOST


def test_an_ended_process_keeps_its_name_for_a_while(owners: Owners, names: ProcessNames) -> None:
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


def test_traced_processes_are_not_forgotten(owners: Owners, names: ProcessNames) -> None:
    own = os.getpid()
    owners.of(own)
    for _ in range(2 * REMEMBERED_LOOKS):
        owners.begin({own})
    assert own in names


def test_unknown_processes_are_not_looked_up_by_known(owners: Owners) -> None:
    assert owners.known(NOBODY, 1) == HOST
    assert owners.known(os.getpid(), 1) == HOST
    own = owners.of(os.getpid())
    assert owners.known(os.getpid(), 1) == own


def test_a_socket_belongs_to_the_process_that_holds_it() -> None:
    one, two = socket.socketpair()
    with one, two:
        inodes = [os.fstat(side.fileno()).st_ino for side in (one, two)]
        sockets = SocketOwners()
        assert sockets.look(inodes, {os.getpid()}) == dict.fromkeys(inodes, os.getpid())
        assert not sockets.wanted
        # Sockets of processes that are no longer watched have no owner.
        assert sockets.look(inodes, ()) == {}


def test_an_unowned_socket_is_searched_for_a_while() -> None:
    sockets = SocketOwners()
    missing = 1 << 60
    for look in range(PATIENCE_LOOKS):
        assert bool(sockets.wanted) == (look > 0)
        assert sockets.look({missing} if look == 0 else (), {os.getpid(), NOBODY}) == {}
    assert not sockets.wanted


def test_socket_0_is_not_searched() -> None:
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
