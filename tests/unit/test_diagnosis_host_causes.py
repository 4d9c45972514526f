"""Host causes: hand-built windows of each fault, and of healthy programs that look like one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnosis.engine import Diagnosis, explain
from diagnosis.facts import Facts
from diagnosis.host import commands, processors
from diagnosis.normals import KNOWN_WINDOWS, Normals
from model.chain import Chain
from model.evidence import HOST_GAP, HOST_WORK, BlockIo, Event, Evidence, ProcessUse, TenantUse
from model.tenant import Tenant
from model.window import OpenCall, Window
from tests.unit.evidence_windows import (
    BATCH,
    SERVE,
    SYSTEM,
    TRAIN,
    Spent,
    charge,
    healthy_trainer,
    row,
    rows_of,
    window,
)

MS = 1_000_000
MIB = 1 << 20
LAUNCHES = row("cudaLaunchKernel", 1000, running=10)


def io(
    tenant: str, pid: int, process: str, service_ms: float, *, queued_ms: float = 1, requests: int = 40
) -> BlockIo:
    return BlockIo(
        *(tenant, pid, process, "vda", False, requests, requests * 131_072),
        *(round(queued_ms * MS), round(service_ms * MS), round(service_ms * MS)),
    )


def worker_gap(ms: float, *, part: str = "process", worker: int = 101) -> Window:
    """A trainer whose gaps wait ``ms`` of a second for a worker; the worker's own time is to be added."""
    return window(
        [LAUNCHES, row(HOST_GAP, 40, {"running": 990 - ms, part: ms})],
        charges=[charge(part, ms, worker, culprit_tenant=TRAIN, culprit_process="worker")],
        processes=[
            ProcessUse(TRAIN, 100, "train.py", link=0, threads=4),
            ProcessUse(TRAIN, worker, "worker", link=1, threads=1, parent_pid=100),
        ],
    )


def work(**split_ms: float) -> Window:
    """What the worker did in a window of ``worker_gap``."""
    return window([row(HOST_WORK, 40, split_ms, pid=101, program="worker")])


def plus(one: Window, other: Window) -> Window:
    """Two windows of the same second as one."""
    from model.evidence import added
    from model.merging import merge_rows

    return replace(
        one,
        rows=merge_rows([one.rows, other.rows]),
        evidence=added([one.evidence, other.evidence]),
        open_calls=one.open_calls + other.open_calls,
    )


def cpu_contention() -> Window:
    return window(
        [
            row("cudaLaunchKernel", 1000, running=10, runqueue=100),
            row(HOST_GAP, 40, running=490, runqueue=400),
        ],
        charges=[
            charge("runqueue", 350, 900),
            charge("runqueue", 30, 950, culprit_tenant=SYSTEM, culprit_process="cron"),
            # Small ones, told together.
            charge("runqueue", 20, 0, culprit_tenant=BATCH, culprit_process="others"),
            charge("runqueue", 90, 901, operation="cudaLaunchKernel"),
        ],
        tenants=[TenantUse(BATCH, cpu_ns=1_900 * MS)],
        cpus=(100, 100, 100, 100),
    )


def own_threads() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=590, runqueue=400)],
        charges=[charge("runqueue", 390, 100, culprit_tenant=TRAIN, culprit_process="train.py")],
        processes=[ProcessUse(TRAIN, 100, "train.py", link=0, threads=32, allowed_cpus=4, allowed="0-3")],
        cpus=(100, 100, 100, 100),
    )


def cfs_throttling() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=290, runqueue=700)],
        # Others ran on its CPUs while it was stopped: they took nothing.
        charges=[charge("runqueue", 60, 900)],
        tenants=[
            TenantUse(
                *(TRAIN, 300 * MS, 10, 9, 690 * MS),
                cpu_quota=0.3,
                quota_cgroup="/docker/train",
            )
        ],
    )


def cpu_pinning() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=490, runqueue=500)],
        charges=[charge("runqueue", 480, 102, culprit_tenant=TRAIN, culprit_process="train.py")],
        processes=[ProcessUse(TRAIN, 100, "train.py", link=0, threads=2, allowed_cpus=1, allowed="2")],
        cpus=(5, 8, 100, 12),
    )


