"""Host causes: hand-built windows of each fault, and of healthy programs that look like one."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest

from diagnosis.engine import Diagnosis, explain
from diagnosis.facts import Facts
from diagnosis.host import commands
from diagnosis.normals import KNOWN_WINDOWS, Normals
from model.chain import Chain, Fix
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
USER = "/user.slice/user-1000.slice/user@1000.service/app.slice"
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


def loader_disk_at_the_memory_limit() -> Window:
    """Page cache fills the limit, and a neighbour loads the disk: lifting the limit would not help."""
    use = TenantUse(
        TRAIN,
        reclaims=400,
        refaults=40 * 32,
        memory_used_bytes=64 * MIB,
        memory_limit_bytes=64 * MIB,
    )
    return plus(loader_disk(), window(tenants=[use]))


def loader_disk_of_more_than_its_limit() -> Window:
    """It reads once what does not fit: dropping that costs next to nothing, and it is not read again."""
    use = TenantUse(
        TRAIN,
        reclaims=40,
        reclaim_ns=5 * MS,
        refaults=40,
        memory_used_bytes=64 * MIB,
        memory_limit_bytes=64 * MIB,
    )
    alone = plus(
        plus(worker_gap(600), work(disk=800, running=100, runqueue=10)),
        window(evidence=Evidence(block_io=(io(TRAIN, 101, "worker", 800),))),
    )
    return plus(alone, window(tenants=[use]))


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
                refaults=2_000 * 32,
                memory_used_bytes=63 * MIB,
                memory_limit_bytes=64 * MIB,
                memory_cgroup="/docker/train",
            )
        ],
    )


def reclaim_that_takes_time() -> Window:
    """Where refaults are not counted, the time that reclaim takes tells."""
    use = TenantUse(
        TRAIN,
        reclaims=400,
        reclaim_ns=400 * MS,
        memory_used_bytes=63 * MIB,
        memory_limit_bytes=64 * MIB,
    )
    return window([LAUNCHES, row(HOST_GAP, 40, running=390, disk=600)], tenants=[use])


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
        tenants=[
            TenantUse(
                TRAIN,
                limit_hits=4,
                limit_kills=1,
                memory_limit_bytes=96 * MIB,
                memory_used_bytes=40 * MIB,
                memory_cgroup="/docker/train",
                memory_version=2,
            )
        ],
    )


def oom_kill_without_an_event() -> Window:
    return replace_evidence(oom_kill(), events=(), oom_kills=1)


def replace_evidence(one: Window, *, events: tuple[Event, ...], **use: Any) -> Window:
    """``one`` with other events, and with changes to what its tenants use."""
    tenants = tuple(replace(known, **use) for known in one.evidence.tenants)
    return replace(one, evidence=replace(one.evidence, events=events, tenants=tenants))


def waiting(seconds: float, longest_ms: float | None, operation: str = "cuStreamSynchronize") -> Window:
    """A wait for the device that is open for so long, and the longest that came back."""
    call = OpenCall(TRAIN, 100, 104, "train.py", "driver", operation, round(seconds * 1e9))
    before = [] if longest_ms is None else [row("cuStreamSynchronize", 1, gpu=longest_ms)]
    return window([LAUNCHES, *before], open_calls=[call])


def hung_call() -> Window:
    return waiting(42, 20)


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
    "reclaim that takes time": (reclaim_that_takes_time, TRAIN, 100),
    "oom_kill": (oom_kill, TRAIN, 150),
    "oom_kill without an event": (oom_kill_without_an_event, TRAIN, 0),
    "loader_disk at the memory limit": (loader_disk_at_the_memory_limit, BATCH, 900),
    "loader_disk that reads more than its limit": (loader_disk_of_more_than_its_limit, TRAIN, 101),
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
        ("loader_disk", "ionice -c3 -p $(ls /proc/900/task)"),
        # It reads 52.4 MB a second from vda.
        (
            "loader_disk",
            "podman update --device-read-bps /dev/vda:26214400 cdcdcdcdcdcd",
        ),
        ("tcp_retransmits", "nsenter -t 100 -n ss -tinp state established"),
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
            Tenant("user:train", "train", "unit", "user", cgroup_path=f"{USER}/train.service"),
            "systemctl --user -M 1000@ set-property --runtime train.service CPUQuota=50%",
            "systemctl --user -M 1000@ set-property --runtime train.service MemoryMax=64M",
        ),
        # The engine of the system does not know a user's containers.
        (Tenant("podman:ab", "x", "container", "podman", "ab", cgroup_path=f"{USER}/libpod-ab"), "", ""),
        # A kubelet would undo it.
        (Tenant("cri:aa", "serve", "pod", "containerd", "aa", "llm-0", "prod", 8, "/kubepods/aa"), "", ""),
        # Which files a cgroup has is known only where they were read.
        (Tenant("cgroup:9", "odd", cgroup_id=9, cgroup_path="/odd"), "", ""),
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
    ("version", "cpus", "memory"),
    [
        (
            1,
            "echo 100000 > {cpu}/cpu.cfs_period_us && echo 50000 > {cpu}/cpu.cfs_quota_us",
            "echo 64M > {memory}/memory.limit_in_bytes",
        ),
        (2, "echo '50000 100000' > {cpu}/cpu.max", "echo 64M > {memory}/memory.max"),
        (0, "", ""),
    ],
)
def test_files_of_a_cgroup_are_those_of_its_version(version: int, cpus: str, memory: str) -> None:
    path = "/odd 'one"
    tenant = Tenant("cgroup:7", "odd 'one", cgroup_id=7, cgroup_path=path)
    use = TenantUse(
        tenant.id,
        cpu_folder=f"/sys/fs/cgroup/cpu{path}",
        cpu_version=version,
        memory_folder=f"/sys/fs/cgroup/memory{path}",
        memory_version=version,
    )
    about = Facts(replace(window(tenants=[use]), tenants={tenant.id: tenant}))
    folders = {"cpu": shlex.quote(use.cpu_folder), "memory": shlex.quote(use.memory_folder)}
    assert commands.limit_cpus(about, tenant.id, 0.5) == cpus.format(**folders)
    assert commands.limit_memory(about, tenant.id, 64 * MIB) == memory.format(**folders)
    # The folder of a limit that is another cgroup's is that cgroup's.
    above = replace(use, quota_cgroup="/", memory_cgroup="/")
    about = Facts(replace(window(tenants=[above]), tenants={tenant.id: tenant}))
    assert commands.limit_cpus(about, tenant.id, 0.5) == ""
    assert commands.limit_memory(about, tenant.id, 64 * MIB) == ""


def fixes_of(one: Window) -> list[Fix]:
    return list(faults(explain(one))[0].fixes)


def used_by(tenant: str, **use: Any) -> Window:
    return window(tenants=[TenantUse(tenant, **use)], cpus=(100, 100, 100, 100))


@pytest.mark.parametrize(("used", "quota"), [(0.1, False), (0.9, False), (1.1, True), (2.0, True)], ids=str)
def test_a_neighbour_that_uses_little_is_given_no_quota(used: float, quota: bool) -> None:
    low = replace_evidence(cpu_contention(), events=(), cpu_ns=round(used * 1e9))
    assert any("--cpus" in fix.command for fix in fixes_of(low)) is quota
    assert fixes_of(low)[0].command.startswith("taskset")


def test_a_quota_is_raised_to_no_more_than_the_host_has() -> None:
    # Time in which threads were stopped is summed up over all CPUs.
    fix, *_ = fixes_of(replace_evidence(cfs_throttling(), events=(), throttled_ns=30_000 * MS))
    assert fix.command == "docker update --cpus 4.00 abababababab"
    assert "that the host has" in fix.text


def test_a_memory_limit_is_raised_to_no_more_than_the_host_has() -> None:
    def raised(limit_bytes: int) -> Fix:
        return fixes_of(replace_evidence(oom_kill(), events=(), oom_kills=1, memory_limit_bytes=limit_bytes))[
            0
        ]

    assert raised(48 << 30).command == "docker update --memory 65536m --memory-swap 65536m abababababab"
    assert "that the host has" in raised(48 << 30).text
    assert raised(64 << 30).command == ""
    assert "(memory.max of cgroup /docker/train)" in raised(1 << 30).text


@pytest.mark.parametrize(("quota", "threads"), [(None, 4), (2.0, 2), (0.5, 1), (9.0, 4)])
def test_own_threads_are_held_against_the_quota_as_well(quota: float | None, threads: int) -> None:
    fix, *_ = fixes_of(plus(own_threads(), used_by(TRAIN, cpu_quota=quota)))
    assert f"OMP_NUM_THREADS={threads} " in fix.text
    # It is the environment of the next start: nothing to type.
    assert fix.command == ""


@pytest.mark.parametrize(
    ("cpuset", "command"),
    [
        ("", "taskset -acp 2-3 900"),
        ("0-3", "taskset -acp 2-3 900"),
        ("1-2", "taskset -acp 2 900"),
        ("0-1", "renice -n 19 -p $(ls /proc/900/task)"),
    ],
)
def test_a_culprit_is_moved_within_the_cpus_of_its_cgroup(cpuset: str, command: str) -> None:
    fix, *_ = fixes_of(replace_evidence(cpu_contention(), events=(), cpuset=cpuset))
    assert fix.command == command


@pytest.mark.parametrize(
    ("cpuset", "expected"),
    [
        ("", ["taskset -acp 0-3 100", "docker update --cpuset-cpus 0-3 abababababab"]),
        ("0-3", ["taskset -acp 0-3 100"]),
        ("1-2", ["taskset -acp 1-2 100", "docker update --cpuset-cpus 0-3 abababababab"]),
        ("2", ["docker update --cpuset-cpus 0-3 abababababab"]),
    ],
)
def test_pinning_tells_a_cpu_set_from_an_affinity(cpuset: str, expected: list[str]) -> None:
    fixes = fixes_of(
        plus(cpu_pinning(), window(tenants=[TenantUse(TRAIN, cpuset=cpuset)], cpus=(5, 8, 100, 12)))
    )
    assert [fix.command for fix in fixes] == expected


@pytest.mark.parametrize(
    ("use", "said", "raises"),
    [
        ({}, "trainer reached its memory limit of 96 MiB", True),
        ({"limit_kills": 0}, "trainer reached its memory limit of 96 MiB", True),
        ({"limit_kills": 0, "limit_hits": 0}, "met no limit of its own", False),
        ({"limit_kills": 0, "limit_hits": 0, "memory_limit_bytes": None}, "has no memory limit", False),
        (
            {"limit_kills": 0, "limit_hits": 0, "memory_limit_bytes": None, "memory_used_bytes": None},
            "memory ran out",
            False,
        ),
    ],
    ids=["limit killed", "limit met", "limit not met", "no limit", "nothing known"],
)
def test_a_kill_is_blamed_on_a_limit_only_where_it_was_met(
    use: dict[str, Any], said: str, raises: bool
) -> None:
    made = oom_kill()
    (chain,) = faults(explain(replace_evidence(made, events=made.evidence.events, **use)))
    assert said in chain.culprits[0].text
    assert any("--memory" in fix.command for fix in chain.fixes) is raises
    assert bool(chain.unknown) is not ("limit_kills" not in use)


def test_a_host_without_memory_names_who_uses_most() -> None:
    made = replace_evidence(
        oom_kill(), events=oom_kill().evidence.events, limit_kills=0, limit_hits=0, memory_limit_bytes=None
    )
    others = window(tenants=[TenantUse(BATCH, memory_used_bytes=40 << 30)])
    (chain,) = faults(explain(plus(made, others)))
    assert [link.text for link in chain.links if link.role == "factor"] == [
        "batch-job uses 40,960 MiB of the host's memory",
        "trainer uses 40 MiB of the host's memory",
    ]
    assert "batch-job" in chain.fixes[0].text


@pytest.mark.parametrize(
    ("seconds", "longest_ms", "told"),
    [
        pytest.param(11, 20, True, id="as never before"),
        pytest.param(9, 20, False, id="not for long"),
        pytest.param(11, 11_000, False, id="a long step"),
        pytest.param(120, 11_000, True, id="much longer than a long step"),
        pytest.param(30, None, False, id="the first one"),
        pytest.param(61, None, True, id="the first one, that nothing explains"),
    ],
)
def test_a_call_hangs_where_such_calls_took_far_less(
    seconds: float, longest_ms: float | None, told: bool
) -> None:
    chains = faults(explain(waiting(seconds, longest_ms)))
    assert [chain.cause for chain in chains] == ["hung_call"] * told


def test_calls_of_the_same_family_tell_of_one_that_never_came_back() -> None:
    (chain,) = faults(explain(waiting(12, 20, operation="cuCtxSynchronize")))
    assert chain.cause == "hung_call"


def test_long_steps_are_remembered() -> None:
    """A step of 12 s: nothing of it is in the windows in which it is open."""
    diagnosis = Diagnosis()
    look = diagnosis.add(waiting(0.5, 12_000))
    for second in range(1, 14):
        look = diagnosis.add(replace(waiting(second, None), start=1_000.0 + second))
        assert not faults(look.chains)
    # A process of the same program that started later has the normals, and nothing else.
    normals = Normals()
    for _ in range(KNOWN_WINDOWS):
        normals.learn(Facts(waiting(0.5, 12_000)))
    assert not faults(explain(waiting(100, None), normals=normals))
    assert faults(explain(waiting(121, None), normals=normals))


def test_a_device_of_the_tenant_is_told_as_a_guess() -> None:
    """The process itself reads from a file system that has no block device."""
    one = plus(
        plus(worker_gap(600), work(disk=800, running=100, runqueue=10)),
        window(evidence=Evidence(block_io=(io(TRAIN, 150, "logger", 100),))),
    )
    (chain,) = faults(explain(one))
    assert chain.confidence < 0.5
    assert any("network file system" in line for line in chain.unknown)
    assert next(link for link in chain.links if link.device == "vda").share is None


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
