"""Tests chains over time: when they open and close, the history, and the learning of baselines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.diagnosis import engine
from stalltop.diagnosis.causes import CAUSES
from stalltop.diagnosis.engine import Diagnosis, explain
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.normals import KNOWN_WINDOWS, Normals, Workload, workload_of
from stalltop.diagnosis.rules import RULES
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.verdict import severity_of
from stalltop.model.chain import Link
from stalltop.model.devices.device import Device, DeviceProcess, Devices
from stalltop.model.evidence import RECORDS, Event, Evidence, TenantUse
from stalltop.model.window import Window
from tests.unit.diagnosis.faults import FAULTS
from tests.windows import evidence as made
from tests.windows.drawn import FEW, windows
from tests.windows.evidence import BATCH, SERVE, TRAIN, healthy_trainer, row, window

FAULT = "lock_contention"


class ScriptedRule:
    """Reports losses from a list: ``losses[n]`` is the share of a thread's time that is lost in second n."""

    def __init__(self, *losses: float, cause: str = FAULT) -> None:
        self.losses = losses
        self.cause = cause

    def __call__(self, facts: Facts) -> Iterator[Suspicion]:
        # The window covers one or more seconds. Its loss is the mean of the list's values for these seconds.
        ticks = range(round(facts.window.start), round(facts.window.end))
        share = sum(self.losses[tick] if tick < len(self.losses) else 0.0 for tick in ticks) / len(ticks)
        if share > 0.05:
            yield replace(suspicion(self.cause, share * 1e9), small=share < 0.1)


def suspicion(cause: str, lost_ns_per_s: float, tenant: str = TRAIN, about: str = "") -> Suspicion:
    link = Link("culprit", "somebody", tenant=BATCH, pid=900, process="stress")
    return Suspicion(cause, tenant, cause, lost_ns_per_s, 0.9, (link,), pid=100, about=about)


def ticks(diagnosis: Diagnosis, count: int, *, first: int = 0, seconds: float = 1.0) -> list[Window]:
    return [
        diagnosis.add(window([row()], start=first + number * seconds, seconds=seconds))
        for number in range(count)
    ]


def open_at(looks: Sequence[Window]) -> list[bool]:
    return [any(chain.open for chain in look.chains) for look in looks]


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        pytest.param((0, 0.6, 0.6, 0, 0, 0, 0, 0, 0, 0, 0), "..XXXXXXX..", id="opens at the second window"),
        pytest.param((0, 0.9, 0, 0, 0, 0, 0), ".......", id="a blip opens nothing"),
        pytest.param((0, 0.6, 0, 0.6, 0, 0), "...XXX", id="two of three windows"),
        pytest.param((0, 0.3, 0, 0, 0.3, 0, 0, 0.3, 0), ".....XXXX", id="steps longer than windows"),
        pytest.param((0.02,) * 8, "........", id="too little"),
        pytest.param((0.08,) * 8, "....XXXX", id="a small loss that lasts"),
        pytest.param((0.08,) * 3 + (0,) * 4, ".......", id="a small loss that ends"),
        pytest.param((0.12, 0.12, 0.07, 0.08, 0.07, 0.06), ".XXXXX", id="a loss that becomes small"),
        pytest.param((0.12, 0.07, 0.12, 0.07), "..XX", id="a loss that varies"),
    ],
)
def test_a_chain_opens_and_closes(losses: tuple[float, ...], expected: str) -> None:
    looks = ticks(Diagnosis(rules=[ScriptedRule(*losses)]), len(losses))
    assert "".join("X" if is_open else "." for is_open in open_at(looks)) == expected


@pytest.mark.parametrize(
    ("losses", "expected"),
    [((0.08,) * 8, "low"), ((0.3, 0.3, 0.08, 0.08), "medium"), ((0.08,) * 6 + (0.3,) * 3, "high")],
)
def test_a_loss_that_is_reported_only_because_it_lasts_has_low_severity(
    losses: tuple[float, ...], expected: str
) -> None:
    scripted = ScriptedRule(*losses)

    def rule(facts: Facts) -> Iterator[Suspicion]:
        return (replace(found, share=found.lost_ns_per_s / 1e9) for found in scripted(facts))

    (chain,) = ticks(Diagnosis(rules=[rule]), len(losses))[-1].chains
    assert chain.severity == expected