def loader_disk() -> Window:
    return plus(
        plus(worker_gap(600), work(disk=800, running=100, runqueue=10)),
        window(
            evidence=Evidence(
                block_io=(io(TRAIN, 101, "worker", 800), io(BATCH, 900, "backup", 9_000, requests=400))
            )
        ),
    )


def loader_disk_limited() -> Window:
    return plus(
        plus(worker_gap(600), work(disk=900, running=100)),
        window(
            evidence=Evidence(
                block_io=(
                    io(TRAIN, 101, "worker", 40, queued_ms=860),
                    # A neighbour that the device serves in passing makes nobody wait.
                    io(BATCH, 900, "logger", 60),
                )
            )
        ),
    )


def loader_disk_behind_own_thread() -> Window:
    """The thread that calls waits for one that pins memory, that one for a worker, and it for the disk."""
    return plus(
        plus(
            worker_gap(600, part="lock", worker=100),
            window(
                [row(HOST_WORK, 40, running=60, process=900)],
                charges=[
                    charge(
                        *("process", 890, 101),
                        operation=HOST_WORK,
                        culprit_tenant=TRAIN,
                        culprit_process="worker",
                    )
                ],
            ),
        ),
        plus(
            work(disk=800, running=100),
            window(evidence=Evidence(block_io=(io(TRAIN, 101, "worker", 800),))),
        ),
    )


def loader_cpu() -> Window:
    return plus(worker_gap(600), work(running=900, disk=10, runqueue=20))


def loader_lock() -> Window:
    return plus(
        worker_gap(600),
        plus(
            work(lock=850, running=100),
            window(
                charges=[
                    charge(
                        *("lock", 840, 130),
                        operation=HOST_WORK,
                        pid=101,
                        process="worker",
                        culprit_tenant=TRAIN,
                        culprit_process="indexer",
                    )
                ]
            ),
        ),
    )


def starved_by_hog() -> Window:
    """Workers that get no CPU: what takes it is the root, not the workers."""
    return plus(
        worker_gap(600),
        plus(
            work(runqueue=800, running=150),
            window(charges=[charge("runqueue", 780, 900, operation=HOST_WORK, pid=101, process="worker")]),
        ),
    )


def slow_disk() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=390, disk=600)],
        evidence=Evidence(
            block_io=(io(TRAIN, 100, "train.py", 590), io(BATCH, 900, "backup", 9_000, requests=400))
        ),
    )


def reclaim() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=390, disk=600)],
        evidence=Evidence(block_io=(io(TRAIN, 100, "train.py", 590, requests=2_000),)),
        tenants=[
            TenantUse(
                TRAIN,
                reclaims=400,
                reclaim_ns=100 * MS,
                memory_used_bytes=63 * MIB,
                memory_limit_bytes=64 * MIB,
                memory_cgroup="/docker/train",
            )
        ],
    )


def major_faults() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=390, memory=600)],
        processes=[ProcessUse(TRAIN, 100, "train.py", major_faults=2_000, link=0)],
        evidence=Evidence(block_io=(io(TRAIN, 100, "train.py", 590, requests=2_000),)),
    )


def lock_contention() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=390, lock=600), row(HOST_WORK, 40, pid=140, sleep=950)],
        charges=[charge("lock", 590, 140, culprit_tenant=SERVE, culprit_process="checkpointer")],
    )


def tcp_retransmits() -> Window:
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=390, network=600)],
        processes=[ProcessUse(TRAIN, 100, "train.py", retransmits_v4=50, link=0)],
        # The peer's answers end the waits: it is not to blame for what the link loses.
        charges=[charge("network", 500, 400, culprit_tenant=SERVE, culprit_process="server")],
    )


def oom_kill() -> Window:
    event = Event(1_000.5, "oom_kill", TRAIN, 150, "preprocess", "killed")
    return window(
        [LAUNCHES],
        evidence=Evidence(events=(event,)),
        tenants=[TenantUse(TRAIN, memory_limit_bytes=96 * MIB, memory_used_bytes=40 * MIB)],
    )


def hung_call() -> Window:
    call = OpenCall(TRAIN, 100, 104, "train.py", "driver", "cuStreamSynchronize", 42_000 * MS)
    return window([LAUNCHES], open_calls=[call])


def tracer() -> Window:
    calls = [row("cudaGraphLaunch", 40_000, running=200), row(HOST_GAP, 40_000, running=790)]
    return window(calls, cost_percent=22.0)


