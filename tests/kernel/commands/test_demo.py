"""Tests that the demo's tenants run in real cgroups, are traced by name, and leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from stalltop import demo
from stalltop.demo.build import Built
from stalltop.demo.cgroups import MARK, Cgroups, container_id, container_path, hierarchy, sweep
from stalltop.demo.scenario import load_scenario, parse_scenario
from stalltop.demo.source import TracedTenants, demo_source, why_simulated
from stalltop.demo.tenants import DemoTenants
from stalltop.diagnosis.diagnosed import Diagnosed
from stalltop.diagnosis.engine import Diagnosis
from stalltop.model.errors import StalltopError, TracingError
from stalltop.model.evidence import HOST_GAP
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions
from stalltop.probes.tenants.cgroups import membership
from stalltop.probes.tenants.tenants import Tenants
from tests.kernel.harness import Workplace, wait_until

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make cgroups")


def is_running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def own_cgroups(root: Path) -> set[str]:
    """Return the cgroups below ``root`` that this process has made and not removed."""
    found = set()
    for path, _, _ in os.walk(root):
        with contextlib.suppress(OSError):
            if os.getxattr(path, MARK).split(b" ")[1] == b"%d" % os.getpid():
                found.add(path)
    return found


@pytest.mark.parametrize("runtime", ["docker", "podman", "containerd", "cri-o", "slurm"])
def test_a_caller_belongs_to_its_container(workplace: Workplace, runtime: str) -> None:
    identity = "90210" if runtime == "slurm" else container_id()
    cgroup = workplace.cgroup(runtime, identity)
    caller = workplace.caller(cgroup=cgroup)
    assert (cgroup / "cgroup.procs").read_text().split() == [str(caller.pid)]
    found = membership(caller.pid)
    assert found is not None
    assert found.unified == "/" + container_path(runtime, identity)
    tenant = Tenants().find(caller.pid, cgroup.stat().st_ino)
    assert tenant.runtime == runtime
    assert tenant.container_id == ("" if runtime == "slurm" else identity)


def test_cgroups_are_removed_with_parents_and_processes(built: Built) -> None:
    root = hierarchy()
    parent = f"stalltop-test-{os.getpid()}.slice"
    with Cgroups() as cgroups:
        place = cgroups.make(f"/{parent}/inner/docker-{container_id()}.scope")
        sleeper = subprocess.Popen(["sleep", "600"])
        (place / "cgroup.procs").write_text(str(sleeper.pid))
        with pytest.raises(StalltopError, match="File exists"):
            cgroups.make(str(place.relative_to(root)))
        # ``others`` removes its own cgroup. The parent stays, since it also holds cgroups of ``cgroups``.
        with Cgroups() as others:
            others.make(f"/{parent}/other.scope")
        assert (root / parent).is_dir()
    assert sleeper.wait(30) == -signal.SIGKILL
    assert not (root / parent).exists()
    cgroups.close()


def test_cgroups_of_a_killed_maker_are_swept(built: Built) -> None:
    root = hierarchy()
    parent = root / f"stalltop-test-{os.getpid()}.slice"
    program = (
        "import os, subprocess; from stalltop.demo.cgroups import Cgroups\n"
        f"place = Cgroups().make('{parent.name}/inner/left.scope')\n"
        "sleeper = subprocess.Popen(['sleep', '600'], stdin=-3, stdout=-3, stderr=-3)\n"
        "(place / 'cgroup.procs').write_text(str(sleeper.pid))\n"
        "print(sleeper.pid, flush=True); os.kill(os.getpid(), 9)\n"
    )
    with Cgroups() as mine:
        kept = mine.make(f"{parent.name}/kept.scope")
        ended = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, timeout=60, check=False
        )
        assert ended.returncode == -signal.SIGKILL
        left = parent / "inner/left.scope"
        assert left.is_dir()
        assert is_running(int(ended.stdout))
        # Another program runs in a cgroup below a parent that the killed process made: the sweep touches
        # neither this program nor its cgroup.
        other = subprocess.Popen(["sleep", "600"])
        used = parent / "inner/used.scope"
        used.mkdir()
        (used / "cgroup.procs").write_text(str(other.pid))
        assert sweep(root) >= 1
        assert not left.exists()
        assert kept.is_dir()
        assert other.poll() is None
        other.kill()
        other.wait()
        wait_until(lambda: not (used / "cgroup.procs").read_text(), what="an empty cgroup")
        used.rmdir()
        assert sweep(root) >= 1
        assert not (parent / "inner").exists()
        wait_until(lambda: not is_running(int(ended.stdout)), what="the end of the swept process")
    assert not parent.exists()


def test_old_empty_cgroups_of_other_pid_namespaces_are_swept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = hierarchy()
    with Cgroups(root) as cgroups:
        empty, used = (
            cgroups.make(f"stalltop-test-{os.getpid()}-{name}.scope") for name in ("empty", "used")
        )
        sleeper = subprocess.Popen(["sleep", "600"])
        (used / "cgroup.procs").write_text(str(sleeper.pid))
        for place in (empty, used):
            os.setxattr(place, MARK, b"own 12 34567 pid:[1]")
        sweep(root)
        assert empty.is_dir()
        monkeypatch.setattr(demo.cgroups, "STARTED_SECONDS", -1.0)
        sweep(root)
        assert not empty.exists()
        assert used.is_dir()
        assert sleeper.poll() is None
    assert sleeper.wait(30) == -signal.SIGKILL


def test_tenants_run_as_their_scenario_says_and_leave_nothing(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert why_simulated() == ""
    root = hierarchy()
    tenants = DemoTenants("trio", built=built)
    tenants.start()
    try:
        names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in tenants.pids]
        assert names == ["train.py", "serve.py", "ipykernel"]
        groups = own_cgroups(root)
        assert sum(any(path.endswith(f"{key}.scope") for path in groups) for key in tenants.names) == 3
        assert sorted(tenants.names.values()) == ["bert-trainer", "chat-server", "notebook-anna"]
    finally:
        pids = tenants.pids
        began = time.monotonic()
        tenants.close()
        took = time.monotonic() - began
    tenants.close()
    assert took < 10  # takes a second on an idle machine
    assert not any(map(is_running, pids))
    assert own_cgroups(root) == set()
    assert list(tmp_path.iterdir()) == []


def test_a_failed_start_leaves_nothing(built: Built) -> None:
    scenario = parse_scenario(
        "broken",
        """
        [[tenant]]
        name = "good"
        runtime = "docker"
        process = [{ name = "p", cycle = ["cuInit", "~1000"] }]
        [[tenant]]
        name = "bad"
        runtime = "docker"
        process = [{ name = "p", cycle = ["cuNothing"] }]
        """,
    )
    tenants = DemoTenants(scenario, built=built)
    with pytest.raises(StalltopError, match="no function cuNothing"):
        tenants.start()
    assert tenants.pids == ()
    assert own_cgroups(hierarchy()) == set()


def test_the_trio_is_traced_under_its_names() -> None:
    """Each call in ``wanted``, a choice from the scenario, appears in the container that makes it."""
    source = demo_source(load_scenario("trio"))
    assert isinstance(source, TracedTenants)
    wanted = {
        ("bert-trainer", "nccl", "ncclAllReduce", False),
        ("bert-trainer", "driver", "cuStreamSynchronize", True),
        ("bert-trainer", "runtime", "cudaMemcpyAsync HtoD", False),
        ("chat-server", "runtime", "cudaLaunchKernel", False),
        ("chat-server", "driver", "cuGraphLaunch", True),
        ("notebook-anna", "runtime", "cudaMemcpy DtoH", False),
        ("notebook-anna", "driver", "cuMemAlloc", True),
    }
    seen: set[tuple[str, str, str, bool]] = set()
    processes: set[str] = set()

    def look() -> bool:
        window = source.read()
        assert not window.simulated
        for key, calls in zip(window.rows.keys, window.rows.calls, strict=True):
            if calls:
                seen.add((window.tenants[key.tenant].name, key.layer, key.operation, key.nested))
                processes.add(key.process)
        return wanted <= seen

    try:
        wait_until(look, step=0.3, what="rows of all tenants")
        assert {"train.py", "serve.py", "ipykernel"} <= processes
        assert len(own_cgroups(hierarchy())) >= 3
    finally:
        source.close()
    source.close()
    assert own_cgroups(hierarchy()) == set()


@pytest.mark.parametrize(
    ("name", "cause", "victim", "culprit"),
    [
        ("straggler", "nccl_straggler", "rank 0", "rank 1"),
        ("noisy-neighbour", "cpu_contention", "chat-server", "video-encoder"),
    ],
)
def test_a_scenario_with_a_fault_is_diagnosed(name: str, cause: str, victim: str, culprit: str) -> None:
    source = Diagnosed(demo_source(load_scenario(name)), Diagnosis(own_pid=os.getpid()))

    def found() -> bool:
        window = source.read()
        names = {tenant.id: tenant.name for tenant in window.tenants.values()}
        return any(
            chain.cause == cause
            and names.get(chain.tenant) == victim
            and culprit in [names.get(link.tenant) for link in chain.culprits]
            for chain in window.chains
        )

    try:
        wait_until(found, deadline=90, step=1.0, what=f"{cause} of {victim} by {culprit}")
    finally:
        source.close()
    assert own_cgroups(hierarchy()) == set()


def test_a_slow_disk_of_a_data_loader_is_diagnosed_link_by_link() -> None:
    """The trainer's host gap waits for a worker, the worker waits for a disk, and another tenant uses the
    disk."""
    source = Diagnosed(demo_source(load_scenario("slow-disk")), Diagnosis(own_pid=os.getpid()))
    wanted = [
        (0, "effect", "bert-trainer", "train.py", False),
        (1, "mechanism", "bert-trainer", "train.py", False),
        (2, "mechanism", "bert-trainer", "pt_data_worker", False),
        (3, "reason", "bert-trainer", "pt_data_worker", True),
        (4, "culprit", "nightly-backup", "backup", True),
    ]
    told: list[str] = []

    def found() -> bool:
        window = source.read()
        names = {tenant.id: tenant.name for tenant in window.tenants.values()}
        for chain in window.chains:
            # If the disk is very slow, a chain may start at a late call instead of the host gap; wait for one
            # that starts at the host gap.
            if (chain.cause, chain.operation) != ("loader_disk", HOST_GAP) or not chain.open:
                continue
            steps = [link for link in chain.links if link.role != "factor"]
            told[:] = [f"{link.depth} {link.role} {link.text}" for link in steps]
            # If several links have the same depth, the first of them explains most of the time.
            first = {link.depth: link for link in reversed(steps)}
            if [link.depth for link in steps] != sorted(link.depth for link in steps) or len(first) != 5:
                continue
            links = [first[depth] for depth in sorted(first)]
            disks = {link.device for link in links[3:]}
            if (
                [
                    (link.depth, link.role, names.get(link.tenant), link.process, bool(link.device))
                    for link in links
                ]
                == wanted
                and len(disks) == 1
                and links[2].pid == links[3].pid != links[1].pid
                and f"(pid {links[2].pid})" in links[1].text
                and disks.pop() in links[3].text
            ):
                return True
        return False

    try:
        wait_until(found, deadline=90, step=1.0, what="gap, worker, disk and culprit")
    except AssertionError as error:
        raise AssertionError(f"{error}; the last chain: {told}") from None
    finally:
        source.close()
    assert own_cgroups(hierarchy()) == set()


def test_without_tracing_the_demo_is_simulated_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Untraced(Monitor):
        def __init__(self, options: MonitorOptions | None = None) -> None:
            self.cannot_trace = TracingError("the kernel is too old", "upgrade it")

        def close(self) -> None:
            pass

    monkeypatch.setattr(demo.source, "Monitor", Untraced)
    source = demo_source(load_scenario("trio"))
    window = source.read()
    assert window.simulated
    assert window.coverage.tracing == "simulated: the kernel is too old"
    assert own_cgroups(hierarchy()) == set()