def test_an_event_opens_a_chain_at_once_and_stays_for_a_minute() -> None:
    looks = ticks(Diagnosis(rules=[ScriptedRule(0, 0.9, cause="oom_kill")]), 70)
    assert open_at(looks)[:3] == [False, True, True]
    assert sum(open_at(looks)) == pytest.approx(CAUSES["oom_kill"].stays_seconds, abs=3)


@pytest.mark.parametrize(("share", "expected"), [(0.2, ".XXX"), (0.08, "....")])
def test_a_stopped_program_opens_a_chain_at_once_unless_it_loses_little(share: float, expected: str) -> None:
    looks = ticks(Diagnosis(rules=[ScriptedRule(0, share, share, share, cause="stopped")]), 4)
    assert "".join("X" if is_open else "." for is_open in open_at(looks)) == expected


def test_one_long_window_opens_a_chain() -> None:
    assert open_at(ticks(Diagnosis(rules=[ScriptedRule(*[0.5] * 10)]), 1, seconds=5.0)) == [True]


def test_a_small_loss_opens_a_chain_only_if_the_window_shows_that_it_lasts() -> None:
    rule = ScriptedRule(*[0.08] * 10)
    assert open_at(ticks(Diagnosis(rules=[rule]), 1, seconds=5.0)) == [False]
    assert open_at(ticks(Diagnosis(rules=[rule]), 1, seconds=7.0)) == [True]
    assert [len(explain(window([row()], start=0.0, seconds=length), rules=[rule])) for length in (5, 7)] == [
        *(0, 1)
    ]


def test_short_windows_are_merged_until_they_open_a_chain() -> None:
    looks = ticks(Diagnosis(rules=[ScriptedRule(*[0.5] * 10)]), 8, seconds=0.25)
    assert open_at(looks) == [False] * 5 + [True] * 3


def test_a_closed_chain_keeps_its_times_and_stays_in_the_history() -> None:
    looks = ticks(Diagnosis(rules=[ScriptedRule(0, 0, 0.6, 0.6, 0.6)]), 20)
    opened = looks[3].chains[0]
    assert (opened.since, opened.seen, opened.open) == (2.0, 4.0, True)
    (closed,) = looks[-1].chains
    # The fault ended at 5.0, but the rules see several seconds merged, which contained the fault for two more
    # windows.
    assert (closed.since, closed.seen, closed.open) == (2.0, 7.0, False)
    assert closed.id == opened.id


def test_a_chain_that_returns_soon_goes_on() -> None:
    losses = (0.6, 0.6, 0.6, *[0.0] * 10, 0.6, 0.6, 0.6)
    last = ticks(Diagnosis(rules=[ScriptedRule(*losses)]), len(losses))[-1]
    (chain,) = last.chains
    assert chain.open
    assert chain.since == 0.0


def test_a_chain_that_returns_late_opens_anew() -> None:
    losses = (0.6, 0.6, 0.6, *[0.0] * 60, 0.6, 0.6, 0.6)
    last = ticks(Diagnosis(rules=[ScriptedRule(*losses)]), len(losses))[-1]
    chain, before = last.chains
    assert chain.open
    assert chain.since == 63.0
    # The earlier chain stays in the history, with a suffix at its id.
    assert (before.open, before.since, before.cause) == (False, 0.0, chain.cause)
    assert before.id == f"{chain.id}@0"


def test_another_host_starts_without_chains() -> None:
    diagnosis = Diagnosis(rules=[ScriptedRule(*[0.6] * 4)])
    assert open_at(ticks(diagnosis, 4)) == [False, True, True, True]
    assert diagnosis.add(replace(window([row()], start=4.0), host="gpu8")).chains == ()