FAULTS = {
    # cause: (window, culprit's tenant, culprit's process id)
    "cpu_contention": (cpu_contention, BATCH, 900),
    "own_threads": (own_threads, TRAIN, 100),
    "cfs_throttling": (cfs_throttling, TRAIN, 0),
    "cpu_pinning": (cpu_pinning, TRAIN, 102),
    "loader_disk": (loader_disk, BATCH, 900),
    "loader_disk limited": (loader_disk_limited, TRAIN, 101),
    "loader_disk behind a thread": (loader_disk_behind_own_thread, TRAIN, 101),
    "loader_cpu": (loader_cpu, TRAIN, 101),
    "loader_lock": (loader_lock, TRAIN, 130),
    "cpu_contention of workers": (starved_by_hog, BATCH, 900),
    "slow_disk": (slow_disk, BATCH, 900),
    "reclaim": (reclaim, TRAIN, 100),
    "major_faults": (major_faults, TRAIN, 100),
    "lock_contention": (lock_contention, SERVE, 140),
    "tcp_retransmits": (tcp_retransmits, TRAIN, 100),
    "oom_kill": (oom_kill, TRAIN, 150),
    "tracer": (tracer, "", 0),
}


def faults(chains: tuple[Chain, ...]) -> list[Chain]:
    return [chain for chain in chains if chain.severity != "info"]


@pytest.mark.parametrize("name", FAULTS)
def test_the_first_chain_names_cause_and_culprit(name: str) -> None:
    made, tenant, pid = FAULTS[name]
    first = faults(explain(made()))[0]
    assert first.cause == name.split()[0]
    assert first.tenant == TRAIN
    culprit = first.culprits[0]
    assert (culprit.tenant, culprit.pid) == (tenant, pid)
    assert first.fixes
    assert first.links[0].role == "effect"
    assert first.links[0].depth == 0


@pytest.mark.parametrize("name", FAULTS)
def test_no_fault_is_told_twice(name: str) -> None:
    told = faults(explain(FAULTS[name][0]()))
    assert [chain.cause for chain in told if chain.severity not in ("low", "info")] == [name.split()[0]]


def with_contention(share: float, longest_ms: float) -> Window:
    """Calls that take 1 ms each, and six of them longer: what p99 shows of 500."""
    calls = row("cudaGraphLaunch", 500, running=500, runqueue=1000 * share, longest_ms=longest_ms)
    others = row(HOST_GAP, 500, running=500 - 1000 * share)
    charged = charge("runqueue", 1000 * share, 900, operation="cudaGraphLaunch")
    return replace(
        window([calls, others], charges=[charged]),
        rows=rows_of([calls._replace(slow_calls=6), others]),
    )


@pytest.mark.parametrize(
    ("share", "longest_ms", "known", "severities"),
    [
        pytest.param(0.12, 1.1, False, ["medium"], id="much"),
        pytest.param(0.04, 30.0, False, [], id="little, and nothing is known"),
        pytest.param(0.04, 30.0, True, ["low"], id="little, and slow"),
        pytest.param(0.04, 1.1, True, [], id="little, and no slower"),
        pytest.param(0.01, 30.0, True, [], id="next to nothing"),
    ],
)
def test_a_small_loss_is_told_where_it_makes_calls_slow(
    share: float, longest_ms: float, known: bool, severities: list[str]
) -> None:
    normals = Normals()
    for _ in range(KNOWN_WINDOWS if known else 0):
        normals.learn(Facts(with_contention(0.001, 1.0)))
    chains = faults(explain(with_contention(share, longest_ms), normals=normals))
    assert [chain.severity for chain in chains if chain.cause == "cpu_contention"] == severities


def test_a_cpu_that_nobody_is_charged_with_is_told_without_a_culprit() -> None:
    (chain,) = faults(explain(window([LAUNCHES, row(HOST_GAP, 40, running=590, runqueue=400)])))
    assert (chain.cause, chain.culprits, chain.confidence) == ("cpu_contention", (), 0.0)
    assert any("who had the CPU" in line for line in chain.unknown)


