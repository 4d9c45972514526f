"""Tests how waits are followed to servers, of this host and of others, and to what servers wait for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.waits import waits
from stalltop.model.evidence import HOST_GAP, HOST_LAYER
from stalltop.model.thread_evidence import (
    HAND_OVER,
    NOBODY,
    TIMEOUT,
    TIMER,
    Asks,
    Server,
    Servers,
    ThreadId,
    ThreadWait,
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
from tests.windows.evidence import BATCH, TRAIN


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
    assert not list(waits(Facts(behind_a_broker(did(PRODUCER, running=20, sleep=940)))))
    assert not list(waits(Facts(behind_a_broker(did(PRODUCER, running=500, network=460)))))


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


def test_a_server_that_is_not_followed_is_named_behind_one_that_is() -> None:
    upstream = ThreadId("other", 320, "backend", 320)
    waited = wait(CALLER, "network", SERVER, 900), wait(SERVER, "network", upstream, 950)
    works = (did(SERVER, network=980),)
    found = lost(seen(*waited, works=works, asks=(Asks(100, 300), Asks(300, 320)), network=900))
    assert culprits(found["remote_service"]) == {320}
    assert found["remote_service"].ns == pytest.approx(900 * MS, rel=0.02)
    idle = seen(*waited, works=works, asks=(Asks(100, 300),), network=900)
    assert not lost(idle), "a client of the server, as far as is known: the server waits for requests"


def test_a_consumer_that_waits_for_work_loses_nothing() -> None:
    """Its broker wakes ten times a second by itself, as Redis does, and answers BLPOP only when its limit is
    reached."""
    polls = wait(CALLER, "network", SERVER, 990, 1), wait(SERVER, TIMER, NOBODY, 980, 10)
    answers = wait(SERVER, "network", CALLER, 5, 1)
    known = (did(SERVER, running=2, network=985),)
    asks = (Asks(100, 300),)
    assert not list(waits(Facts(seen(*polls, answers, works=known, asks=asks, network=990))))


def test_a_client_that_comes_more_rarely_than_the_server_answers_is_no_producer() -> None:
    """Both ask the server, whose own work takes the time of the caller."""
    found = lost(
        seen(
            wait(CALLER, "network", SERVER, 900, 300),
            wait(SERVER, "network", PRODUCER, 450, 20),
            works=(did(SERVER, running=500, network=460), did(PRODUCER, running=950)),
            asks=(Asks(100, 300), Asks(301, 300)),
            network=900,
        )
    )
    assert culprits(found["remote_service"]) == {300}


def test_a_server_with_an_event_loop_waits_for_its_local_client() -> None:
    """The main thread of uvicorn wakes every 0.1 s, whatever it waits for. Its client waits for
    its answers most of the time."""
    main, client = ThreadId(TRAIN, 100, "train.py", 108), ThreadId(BATCH, 400, "agent", 400)
    idle = seen(
        wait(CALLER, HAND_OVER, main, 400),
        wait(main, TIMER, NOBODY, 850, 9),
        wait(main, "network", client, 60),
        wait(client, "network", main, 700),
        works=(did(main, running=60, network=920), did(client, running=100, network=850)),
        asks=(Asks(400, 100),),
        lock=400,
    )
    assert not list(waits(Facts(idle)))


def test_a_caller_that_sleeps_in_its_event_loop_does_not_wait_for_a_fast_server() -> None:
    made = seen(
        wait(CALLER, TIMER, NOBODY, 900, 9),
        wait(CALLER, "network", SERVER, 2, 10),
        wait(SERVER, "network", CALLER, 970),
        works=(did(SERVER, running=5, network=990),),
        asks=(Asks(100, 300),),
        network=905,
    )
    assert not list(waits(Facts(made)))


def test_timers_that_limit_a_wait_for_another_host_count_for_that_host() -> None:
    made = seen(
        wait(CALLER, TIMER, NOBODY, 700, 14),
        wait(CALLER, "network", NOBODY, 60, 2),
        servers=(Servers(100, (Server("10.1.2.3:9000"),)),),
        network=760,
    )
    assert lost(made)["remote_service"].ns == pytest.approx(760 * MS)


def test_a_consumer_of_a_queue_on_another_host_loses_nothing() -> None:
    at = (Servers(100, (Server("10.1.2.3:6379"),)),)
    long = ThreadWait(CALLER, HOST_LAYER, HOST_GAP, "network", "network", NOBODY, 5_000 * MS, 1)
    assert not lost(seen(long, servers=at, network=900))


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