def test_the_history_is_bounded_and_newest_first() -> None:
    def rule(facts: Facts) -> Iterator[Suspicion]:
        tick = int(facts.window.end) // 2
        yield suspicion(FAULT, 0.6e9, about=str(tick))

    looks = ticks(Diagnosis(rules=[rule]), 160)
    closed = [chain for chain in looks[-1].chains if not chain.open]
    assert len(closed) == engine.MOST_CLOSED
    assert closed == sorted(closed, key=lambda chain: -chain.seen)
    ids = [chain.id for chain in looks[-1].chains]
    assert len(ids) == len(set(ids))


def several(*found: Suspicion) -> Callable[[Facts], Iterator[Suspicion]]:
    def rule(_: Facts) -> Iterator[Suspicion]:
        yield from found

    return rule


def test_the_larger_of_two_losses_comes_first() -> None:
    rule = several(suspicion("slow_disk", 0.3e9), suspicion("cpu_contention", 0.4e9))
    causes = [chain.cause for chain in explain(window([row()]), rules=[rule])]
    assert causes == ["cpu_contention", "slow_disk"]


def test_a_small_loss_beside_a_large_one_is_a_factor_of_it() -> None:
    small = suspicion("own_threads", 0.06e9)
    (chain,) = explain(window([row()]), rules=[several(small, suspicion("cpu_contention", 0.6e9))])
    assert chain.cause == "cpu_contention"
    factor = chain.links[-1]
    assert (factor.role, factor.tenant) == ("factor", BATCH)
    assert factor.share == pytest.approx(0.1)
    lasting = replace(suspicion("own_threads", 0.08e9), small=True)
    (chain,) = explain(window([row()]), rules=[several(lasting, suspicion("cpu_contention", 0.12e9))])
    assert (chain.cause, chain.links[-1].role) == ("cpu_contention", "factor")
    other_tenant = replace(small, tenant=BATCH)
    chains = explain(window([row()]), rules=[several(other_tenant, suspicion("cpu_contention", 0.6e9))])
    assert len(chains) == 2


def test_processes_of_one_tenant_make_one_chain() -> None:
    rows = [row(running=900), row(pid=101, running=900)]
    both = several(suspicion(FAULT, 0.2e9), replace(suspicion(FAULT, 0.5e9), pid=101))
    (chain,) = explain(window(rows), rules=[both])
    assert chain.lost_ms_per_s == pytest.approx(700)
    assert chain.pid == 101
    # Each process loses its own time, so the severity is that of the worst process, not of the sum.
    assert chain.severity == severity_of(CAUSES[FAULT], 0.5)


@pytest.mark.parametrize(
    ("cause", "share", "expected"),
    [
        ("cpu_contention", 0.51, "critical"),
        ("cpu_contention", 0.21, "high"),
        ("cpu_contention", 0.06, "medium"),
        ("cpu_contention", 0.01, "low"),
        ("cpu_contention", None, "low"),
        ("oom_kill", None, "critical"),
        ("hung_call", 0.01, "high"),
        ("gpu_bound", 0.9, "info"),
    ],
)
def test_severity_follows_the_share_of_time_lost(cause: str, share: float | None, expected: str) -> None:
    assert severity_of(CAUSES[cause], share) == expected


def healthy(start: float) -> Window:
    return window(made.healthy_trainer(), start=start)


def test_baselines_are_learned_and_shown() -> None:
    diagnosis = Diagnosis()
    for tick in range(KNOWN_WINDOWS + 1):
        assert not [c for c in diagnosis.add(healthy(tick)).chains if c.severity != "info"]
    for tick in range(KNOWN_WINDOWS + 1, KNOWN_WINDOWS + 5):
        look = diagnosis.add(replace(FAULTS["cpu_contention"][0](), start=float(tick)))
    chain = look.chains[0]
    assert chain.cause == "cpu_contention"
    assert chain.normal_p99_ns is not None
    assert chain.p99_ns is not None
    # A second of the healthy trainer has 1020 host gaps, which take 279 ms in sum.
    assert chain.normal_p99_ns == pytest.approx(279e6 / 1020, rel=0.02)
    assert not any("normal" in line for line in chain.unknown)