def test_the_tracer_itself_is_named() -> None:
    taken = charge("runqueue", 390, 77, culprit_tenant=SYSTEM, culprit_process="stalltop")
    diagnosis = Diagnosis(own_pid=77)
    for second in range(3):
        look = window([LAUNCHES, row(HOST_GAP, 40, running=590, runqueue=400)], charges=[taken], start=second)
        (chain, *_) = diagnosis.add(look).chains or [None]
    assert chain is not None
    assert chain.cause == "tracer"


def test_a_hung_call_is_told_without_a_culprit() -> None:
    (chain,) = faults(explain(hung_call()))
    assert (chain.cause, chain.severity, chain.operation) == ("hung_call", "high", "cuStreamSynchronize")
    assert not chain.culprits
    assert "/proc/100/task/104" in chain.fixes[0].command


@pytest.mark.parametrize(
    ("name", "command"),
    [
        # The trainer may run anywhere: the culprit gets the upper half of the CPUs.
        ("cpu_contention", "taskset -acp 2-3 900"),
        ("cpu_contention", "podman update --cpus 0.95 cdcdcdcdcdcd"),
        # It used 0.3 CPUs and was stopped for 690 ms of a second.
        ("cfs_throttling", "docker update --cpus 0.99 abababababab"),
        ("cpu_pinning", "taskset -acp 0-3 100"),
        ("loader_disk", "ionice -c3 -p 900"),
        ("reclaim", "docker update --memory 128m --memory-swap 128m abababababab"),
        ("oom_kill", "docker update --memory 192m --memory-swap 192m abababababab"),
    ],
)
def test_fixes_name_what_they_are_about(name: str, command: str) -> None:
    chain = faults(explain(FAULTS[name][0]()))[0]
    assert command in [fix.command for fix in chain.fixes]


@pytest.mark.parametrize(
    ("tenant", "cpus", "memory"),
    [
        (
            Tenant("unit:cron", "cron", "unit", "systemd", cgroup_path="/system.slice/cron.service"),
            "systemctl set-property --runtime cron.service CPUQuota=50%",
            "systemctl set-property --runtime cron.service MemoryMax=64M",
        ),
        (
            Tenant("cgroup:7", "odd 'one", cgroup_id=7, cgroup_path="/odd 'one"),
            """echo '50000 100000' > '/sys/fs/cgroup/odd '"'"'one'/cpu.max""",
            """echo 64M > '/sys/fs/cgroup/odd '"'"'one'/memory.max""",
        ),
        # A kubelet would undo it; and of a tree of cgroup v1 the files are elsewhere.
        (Tenant("cri:aa", "serve", "pod", "containerd", "aa", "llm-0", "prod", 8, "/kubepods/aa"), "", ""),
        (Tenant("cgroup:/odd", "odd", cgroup_path="/odd"), "", ""),
        (None, "", ""),
    ],
)
def test_commands_are_for_what_runs_the_tenant(tenant: Tenant | None, cpus: str, memory: str) -> None:
    about = Facts(replace(window(), tenants={tenant.id: tenant} if tenant else {}))
    identity = tenant.id if tenant else "gone"
    assert commands.limit_cpus(about, identity, 0.5) == cpus
    assert commands.limit_memory(about, identity, 64 * MIB) == memory
    # The limit of a cgroup above is not the tenant's to lift.
    assert commands.limit_cpus(about, identity, 0.5, now_by="/kubepods") == ""
    assert commands.limit_memory(about, identity, 64 * MIB, now_by="/kubepods") == ""


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8", {0, 1, 2, 3, 8}),
        ("5", {5}),
        ("", set()),
        ("nonsense", set()),
        ("3-", set()),
        ("3-1", set()),
    ],
)
def test_lists_of_cpus_are_read(text: str, cpus: set[int]) -> None:
    assert processors.cpus_of(text) == cpus
    if cpus:
        assert processors.list_of(frozenset(cpus)) == text


def steps(**gap_ms: float) -> Window:
    return window([*healthy_trainer()[:2], row(HOST_GAP, 40, gap_ms, running=990 - sum(gap_ms.values()))])


