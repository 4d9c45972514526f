"""Tests which commands are offered for rows and problems, and that each says how to undo it."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from stalltop.diagnosis.causes import CAUSES
from stalltop.diagnosis.engine import explain
from stalltop.model.actions import offers
from stalltop.model.actions.catalogue import ACTIONS, BY_ID
from stalltop.model.actions.offers import FIXES, LOOKS, STOPS, Offer, for_chain, for_row
from stalltop.model.chain import Chain, Fix
from stalltop.model.cpu_list import cpus_of
from stalltop.model.evidence import ProcessUse, TenantUse
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from tests.unit.diagnosis.faults import FAULTS, faults
from tests.windows.evidence import window

UUID = "0a1b2c3d-1111-2222-3333-444455556666"
POD: dict[str, Any] = {"kind": "pod", "runtime": "containerd", "container_id": "cc", "namespace": "prod"}


def host(tenant: Tenant, use: dict[str, Any] | None = None, *, known: bool = True) -> Window:
    """Returns a window with one tenant, to which process 900 belongs."""
    process = ProcessUse(tenant.id, 900, "busy", allowed="0-3", nice=5) if known else None
    made = window(
        processes=[process] if process else [],
        tenants=[TenantUse(tenant.id, cpu_ns=2_000_000_000, **use)] if use is not None else [],
    )
    return replace(made, tenants={tenant.id: tenant})


def of_row(made: Window, tenant: str) -> dict[str, Offer]:
    return {offer.command: offer for offer in for_row(made, [tenant], [(tenant, 900, "busy")])}


PROCESS = Tenant("process:0/busy", "busy", "process")


def test_a_plain_process_has_commands_for_processes_only() -> None:
    found = of_row(host(PROCESS), PROCESS.id)
    assert {command: offer.undo for command, offer in found.items()} == {
        "top -H -p 900": "",
        "taskset -acp 2-3 900": "taskset -acp 0-3 900",
        "renice -n 19 -p $(ls /proc/900/task)": "renice -n 5 -p $(ls /proc/900/task)",
        "ionice -c3 -p $(ls /proc/900/task)": "ionice -c0 -p $(ls /proc/900/task)",
        "kill -STOP 900": "kill -CONT 900",
        "kill -TERM 900": "",
    }
    headings = dict.fromkeys(offer.about for offer in found.values())
    assert list(headings) == [LOOKS, "busy (pid 900)", f"{STOPS}busy (pid 900)"]
    assert found["kill -TERM 900"].note == "none: start it again"
    assert [offer.note != "" for offer in found.values()] == [False, False, False, True, False, True]


def test_an_undo_says_when_it_restores_a_default() -> None:
    found = of_row(host(PROCESS, known=False), PROCESS.id)
    for command in ("taskset -acp 2-3 900", "renice -n 19 -p $(ls /proc/900/task)"):
        assert "usual default" in found[command].note
    assert found["renice -n 19 -p $(ls /proc/900/task)"].undo.startswith("renice -n 0 ")


@pytest.mark.parametrize(
    ("tenant", "use", "expected"),
    [
        (
            Tenant("docker:ab", "x", "container", "docker", "ab" * 32, cgroup_path="/docker/ab"),
            {"cpu_quota": 3.0, "quota_cgroup": "/docker/ab", "cpuset": "0-2"},
            {
                "docker update --cpus 1 abababababab": "docker update --cpus 3 abababababab",
                "docker update --cpuset-cpus 2 abababababab": "docker update --cpuset-cpus 0-2 abababababab",
                "docker update --cpu-shares 2 abababababab": "docker update --cpu-shares 1024 abababababab",
                "docker pause abababababab": "docker unpause abababababab",
                "docker stop abababababab": "docker start abababababab",
            },
        ),
        (
            Tenant("unit:cron", "cron", "unit", "systemd", cgroup_path="/system.slice/cron.service"),
            {},
            {
                "systemctl set-property --runtime cron.service CPUQuota=100%": (
                    "systemctl set-property --runtime cron.service CPUQuota="
                ),
                "systemctl freeze cron.service": "systemctl thaw cron.service",
                "systemctl stop cron.service": "systemctl start cron.service",
            },
        ),
        (
            Tenant("cgroup:7", "odd", cgroup_path="/odd one"),
            {"cpu_folder": "/sys/fs/cgroup/odd one", "cpu_version": 2},
            {
                "echo '100000 100000' > '/sys/fs/cgroup/odd one'/cpu.max": (
                    "echo 'max 100000' > '/sys/fs/cgroup/odd one'/cpu.max"
                ),
                "echo 1 > '/sys/fs/cgroup/odd one'/cgroup.freeze": (
                    "echo 0 > '/sys/fs/cgroup/odd one'/cgroup.freeze"
                ),
            },
        ),
        (
            Tenant("cgroup:7", "odd", cgroup_path="/odd"),
            {"cpu_folder": "/sys/fs/cgroup/cpu/odd", "cpu_version": 1, "cpu_quota": 4.0},
            {
                "echo 100000 > /sys/fs/cgroup/cpu/odd/cpu.cfs_period_us && "
                "echo 100000 > /sys/fs/cgroup/cpu/odd/cpu.cfs_quota_us": (
                    "echo 400000 > /sys/fs/cgroup/cpu/odd/cpu.cfs_quota_us"
                )
            },
        ),
        (
            Tenant(
                *("containerd:cc", "chat"),
                **POD,
                pod="chat-6c9f7d5b88-x2kqp",
                container="server",
                labels=(("pod-template-hash", "6c9f7d5b88"),),
            ),
            {"cpu_quota": 2.0},
            {
                "kubectl -n prod set resources deployment/chat -c server --limits=cpu=1": (
                    "kubectl -n prod rollout undo deployment/chat"
                ),
                "kubectl -n prod delete pod chat-6c9f7d5b88-x2kqp": "",
                "kubectl -n prod patch pod chat-6c9f7d5b88-x2kqp --subresource resize -p "
                """'{"spec":{"containers":[{"name":"server","resources":{"limits":{"cpu":"1"}}}]}}'""": (
                    "kubectl -n prod patch pod chat-6c9f7d5b88-x2kqp --subresource resize -p "
                    """'{"spec":{"containers":[{"name":"server","resources":{"limits":{"cpu":"2"}}}]}}'"""
                ),
            },
        ),
        (
            Tenant("host1/slurm:job_4711/step_0", "job 4711.0", "job", "slurm"),
            {},
            {
                "scontrol suspend 4711": "scontrol resume 4711",
                "scontrol requeue 4711": "",
                "scancel 4711": "",
            },
        ),
    ],
    ids=["docker", "systemd", "cgroup v2", "cgroup v1", "pod", "slurm"],
)
def test_commands_fit_what_runs_the_tenant(
    tenant: Tenant, use: dict[str, Any], expected: dict[str, str]
) -> None:
    made = host(tenant, use)
    found = {offer.command: offer for offer in for_row(made, [tenant.id], [])}
    assert {command: found[command].undo for command in expected} == expected
    tools = {command.split()[0] for command, offer in found.items() if not offer.look}
    assert tools == {command.split()[0] for command in expected}
    for offer in found.values():
        assert offer.undo or offer.note or offer.look
        for text in (offer.command, offer.undo):
            assert subprocess.run(["bash", "-n", "-c", text], check=False).returncode == 0, text


@pytest.mark.parametrize(
    "tenant",
    [
        # Podman run by root does not know a user's containers.
        Tenant("podman:ab", "x", "container", "podman", "ab", cgroup_path="/user@7.service/libpod-ab"),
        # The name of the pod is not known, only its UID.
        Tenant("kubernetes:1", "x", "pod", "kubernetes", pod=UUID, namespace="prod"),
        Tenant("kubernetes:2", "x", "pod", "kubernetes", pod="a; reboot", namespace="prod"),
        Tenant("user:1000", "session 1", "session", "user", cgroup_path="/user.slice/session-1.scope"),
        PROCESS,
    ],
)
def test_where_no_tool_is_known_nothing_is_offered_for_the_tenant(tenant: Tenant) -> None:
    assert for_row(host(tenant, {}), [tenant.id], []) == []


@pytest.mark.parametrize(("tenant", "pid"), [("", 77), (PROCESS.id, 1), (PROCESS.id, 0)])
def test_threads_of_the_linux_kernel_and_init_are_left_alone(tenant: str, pid: int) -> None:
    assert for_row(host(PROCESS), [], [(tenant, pid, "kworker/3:1")]) == []


def test_a_row_of_many_processes_begins_with_its_container() -> None:
    tenant = Tenant("docker:ab", "x", "container", "docker", "ab")
    many = [(tenant.id, pid, "busy") for pid in range(900, 920)]
    found = for_row(host(tenant, {}), [tenant.id], many)
    assert found[0].command.startswith("docker")
    changed = [offer for offer in found if not offer.look and not offer.about.startswith(STOPS)]
    assert len({offer.about for offer in changed}) == 1 + offers.MOST_PROCESSES
    single = for_row(host(tenant, {}), [tenant.id], many[:1])
    assert next(offer.command for offer in single if not offer.look).startswith("taskset")


def test_commands_that_look_come_first_and_those_that_stop_come_last() -> None:
    tenant = Tenant("docker:ab", "trainer", "container", "docker", "ab" * 32)
    found = for_row(host(tenant, {}), [tenant.id], [(tenant.id, 900, "busy")])
    assert [offer.command for offer in found[:2]] == ["top -H -p 900", "docker stats --no-stream trainer"]
    assert found[1].does.startswith("trainer (docker container), all its processes: shows ")
    last = [offer.command for offer in found if offer.about.startswith(STOPS)]
    assert last == [offer.command for offer in found[-len(last) :]]
    assert last == ["kill -STOP 900", "kill -TERM 900", "docker pause trainer", "docker stop trainer"]


@pytest.mark.parametrize(
    ("name", "called"),
    [("db-dump", "db-dump"), ("a-name-that-is-long", "ab" * 6), ("no name", "ab" * 6), ("x", "ab" * 6)],
)
def test_a_container_has_its_short_name_in_commands(name: str, called: str) -> None:
    tenant = Tenant("docker:ab", name, "container", "docker", "ab" * 32)
    assert any(offer.command == f"docker stop {called}" for offer in for_row(host(tenant), [tenant.id], []))


def test_a_command_that_stops_the_process_for_a_moment_says_so() -> None:
    made, chain = problem("cpu_contention")
    looks = (Fix("see it", "py-spy dump --pid 7", look=True), Fix("see it", "perf top -p 7", look=True))
    told = [offer.does for offer in for_chain(made, replace(chain, fixes=looks)) if offer.look]
    assert told == ["see it; stops the process for a moment", "see it"]


# ---- problems


def problem(name: str) -> tuple[Window, Chain]:
    made = FAULTS[name][0]()
    return made, faults(explain(made))[0]


def test_a_problem_offers_its_fixes_first_then_its_looks() -> None:
    made, chain = problem("cpu_contention")
    found = for_chain(made, chain)
    fixes = [fix.command for fix in chain.fixes if not fix.look]  # '' if it is done by hand
    assert [offer.command for offer in found[: len(fixes)]] == fixes
    assert {offer.about for offer in found[: len(fixes)]} == {FIXES}
    assert next(one for one in found if one.command.startswith("taskset")).undo == "taskset -acp 0-3 900"
    commands = [offer.command for offer in found]
    assert "kill -STOP 900" in commands
    assert "podman pause batch-job" in commands
    assert not any(command.startswith("ionice") for command in commands)  # disks are not the problem
    # The victim is only moved, not slowed down further.
    own = [command for command in commands if command.endswith((" 100", "trainer"))]
    assert own == ["docker stop trainer"]
    with_look = replace(chain, fixes=(Fix("look", "top -H", look=True), *chain.fixes))
    look = for_chain(made, with_look)[len(fixes)]
    assert (look.command, look.about, look.look) == ("top -H", LOOKS, True)


def test_a_late_rank_and_ones_own_worker_are_not_slowed_down_further() -> None:
    for name in ("loader_cpu", "lock_contention"):
        made, chain = problem(name)
        offered = [offer.command for offer in for_chain(made, chain)]
        assert sorted(offered) == sorted(fix.command for fix in chain.fixes)
        late = for_chain(made, replace(chain, cause="nccl_straggler", tenant="docker:other"))
        assert not any(offer.command.startswith(("taskset", "renice", "kill")) for offer in late)


def test_what_is_done_by_hand_is_among_the_fixes() -> None:
    made, chain = problem("cpu_contention")
    (told,) = [
        one for one in for_chain(made, replace(chain, fixes=(Fix("use more workers"),))) if not one.command
    ]
    assert (told.about, told.does) == (FIXES, "use more workers")


@pytest.mark.parametrize("name", FAULTS)
def test_no_command_is_offered_twice_and_no_two_processes_share_cpus(name: str) -> None:
    made, chain = problem(name)
    found = for_chain(made, chain)
    commands = [offer.command for offer in found if offer.command]
    assert len(set(commands)) == len(commands)
    used: set[int] = set()
    for offer in found:
        words = offer.command.split()
        if words[:1] == ["taskset"] and int(words[-1]) != chain.pid:
            assert not cpus_of(words[2]) & used
            used |= cpus_of(words[2])
        assert offer.look or offer.undo or offer.note or not offer.command, offer


def test_every_action_is_complete() -> None:
    assert len(BY_ID) == len(ACTIONS)
    for action in ACTIONS:
        assert [bool(action.undo), bool(action.lasting), action.look].count(True) == 1, action.id
        assert len(action.does) <= 68, action.id  # fits into a line of 80 columns
        values = dict.fromkeys(action.placeholders | action.for_undo, "1")
        assert shlex.split(action.text(values)), action.id


def test_causes_named_by_resource_exist() -> None:
    assert {cause for causes in offers.CAUSES.values() for cause in causes} <= set(CAUSES)