def test_nothing_is_learned_from_a_faulty_tenant() -> None:
    diagnosis = Diagnosis()
    for tick in range(KNOWN_WINDOWS + 5):
        look = diagnosis.add(replace(FAULTS["cpu_contention"][0](), start=float(tick)))
    assert look.chains[0].open
    assert len(diagnosis.normals) == 0


@pytest.mark.parametrize(
    ("clock_mhz", "learned"),
    [
        pytest.param(
            1755, {"train.py", "worker", "batch"}, id="at its power cap, as it always is under full load"
        ),
        pytest.param(495, {"batch"}, id="at a quarter of its clock: only its users are left out"),
    ],
)
def test_a_shared_slow_device_stops_learning_only_for_its_users(clock_mhz: int, learned: set[str]) -> None:
    users = (DeviceProcess(100, "C", 1 << 30, TRAIN), DeviceProcess(200, "C", 1 << 30, SERVE))
    device = Device(
        0,
        "GPU-0",
        "H100",
        utilization_percent=99.0,
        sm_clock_mhz=clock_mhz,
        sm_clock_max_mhz=1980,
        throttle_reasons=("power cap",),
        processes=users,
    )
    other = row("cudaLaunchKernel", 10, tenant=BATCH, pid=300, program="batch", running=1)
    diagnosis = Diagnosis()
    for second in range(20):
        look = window([*healthy_trainer(), other], start=float(second), devices=Devices((device,)))
        chains = diagnosis.add(look).chains
    assert [chain.cause for chain in chains if chain.open and chain.severity != "info"] == ["gpu_power"]
    assert {entry[1] for entry in diagnosis.normals.to_plain()["workloads"]} == learned


def test_processes_of_one_name_share_a_baseline_per_process() -> None:
    normals = Normals()
    for second in range(KNOWN_WINDOWS):
        often, seldom = (
            row("cudaLaunchKernel", 900, running=9),
            row("cudaLaunchKernel", 100, pid=102, running=11),
        )
        inside = row("cudaLaunchKernel", 50, running=200, nested=True)
        normals.learn(Facts(window([often, seldom, inside], start=float(second))))
    of_calls, of_nested = normals.to_plain()["workloads"]
    rate, running = of_calls[7], of_calls[8]
    assert rate == pytest.approx(500)  # calls per second and process: two processes made 1,000 calls a second
    assert running == pytest.approx(20e6 / 1000)
    assert of_nested[3] == "> cudaLaunchKernel"
    assert of_nested[8] == pytest.approx(4e6)


def test_a_process_on_two_devices_counts_once_in_its_workload() -> None:
    normals = Normals()
    first, second = (row("cudaLaunchKernel", 300, running=3, device=device) for device in ("0", "1"))
    for at in range(KNOWN_WINDOWS):
        normals.learn(Facts(window([first, second], start=float(at))))
    ((*_, rate, _running), *none) = (entry[:9] for entry in normals.to_plain()["workloads"])
    assert not none
    assert rate == pytest.approx(600)


def test_a_small_loss_does_not_become_the_baseline() -> None:
    def tick(start: float, stolen_ms: float) -> Window:
        gap = row(running=990 - stolen_ms, lock=stolen_ms)
        charged = made.charge("lock", stolen_ms, 900, culprit_process="other")
        return window([row("cudaLaunchKernel", 10, running=5), gap], start=start, charges=[charged])

    diagnosis = Diagnosis()
    looks = [diagnosis.add(tick(at, 1)) for at in range(4)]
    looks += [diagnosis.add(tick(at, 80)) for at in range(4, 30)]
    assert "".join("X" if is_open else "." for is_open in open_at(looks)[4:]) == "...." + "X" * 22