def idle_server() -> Window:
    """Waits for requests: a client in the same pod wakes it, which has little to do itself."""

    def served(operation: str, **split_ms: float) -> Spent:
        return row(operation, 50, tenant=SERVE, pid=200, program="serve.py", spent_ms=split_ms)

    return window(
        [
            served("cudaLaunchKernel", running=1),
            served(HOST_GAP, running=50, network=600, lock=300),
            row(HOST_WORK, 50, tenant=SERVE, pid=201, program="frontend", running=100, network=850),
        ],
        charges=[
            charge(
                *("network", 600, 201),
                tenant=SERVE,
                pid=200,
                process="serve.py",
                culprit_tenant=SERVE,
                culprit_process="frontend",
            ),
            charge(
                *("lock", 300, 200),
                tenant=SERVE,
                pid=200,
                process="serve.py",
                culprit_tenant=SERVE,
                culprit_process="serve.py",
            ),
        ],
    )


def workers_wait_for_the_trainer() -> Window:
    """Queues are full: workers wait for the caller, and it hardly ever for them."""
    return plus(
        worker_gap(60),
        plus(
            work(process=850, running=100),
            window(
                charges=[
                    charge(
                        *("process", 850, 100),
                        operation=HOST_WORK,
                        pid=101,
                        process="worker",
                        culprit_tenant=TRAIN,
                        culprit_process="train.py",
                    )
                ]
            ),
        ),
    )


def waits_for_an_idle_worker() -> Window:
    """A worker that itself waits for somebody outside has nothing to be blamed for."""
    return plus(worker_gap(700), work(network=900, running=50))


def autograd_thread() -> Window:
    """Two threads that call take turns: each waits in a futex for the other."""
    return window(
        [LAUNCHES, row(HOST_GAP, 40, running=900, lock=900)],
        charges=[charge("lock", 890, 100, culprit_tenant=TRAIN, culprit_process="train.py")],
        processes=[ProcessUse(TRAIN, 100, "train.py", link=0, threads=8)],
    )


def blocking_sync() -> Window:
    """The driver's own thread says that the device is done."""
    return window(
        [row("cudaStreamSynchronize", 20, lock=900), row(HOST_GAP, 20, running=90)],
        charges=[
            charge(
                *("lock", 890, 100),
                operation="cudaStreamSynchronize",
                culprit_tenant=TRAIN,
                culprit_process="train.py",
            )
        ],
    )


def busy_neighbour_elsewhere() -> Window:
    """Another tenant takes much CPU, and nothing of the trainer's."""
    return plus(steps(runqueue=8), window(tenants=[TenantUse(BATCH, cpu_ns=2_000 * MS)]))


def fast_disk() -> Window:
    return plus(
        steps(disk=120),
        window(evidence=Evidence(block_io=(io(TRAIN, 100, "train.py", 110, requests=400),))),
    )


def quota_not_reached() -> Window:
    return plus(
        steps(runqueue=20),
        window(tenants=[TenantUse(TRAIN, 500 * MS, 10, 0, 0, cpu_quota=2.0, quota_cgroup="/docker/train")]),
    )


def full_cache() -> Window:
    """Page cache fills any limit: that alone costs nothing."""
    return plus(
        steps(),
        window(
            tenants=[TenantUse(TRAIN, reclaims=5, memory_used_bytes=64 * MIB, memory_limit_bytes=64 * MIB)]
        ),
    )


def few_retransmits() -> Window:
    return plus(
        steps(network=300),
        window(processes=[ProcessUse(TRAIN, 100, "train.py", retransmits_v4=1, link=0)]),
    )


def wide_cpu_set() -> Window:
    """Pinned, with room on its own CPUs."""
    return plus(
        steps(runqueue=10),
        window(
            processes=[ProcessUse(TRAIN, 100, "train.py", link=0, allowed_cpus=2, allowed="0-1")],
        ),
    )


def sleeping_loop() -> Window:
    return steps(sleep=700)


HEALTHY = (
    *(idle_server, workers_wait_for_the_trainer, waits_for_an_idle_worker, autograd_thread, blocking_sync),
    *(busy_neighbour_elsewhere, fast_disk, quota_not_reached, full_cache, few_retransmits, wide_cpu_set),
    sleeping_loop,
)


@pytest.mark.parametrize("made", HEALTHY, ids=lambda made: made.__name__)
def test_healthy_programs_are_left_alone(made) -> None:  # type: ignore[no-untyped-def]
    assert faults(explain(made())) == []


def test_a_healthy_trainer_is_left_alone() -> None:
    assert faults(explain(window(healthy_trainer()))) == []
