"""Tests that the answers of NCCL's RAS are read, and that nothing else is taken for one."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from stalltop.probes.confined.link import Confined
from stalltop.probes.confined.ras import confined_status
from stalltop.probes.nccl_ras import client
from stalltop.probes.nccl_ras import status as status_module
from stalltop.probes.nccl_ras.client import RasAnswer, RasError, ask, own_addresses
from stalltop.probes.nccl_ras.status import RasCommunicator, RasRank, read_status
from tests.unit.probes.nccl_ras.stand_in import communicator, rank, served, status

HASH = 0x6AFE1CC17717E1F4


def asked(
    port: int, receive: Callable[[int], tuple[RasCommunicator, ...]] = status_module.received_status
) -> RasAnswer:
    """Returns the answer; in a thread of its own, as the reader asks."""
    found: list[RasAnswer | Exception] = []

    def work() -> None:
        try:
            found.append(ask(os.getpid(), port, receive))
        except RasError as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def test_ranks_and_their_collectives_are_read() -> None:
    ranks = [
        rank(0, 71, AllReduce=40, AllGather=2, SendRecv=7),
        rank(1, 72, "10.0.0.7", AllReduce=41, Recv=9),
    ]
    with served(lambda: status(communicator(HASH, 8, ranks), communicator(1, 1, []))) as port:
        answer = asked(port)
    assert answer.communicators == (
        RasCommunicator(HASH, 8, (RasRank(0, "127.0.0.1", 71, 42), RasRank(1, "10.0.0.7", 72, 41))),
        RasCommunicator(1, 1, ()),
    )
    assert "127.0.0.1" in answer.addresses
    assert answer.addresses == own_addresses()


def test_the_confined_process_receives_and_parses_the_answer() -> None:
    confined = Confined()
    before = {*os.listdir("/proc/self/fd")}
    receive = confined_status(confined)
    with served(lambda: status(communicator(HASH, 8, [rank(0, 71, AllReduce=40)]))) as port:
        answer = asked(port, receive)
    assert answer.communicators == (RasCommunicator(HASH, 8, (RasRank(0, "127.0.0.1", 71, 40),)),)
    with served(lambda: b"[" * 100_000) as port, pytest.raises(RasError, match="no JSON"):
        asked(port, receive)
    confined.close()
    assert {*os.listdir("/proc/self/fd")} <= before


def test_a_version_without_json_is_said() -> None:
    with (
        served(lambda: b"", knows_json=False) as port,
        pytest.raises(RasError, match="does not understand SET FORMAT JSON"),
    ):
        asked(port)


def test_a_job_without_ras_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(RasError, match="does not answer"):
        asked(port)


def test_what_is_not_ras_is_refused() -> None:
    with served(lambda: b"HTTP/1.1 400\r\n") as port, pytest.raises(RasError, match="something else"):
        asked(port)


def test_an_answer_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_module, "MOST_BYTES", 100_000)
    with served(lambda: b" " * 300_000) as port, pytest.raises(RasError, match="too long"):
        asked(port)


def test_who_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(RasError, match="does not answer"):
        asked(silent.getsockname()[1])


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    plain = json.loads(status(communicator(HASH, 2, [rank(1, 72, AllReduce=41)])))
    change(plain["communicators"][0])
    return json.dumps(plain).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[" * 100_000,
        b"[]",
        b'{"communicators": 7}',
        changed(lambda one: one.update(hash=7)),
        changed(lambda one: one.update(hash="0x" + "f" * 40)),
        changed(lambda one: one.update(size=0)),
        changed(lambda one: one.update(size="2")),
        changed(lambda one: one["ranks"][0].update(rank=2)),
        changed(lambda one: one["ranks"][0].update(rank=-1)),
        changed(lambda one: one["ranks"][0].update(pid="71")),
        changed(lambda one: one["ranks"][0].update(collective_counts={"AllReduce": -1})),
        changed(lambda one: one["ranks"][0].update(collective_counts={"AllReduce": True})),
        changed(lambda one: one["ranks"][0].pop("host")),
    ],
)
def test_garbage_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"missing|no JSON|no size|without|cannot have|out of range"):
        read_status(text)