def test_a_wait_as_long_as_its_baseline_is_no_fault_and_a_longer_one_is() -> None:
    def tick(start: float, lock_ms: float) -> Window:
        gap = row(running=990 - lock_ms, lock=lock_ms)
        calls = row("cudaLaunchKernel", 10, running=5)
        charged = made.charge("lock", lock_ms, 100, culprit_tenant=TRAIN, culprit_process="train.py")
        return window([calls, gap], start=start, charges=[charged])

    diagnosis = Diagnosis()
    looks = [diagnosis.add(tick(at, 300)) for at in range(8)]
    assert not any(open_at(looks))
    looks = [diagnosis.add(tick(at, 800)) for at in range(8, 12)]
    assert [chain.cause for chain in looks[-1].chains if chain.open] == ["lock_contention"]


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        pytest.param("llm-7d9f8b6c5d-x2k4z", "llm-7d9f8b6c5d-q8w9v", True, id="one Deployment"),
        pytest.param(
            "llm-7d9f8b6c5d-x2k4z", "llm-5c4f7b9d8x-q8w9v", True, id="two versions of one Deployment"
        ),
        pytest.param("agent-x2k4z", "agent-q8w9v", True, id="one DaemonSet"),
        pytest.param("train-0", "train-1", False, id="one StatefulSet: each pod has its own work"),
        pytest.param("llm-x2k4z", "chat-q8w9v", False, id="two DaemonSets"),
    ],
)
@pytest.mark.parametrize("named_by_pod", [True, False])
def test_containers_of_one_name_share_a_baseline_only_within_one_kind_of_pod(
    one: str, other: str, shared: bool, named_by_pod: bool
) -> None:
    def workload(pod: str, namespace: str = "prod") -> Workload:
        tenant = replace(made.TENANTS[TRAIN], kind="pod", pod=pod, namespace=namespace)
        tenant = replace(tenant, name=f"{pod}/{tenant.name}" if named_by_pod else tenant.name)
        return workload_of(row().key, {TRAIN: tenant})

    assert (workload(one) == workload(other)) is shared
    assert workload(one) != workload(one, "staging")


def test_baselines_survive_a_round_trip_through_json() -> None:
    normals = Normals()
    for tick in range(5):
        normals.learn(Facts(healthy(tick)))
    again = Normals.from_plain(json.loads(json.dumps(normals.to_plain())))
    assert again.to_plain() == normals.to_plain()
    keys, tenants = healthy(0).rows.keys, healthy(0).tenants
    assert again.of(keys, tenants) == Normals.from_plain(normals.to_plain()).of(keys, tenants)


@pytest.mark.parametrize(
    "damage",
    [
        lambda plain: None,
        lambda plain: [],
        lambda plain: {**plain, "columns": ["p50"]},
        lambda plain: {**plain, "workloads": {}},
        lambda plain: {**plain, "workloads": [plain["workloads"][0][:-1]]},
        lambda plain: {**plain, "workloads": [[1, *plain["workloads"][0][1:]]]},
        lambda plain: {**plain, "workloads": [[*plain["workloads"][0][:-1], float("nan")]]},
        lambda plain: {**plain, "workloads": [[*plain["workloads"][0][:-1], "1"]]},
        lambda plain: {**plain, "workloads": [[*plain["workloads"][0][:4], -1, *plain["workloads"][0][5:]]]},
        lambda plain: {**plain, "workloads": [[*plain["workloads"][0][:5], 1e9, *plain["workloads"][0][6:]]]},
    ],
)
def test_damaged_baselines_are_refused(damage: Callable[[object], object]) -> None:
    normals = Normals()
    normals.learn(Facts(healthy(0)))
    with pytest.raises(ValueError, match=r"normals|workload"):
        Normals.from_plain(damage(normals.to_plain()))


def test_baselines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stalltop.diagnosis.normals.MOST_WORKLOADS", 20)
    normals = Normals()
    for number in range(30):
        normals.learn(Facts(window([row(f"cudaOp{number}", running=5)])))
    assert len(normals) == 20
    seen = [entry[3] for entry in normals.to_plain()["workloads"]]
    assert seen == [f"cudaOp{number}" for number in range(10, 30)]


