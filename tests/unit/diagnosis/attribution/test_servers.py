"""Tests how waits are followed to servers, of this host and of others, and to what servers wait for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.waits import waits
from stalltop.model.thread_evidence import (
    HAND_OVER,
    NOBODY,
    TIMEOUT,
    TIMER,
    Asks,
    Server,
    Servers,
    ThreadId,
    ThreadWork,
)
from stalltop.model.window import SPLITS, Window
from tests.unit.diagnosis.attribution.thread_windows import (
    CALLER,
    FEEDER,
    MS,
    SERVER,
    WORKER,
    culprits,
    did,
    lost,
    seen,
    wait,
)
from tests.windows.evidence import BATCH


@pytest.mark.parametrize("part", ["running", "sleep", "runqueue", "disk"])
def test_a_server_of_another_tenant_is_named_whatever_it_does(part: str) -> None:
    found = lost(
        seen(
            wait(CALLER, "network", FEEDER, 800),
            wait(FEEDER, HAND_OVER, WORKER, 990),
            wait(WORKER, "network", SERVER, 950),
            works=(
                did(FEEDER, lock=990),
                did(WORKER, running=20, network=960),
                ThreadWork(SERVER, "features", 1, tuple(980 * MS * (name == part) for name in SPLITS)),
            ),
            asks=(Asks(101, 300),),
            network=800,
        )
    )
    assert max(found, key=lambda cause: found[cause].ns) == "remote_service"
    assert culprits(found["remote_service"]) == {300}


def test_a_client_of_another_tenant_is_not_to_blame() -> None:
    idle = seen(
        wait(CALLER, "network", SERVER, 900),
        works=(did(SERVER, sleep=990),),
        asks=(Asks(300, 100),),
        network=900,
    )
    assert not lost(idle)
    unknown = replace(
        idle,
        evidence=replace(idle.evidence, threads=replace(idle.evidence.threads, asks=())),
    )
    assert not lost(unknown)


def test_a_server_that_is_not_followed_is_named() -> None:
    found = lost(seen(wait(CALLER, "network", SERVER, 500), asks=(Asks(100, 300),), network=500))
    assert culprits(found["remote_service"]) == {300}


def test_servers_of_other_hosts_are_named_by_address() -> None:
    made = seen(
        wait(CALLER, "network", NOBODY, 700),
        servers=(Servers(100, (Server("10.1.2.3:9000", 2048, 3 << 20, 400_000),)),),
        network=700,
    )
    assert lost(made)["remote_service"].ns == pytest.approx(700 * MS)
    told = next(each for each in waits(Facts(made)) if each.cause == "remote_service")
    assert "10.1.2.3:9000" in told.summary
    (link,) = [link for link in told.links if link.role == "factor"]
    assert link.text.endswith("10.1.2.3:9000, 3 MiB/s received, 2 KiB/s sent, round trip 400 us")
    assert link.ns_per_s == pytest.approx(700 * MS)


PRODUCER = ThreadId(BATCH, 301, "etl", 301)
POOL = ThreadId(BATCH, 300, "features", 309)


def behind_a_broker(producer: ThreadWork) -> Window:
    """Returns a second in which the caller waits for SERVER, which the thread of ``producer`` wakes."""
    return seen(
        wait(CALLER, "network", SERVER, 900),
        wait(SERVER, "network", PRODUCER, 960),
        works=(did(SERVER, running=10, network=980), producer),
        asks=(Asks(100, 300), Asks(301, 300)),
        network=900,
    )


def test_a_busy_producer_behind_a_message_broker_is_named() -> None:
    found = lost(behind_a_broker(did(PRODUCER, running=900, network=60)))
    assert set(found) == {"remote_service"}
    assert max(found["remote_service"].culprits.items(), key=lambda each: each[1])[0].pid == 301


def test_a_producer_with_little_to_do_is_not_to_blame() -> None:
    found = lost(behind_a_broker(did(PRODUCER, running=20, sleep=940)))
    assert culprits(found["remote_service"]) == {300}


def test_clients_of_a_server_that_works_for_the_victim_are_not_to_blame() -> None:
    own = SERVER._replace(tenant=CALLER.tenant)
    idle = seen(
        wait(CALLER, "network", own, 900),
        wait(own, "network", PRODUCER, 960),
        works=(did(own, running=10, network=980), did(PRODUCER, running=900)),
        asks=(Asks(301, 300),),
        network=900,
    )
    assert "remote_service" not in lost(idle)


def test_a_thread_of_a_server_is_followed_to_other_threads_of_it() -> None:
    proxy = ThreadId("proxy", 310, "nginx", 310)
    found = lost(
        seen(
            wait(CALLER, "network", proxy, 900),
            wait(proxy, "network", SERVER, 950),
            wait(SERVER, "network", POOL, 900),
            works=(did(proxy, network=990), did(SERVER, running=20, network=960), did(POOL, running=950)),
            asks=(Asks(100, 310), Asks(310, 300)),
            network=900,
        )
    )
    assert culprits(found["remote_service"]) == {300}
    assert found["remote_service"].last_part == "running"


def test_a_server_that_waits_for_something_unknown_is_named() -> None:
    unknown = ThreadId("other", 320, "backend", 320)
    found = lost(
        seen(
            wait(CALLER, "network", SERVER, 900),
            wait(SERVER, "network", unknown, 950),
            works=(did(SERVER, network=980),),
            asks=(Asks(100, 300),),
            network=900,
        )
    )
    assert culprits(found["remote_service"]) == {300}
    assert found["remote_service"].ns == pytest.approx(900 * MS, rel=0.02)


@pytest.mark.parametrize("kind", [TIMER, TIMEOUT])
def test_a_worker_whose_waits_timers_end_sleeps(kind: str) -> None:
    """It waits for its caller now and then: this is no input that the timers limit the wait for."""
    found = lost(
        seen(
            wait(CALLER, "network", WORKER, 900),
            wait(WORKER, kind, NOBODY, 930, 25),
            wait(WORKER, "network", CALLER, 10),
            works=(
                did(WORKER, running=10, lock=940)
                if kind == TIMEOUT
                else did(WORKER, running=10, network=940),
            ),
            local=(101,),
            network=900,
        )
    )
    assert max(found, key=lambda cause: found[cause].ns) == "loader_sleep"
    assert found["loader_sleep"].ns == pytest.approx(900 * MS, rel=0.05)


def test_a_worker_that_asks_a_fast_server_and_sleeps_is_not_said_to_wait_for_the_server() -> None:
    found = lost(
        seen(
            wait(CALLER, "network", WORKER, 900),
            wait(WORKER, TIMER, NOBODY, 900, 20),
            wait(WORKER, "network", SERVER, 20),
            wait(SERVER, "network", WORKER, 960),
            works=(did(WORKER, running=10, network=920), did(SERVER, running=20, network=970)),
            asks=(Asks(101, 300),),
            local=(101,),
            network=900,
        )
    )
    assert max(found, key=lambda cause: found[cause].ns) == "loader_sleep"
