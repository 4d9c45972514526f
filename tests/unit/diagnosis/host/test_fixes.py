"""Tests fixes for host causes: commands fit the tenant's runtime, and their figures are sensible."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import Any

import pytest

from stalltop.diagnosis.causes import TELLINGS
from stalltop.diagnosis.engine import explain
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.wording import commands
from stalltop.formats.text.answer import sentence_of
from stalltop.model.chain import Fix
from stalltop.model.evidence import TenantUse
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from tests.unit.diagnosis.faults import (
    FAULTS,
    MIB,
    MS,
    cfs_throttling,
    cpu_contention,
    cpu_pinning,
    faults,
    oom_kill,
    own_threads,
    plus,
    replace_evidence,
)
from tests.windows.evidence import (
    TRAIN,
    charge,
    window,
)

USER = "/user.slice/user-1000.slice/user@1000.service/app.slice"


@pytest.mark.parametrize(
    ("name", "command"),
    [
        # The trainer may run anywhere, so its two culprits share the upper half of the CPUs.
        ("cpu_contention", "taskset -acp 2 900"),
        ("cpu_contention", "taskset -acp 3 901"),
        ("cpu_contention", "podman update --cpus 0.95 batch-job"),
        # The trainer used 0.3 CPUs and was throttled for 690 ms of a second, so it needs 0.99 CPUs.
        ("cfs_throttling", "docker update --cpus 0.99 trainer"),
        ("cpu_pinning", "taskset -acp 0-3 100"),
        ("loader_disk", "ionice -c3 -p $(ls /proc/900/task)"),
        # The culprit reads 52.4 MB a second from vda; the fix allows half of that.
        (
            "loader_disk",
            "podman update --device-read-bps /dev/vda:25mb batch-job",
        ),
        ("tcp_retransmits", "nsenter -t 100 -n ss -tinp state established"),
        ("reclaim", "docker update --memory 128m --memory-swap 256m trainer"),
        ("oom_kill", "docker update --memory 192m --memory-swap 384m trainer"),
    ],
)
def test_a_fix_has_the_command_for_its_fault(name: str, command: str) -> None:
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
        # Podman run by root does not know a user's containers, so there is no command.
        (Tenant("podman:ab", "x", "container", "podman", "ab", cgroup_path=f"{USER}/libpod-ab"), "", ""),
        # The kubelet would undo the change, so there is no command.
        (Tenant("cri:aa", "serve", "pod", "containerd", "aa", "llm-0", "prod", 8, "/kubepods/aa"), "", ""),
        # The folder of a cgroup is known only if its files were read, which is not the case here.
        (Tenant("cgroup:9", "odd", cgroup_id=9, cgroup_path="/odd"), "", ""),
        (None, "", ""),
    ],
)
def test_commands_fit_the_runtime_of_the_tenant(tenant: Tenant | None, cpus: str, memory: str) -> None:
    about = Facts(replace(window(), tenants={tenant.id: tenant} if tenant else {}))
    identity = tenant.id if tenant else "gone"
    assert commands.limit_cpus(about, identity, 0.5) == cpus
    assert commands.limit_memory(about, identity, 64 * MIB) == memory
    # If a parent cgroup sets the limit, changing the tenant's own would not help: there is no command.
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
def test_limits_are_written_to_the_files_of_the_cgroup_version(version: int, cpus: str, memory: str) -> None:
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
    # If a cgroup above sets the limit, changing the tenant's own files would not help: no command.
    above = replace(use, quota_cgroup="/", memory_cgroup="/")
    about = Facts(replace(window(tenants=[above]), tenants={tenant.id: tenant}))
    assert commands.limit_cpus(about, tenant.id, 0.5) == ""
    assert commands.limit_memory(about, tenant.id, 64 * MIB) == ""


def fixes_of(one: Window) -> list[Fix]:
    return list(faults(explain(one))[0].fixes)


def test_each_large_culprit_gets_a_fix() -> None:
    """Seven host processes named python together take more than the container, but each takes less. They are
    not one tenant, so the container comes first."""
    host = Tenant("process:0/python", "python", "process")
    low = with_idle_cpus(cpu_contention())
    noise = [
        charge("runqueue", 60 + number, 700 + number, culprit_tenant=host.id, culprit_process="python")
        for number in range(7)
    ]
    taken = [*noise, charge("runqueue", 200, 900), charge("runqueue", 30, 5, culprit_tenant="process:ended")]
    low = replace(
        low, tenants={**low.tenants, host.id: host}, evidence=replace(low.evidence, charges=tuple(taken))
    )
    chain = faults(explain(low))[0]
    culprits = [link for link in chain.links if link.role == "culprit"]
    assert [link.pid for link in culprits] == [900, 0, 0]
    assert [link.text for link in culprits[2:]] == ["others, 1 process"]
    first, of_many, half = chain.fixes
    assert first.command == "taskset -acp 2 900"
    assert of_many.command == "taskset -acp 3 706"
    assert of_many.text.endswith("pid 706, which took most, then 705, 704, 703, 702, 701, …")
    assert re.search(r"to [\d.]+ CPUs, about half of what it uses: trainer gains up to", half.text)


def with_idle_cpus(one: Window, busy: tuple[float, ...] = (100, 100, 20, 20)) -> Window:
    assert one.system is not None
    return replace(one, system=replace(one.system, cpu_each_percent=busy))


def used_by(tenant: str, **use: Any) -> Window:
    return window(tenants=[TenantUse(tenant, **use)], cpus=(100, 100, 100, 100))


@pytest.mark.parametrize(("used", "quota"), [(0.1, False), (0.9, False), (1.1, True), (2.0, True)], ids=str)
def test_a_neighbour_that_uses_little_gets_no_quota(used: float, quota: bool) -> None:
    low = with_idle_cpus(replace_evidence(cpu_contention(), events=(), cpu_ns=round(used * 1e9)))
    assert any("--cpus" in fix.command for fix in fixes_of(low)) is quota
    assert fixes_of(low)[0].command.startswith("taskset")


@pytest.mark.parametrize(
    ("busy", "exits", "first"),
    [
        ((100, 100, 20, 20), 0, "taskset"),  # an idle CPU that the victim does not use
        ((100, 100, 100, 100), 0, "podman update --cpus 0.55 "),
        ((20, 20, 100, 100), 0, "podman update --cpus 0.55 "),  # only those of the victim are idle
        ((100, 100, 20, 20), 50, "podman update --cpus 0.55 "),  # short-lived
    ],
)
def test_a_quota_comes_first_if_no_cpu_is_idle(busy: tuple[float, ...], exits: int, first: str) -> None:
    low = replace_evidence(cpu_contention(), events=(), cpu_ns=1_100 * MS, exits=exits)
    assert fixes_of(with_idle_cpus(low, busy))[0].command.startswith(first)


def test_the_quota_of_short_lived_processes_comes_first() -> None:
    low = with_idle_cpus(replace_evidence(cpu_contention(), events=(), cpu_ns=2_000 * MS, exits=50))
    assert fixes_of(low)[0].command.startswith("podman update --cpus 1 ")


def test_a_quota_is_raised_at_most_to_the_cpus_of_the_host() -> None:
    # Throttled time is summed over all CPUs, so it can exceed a second per second.
    fix, *_ = fixes_of(replace_evidence(cfs_throttling(), events=(), throttled_ns=30_000 * MS))
    assert fix.command == "docker update --cpus 4 trainer"
    assert "that the host has" in fix.text


def test_a_memory_limit_is_raised_at_most_to_the_memory_of_the_host() -> None:
    def raised(limit_bytes: int) -> Fix:
        return fixes_of(replace_evidence(oom_kill(), events=(), oom_kills=1, memory_limit_bytes=limit_bytes))[
            0
        ]

    assert raised(48 << 30).command == "docker update --memory 65536m --memory-swap 131072m trainer"
    assert "that the host has" in raised(48 << 30).text
    assert raised(64 << 30).command == ""
    assert "(memory.max of cgroup /docker/train)" in raised(1 << 30).text


@pytest.mark.parametrize(("quota", "threads"), [(None, 4), (2.0, 2), (0.5, 1), (9.0, 4)])
def test_the_number_of_own_threads_follows_the_quota(quota: float | None, threads: int) -> None:
    fix, *_ = fixes_of(plus(own_threads(), used_by(TRAIN, cpu_quota=quota)))
    assert f"OMP_NUM_THREADS={threads} " in fix.text
    # The variable takes effect at the next start of the program, so there is no command to run now.
    assert fix.command == ""


@pytest.mark.parametrize(
    ("cpuset", "expected"),
    [
        ("", ["taskset -acp 2 900", "taskset -acp 3 901"]),
        ("0-3", ["taskset -acp 2 900", "taskset -acp 3 901"]),
        # Here one CPU is left for the two culprits, and in the next case none.
        ("1-2", ["taskset -acp 2 900", "podman update --cpu-shares 2 batch-job"]),
        ("0-1", ["podman update --cpus 0.95 batch-job", "podman update --cpu-shares 2 batch-job"]),
    ],
)
def test_a_culprit_is_moved_within_the_cpus_of_its_cgroup(cpuset: str, expected: list[str]) -> None:
    fixes = fixes_of(with_idle_cpus(replace_evidence(cpu_contention(), events=(), cpuset=cpuset)))
    assert [fix.command for fix in fixes][: len(expected)] == expected
    assert "--cpus" in fixes[len(expected)].command if len(fixes) > len(expected) else True


@pytest.mark.parametrize(
    ("cpuset", "expected"),
    [
        ("", ["taskset -acp 0-3 100", "docker update --cpuset-cpus 0-3 trainer"]),
        ("0-3", ["taskset -acp 0-3 100"]),
        ("1-2", ["taskset -acp 1-2 100", "docker update --cpuset-cpus 0-3 trainer"]),
        ("2", ["docker update --cpuset-cpus 0-3 trainer"]),
    ],
)
def test_fixes_for_pinning_tell_a_cpuset_from_an_affinity(cpuset: str, expected: list[str]) -> None:
    fixes = fixes_of(
        plus(cpu_pinning(), window(tenants=[TenantUse(TRAIN, cpuset=cpuset)], cpus=(5, 8, 100, 12)))
    )
    assert [fix.command for fix in fixes] == expected


@pytest.mark.parametrize("name", FAULTS)
def test_what_to_do_fits_the_second_line_of_80_columns(name: str) -> None:
    one = FAULTS[name][0]()
    said = sentence_of(faults(explain(one))[0], one, TELLINGS)
    assert said.command or said.advice
    for text in (*said.advice[-1:], *said.effects[-1:]):
        assert len(text) <= 70, text


@pytest.mark.parametrize("name", FAULTS)
def test_fixes_that_only_inspect_are_marked(name: str) -> None:
    """A user who copies the command of a fix without ``look`` expects it to change something."""
    looks = ("top ", "dmesg", "cat ", "nsenter", "py-spy", "perf top", "gdb -p")
    for fix in faults(explain(FAULTS[name][0]()))[0].fixes:
        assert fix.look is fix.command.startswith(looks), fix


@pytest.mark.parametrize(
    ("tenant", "use", "command"),
    [
        (Tenant("docker:ab", "x", "container", "docker", "ab"), {}, "docker unpause ab"),
        (
            Tenant("unit:cron", "cron", "unit", "systemd", cgroup_path="/system.slice/cron.service"),
            {},
            "systemctl thaw cron.service",
        ),
        (
            Tenant("cgroup:job", "job", cgroup_path="/job"),
            {"cpu_folder": "/sys/fs/cgroup/cpu/job", "cpu_version": 1},
            "",
        ),
        (
            Tenant("cgroup:job", "job", cgroup_path="/job"),
            {"memory_folder": "/sys/fs/cgroup/job", "memory_version": 2},
            "echo 0 > /sys/fs/cgroup/job/cgroup.freeze",
        ),
    ],
)
def test_a_frozen_tenant_is_let_go_by_the_tool_that_runs_it(
    tenant: Tenant, use: dict[str, Any], command: str
) -> None:
    made = replace(window([], tenants=[TenantUse(tenant.id, **use)]), tenants={tenant.id: tenant})
    assert commands.thaw(Facts(made), tenant.id) == command