def evidence() -> st.SearchStrategy[Evidence]:
    """Draws arbitrary evidence. It may name processes and tenants of the random windows, or unknown ones."""
    tenants = st.sampled_from(["docker:aa", "cri:bb", "", "nobody"])
    numbers = st.one_of(st.integers(0, 5), st.integers(0, 1 << 63))

    def value(name: str, kind: str) -> st.SearchStrategy[object]:
        if "tenant" in name:
            return tenants
        if name in ("kind",):
            return st.sampled_from(["runqueue", "lock", "process", "network", "oom_kill", "xid"])
        if name == "operation":
            return st.sampled_from(["host gap", "host work", "cudaLaunchKernel"])
        if name == "layer":
            return st.sampled_from(["host", "runtime"])
        if "pid" in name:
            return st.integers(0, 4)
        if name == "link":
            return st.integers(-1, 3)
        if name == "allowed":
            return st.sampled_from(["", "0", "0-1", "1,3", "x-", "0-99999"])
        if "float" in kind:
            return st.one_of(st.none(), st.floats(0, 64)) if "None" in kind else st.floats(0, 1e9)
        if "bool" in kind:
            return st.booleans()
        if "int" in kind:
            return st.one_of(st.none(), numbers) if "None" in kind else numbers
        return st.sampled_from(["", "a", "worker"])

    def records(kind: type) -> st.SearchStrategy[tuple[object, ...]]:
        if hasattr(kind, "_fields"):
            types = {name: str(kind.__annotations__[name]) for name in kind._fields}
        else:
            types = {one.name: str(one.type) for one in fields(kind)}
        one = st.builds(kind, **{name: value(name, text) for name, text in types.items()})
        return st.lists(one, max_size=4).map(tuple)

    return st.builds(Evidence, **{name: records(kind) for name, kind in RECORDS.items()})


@FEW
@given(st.lists(st.tuples(windows(split=True), evidence()), min_size=1, max_size=4))
def test_the_diagnosis_survives_any_window(seen: list[tuple[Window, Evidence]]) -> None:
    diagnosis = Diagnosis(own_pid=2)
    for number, (look, found) in enumerate(seen):
        given_ = replace(look, start=1000.0 + number, evidence=found)
        chains = diagnosis.add(given_).chains
        assert explain(given_) == explain(given_)
        for chain in chains:
            assert chain.cause in CAUSES
            assert 0 <= chain.confidence <= 1
            assert chain.lost_ms_per_s >= 0
            for link in chain.links:
                assert link.share is None or 0 <= link.share <= 1 + 1e-9, (chain.cause, link)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_opens_its_chain_within_two_windows(name: str) -> None:
    diagnosis = Diagnosis()
    for tick in range(5):
        diagnosis.add(healthy(tick))
    for tick in range(5, 7):
        look = diagnosis.add(replace(FAULTS[name][0](), start=float(tick)))
    first = next(chain for chain in look.chains if chain.severity != "info")
    assert first.cause == name.split()[0]


def test_an_event_is_seen_only_in_the_seconds_after_it() -> None:
    """Merging the last seconds must not show the event again and again."""
    diagnosis = Diagnosis()
    kill = Event(0.5, "oom_kill", TRAIN, 150, "preprocess", "killed")
    diagnosis.add(window([row()], start=0.0, evidence=Evidence(events=(kill,))))
    looks = ticks(diagnosis, 5, first=1)
    assert looks[-1].chains[0].seen <= 3.0


def test_no_rule_is_listed_twice() -> None:
    assert len(set(RULES)) == len(RULES)


def test_the_cpus_of_a_tenant_are_those_of_its_busiest_second() -> None:
    used: tuple[list[int], ...] = ([], [0], [1_500_000_000], [500_000_000])
    parts = [window(tenants=[TenantUse(BATCH, cpu_ns=ns) for ns in one]) for one in used]
    whole = window(seconds=4.0, tenants=[TenantUse(BATCH, cpu_ns=2_000_000_000)])
    assert Facts(whole, parts=parts).used_cpus(BATCH) == 1.5
    assert Facts(whole).used_cpus(BATCH) == 0.5
    assert Facts(whole, parts=parts).used_cpus(SERVE) == 0.0
