"""Tests what cgroups use and which limits slow them down, read from the files of cgroup v1 and v2."""

from __future__ import annotations

from pathlib import Path

import pytest

from stalltop.probes.host.cgroup_files import SETTINGS_LOOKS, IoLimit
from stalltop.probes.host.cgroup_pressure import Pressed, Pressures

DISK = 8 << 20

V2 = {
    "cpu.stat": "usage_usec 1000\nuser_usec 600\nnr_periods 10\nnr_throttled 2\nthrottled_usec 500\n",
    "cpu.max": "max 100000\n",
    "memory.current": "4096\n",
    "memory.max": "max\n",
    "memory.events": "low 0\noom 3\noom_kill 1\n",
    "io.max": "",
}


class CgroupFiles:
    """Writes cgroup files of a host; every hierarchy is mounted below ``sys/fs/cgroup``."""

    def __init__(self, root: Path, *hierarchies: str) -> None:
        self.root = root
        self.hierarchies = hierarchies
        lines = []
        for number, names in enumerate(hierarchies):
            kind, options = ("cgroup", f"rw,{names}") if names else ("cgroup2", "rw,nsdelegate")
            place = f"/sys/fs/cgroup/{names or 'unified'}"
            lines.append(f"{number + 30} 25 0:{number + 30} / {place} rw - {kind} {kind} {options}")
        self.write("proc/self/mountinfo", "\n".join(lines) + "\n")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def files(self, names: str, path: str, **files: str) -> None:
        """Writes files of cgroup ``path`` in hierarchy ``names``; ``__`` in a file name stands for a dot."""
        for name, text in files.items():
            self.write(f"sys/fs/cgroup/{names or 'unified'}{path}/{name.replace('__', '.')}", text)

    def unified(self, path: str, **files: str) -> None:
        for name, text in (V2 | {name.replace("__", "."): text for name, text in files.items()}).items():
            self.write(f"sys/fs/cgroup/unified{path}/{name}", text)

    def join(self, pid: int, path: str) -> None:
        lines = (
            f"{0 if not names else number + 1}:{names}:{path}"
            for number, names in enumerate(self.hierarchies)
        )
        self.write(f"proc/{pid}/cgroup", "\n".join(lines) + "\n")


@pytest.fixture
def v2(tmp_path: Path) -> CgroupFiles:
    return CgroupFiles(tmp_path, "")


@pytest.fixture
def v1(tmp_path: Path) -> CgroupFiles:
    return CgroupFiles(tmp_path, "cpu,cpuacct", "memory", "blkio", "name=systemd")


def look(pressures: Pressures, own: str = "/pod/a", pids: tuple[int, ...] = (10,)) -> Pressed:
    return pressures.look({"tenant": (own, pids)})["tenant"]


def test_counters_increase_from_the_second_reading_on(v2: CgroupFiles) -> None:
    v2.unified("/pod/a")
    v2.join(10, "/pod/a")
    pressures = Pressures(v2.root)
    first = look(pressures)
    assert (first.cpu_ns, first.periods, first.throttled_ns, first.oom_kills) == (0, 0, 0, 0)
    v2.unified(
        "/pod/a",
        cpu__stat="usage_usec 1500\nnr_periods 14\nnr_throttled 5\nthrottled_usec 900\n",
        memory__events="oom_kill 3\n",
    )
    second = look(pressures)
    assert (second.cpu_ns, second.periods, second.throttled_periods) == (500_000, 4, 3)
    assert (second.throttled_ns, second.oom_kills) == (400_000, 2)
    assert (second.memory_used_bytes, second.memory_limit_bytes) == (4096, None)


def test_the_tightest_quota_of_all_ancestors_counts(v2: CgroupFiles) -> None:
    v2.unified("/pod", cpu__max="150000 100000\n")
    v2.unified("/pod/a", cpu__max="400000 100000\n")
    v2.unified("/pod/a/inner", cpu__max="max 100000\n")
    v2.join(10, "/pod/a/inner")
    pressed = look(Pressures(v2.root))
    assert (pressed.cpu_quota, pressed.quota_cgroup) == (1.5, "/pod")


def test_a_quota_that_throttles_counts_more_than_a_tighter_one(v2: CgroupFiles) -> None:
    v2.unified("/pod", cpu__max="200000 100000\n")
    v2.unified("/pod/a", cpu__max="100000 100000\n")
    v2.join(10, "/pod/a")
    pressures = Pressures(v2.root)
    look(pressures)
    v2.unified(
        "/pod",
        cpu__max="200000 100000\n",
        cpu__stat="usage_usec 9\nnr_periods 20\nnr_throttled 9\nthrottled_usec 7500\n",
    )
    pressed = look(pressures)
    assert (pressed.quota_cgroup, pressed.throttled_ns, pressed.throttled_periods) == ("/pod", 7_000_000, 7)


def test_the_memory_limit_closest_to_full_counts(v2: CgroupFiles) -> None:
    v2.unified("/pod", memory__current="900\n", memory__max="1000\n")
    v2.unified("/pod/a", memory__current="100\n", memory__max="800\n")
    v2.join(10, "/pod/a")
    pressed = look(Pressures(v2.root))
    assert (pressed.memory_used_bytes, pressed.memory_limit_bytes) == (900, 1000)
    assert pressed.memory_cgroup == "/pod"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("8:0 rbps=1048576 wbps=max riops=max wiops=max", {(DISK, False): IoLimit(1048576, None, "/pod/a")}),
        ("8:0 rbps=max wbps=max riops=max wiops=20", {(DISK, True): IoLimit(None, 20, "/pod/a")}),
        ("8:0 rbps=max wbps=max riops=max wiops=max", {}),
        ("nonsense", {}),
        ("", {}),
    ],
)
def test_limits_of_block_io_are_read(
    v2: CgroupFiles, line: str, expected: dict[tuple[int, bool], IoLimit]
) -> None:
    v2.unified("/pod/a", io__max=f"{line}\n")
    v2.join(10, "/pod/a")
    assert look(Pressures(v2.root)).io_limits == expected


def test_cgroup_v1_gives_the_same_figures(v1: CgroupFiles) -> None:
    v1.files(
        "cpu,cpuacct",
        "/docker/a",
        cpu__stat="nr_periods 5\nnr_throttled 1\nthrottled_time 100\n",
        cpu__cfs_quota_us="50000\n",
        cpu__cfs_period_us="100000\n",
        cpuacct__usage="1000\n",
    )
    v1.files(
        "memory",
        "/docker/a",
        memory__usage_in_bytes="5000\n",
        memory__limit_in_bytes="9223372036854771712\n",
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
    )
    v1.files("blkio", "/docker/a", blkio__throttle__read_bps_device="8:0 1000\n")
    v1.files("blkio", "/docker/a", blkio__throttle__read_iops_device="8:0 7\n")
    v1.join(10, "/docker/a")
    pressures = Pressures(v1.root)
    first = look(pressures, "/docker/a")
    assert (first.cpu_quota, first.quota_cgroup, first.memory_limit_bytes) == (0.5, "/docker/a", None)
    assert first.memory_used_bytes == 5000
    assert first.io_limits == {(DISK, False): IoLimit(1000, 7, "/docker/a")}
    v1.files(
        "cpu,cpuacct",
        "/docker/a",
        cpu__stat="nr_periods 9\nnr_throttled 4\nthrottled_time 700\n",
        cpuacct__usage="4000\n",
    )
    v1.files("memory", "/docker/a", memory__oom_control="oom_kill 2\n")
    second = look(pressures, "/docker/a")
    assert (second.periods, second.throttled_periods, second.throttled_ns) == (4, 3, 600)
    assert (second.cpu_ns, second.oom_kills) == (3000, 2)


def test_a_shared_cgroup_limits_the_tenant_but_is_not_its_use(v2: CgroupFiles) -> None:
    v2.unified("/user", cpu__max="100000 100000\n")
    v2.join(10, "/user")
    pressed = look(Pressures(v2.root), own="")
    assert pressed.cpu_ns is None
    assert pressed.memory_used_bytes is None
    assert pressed.cpu_quota == 1.0


def test_the_root_has_no_limits(v2: CgroupFiles) -> None:
    v2.unified("", cpu__max="1000 100000\n")
    v2.join(10, "/")
    assert look(Pressures(v2.root), own="") == Pressed()


def test_a_cgroup_that_disappears_costs_only_its_own_figures(v2: CgroupFiles) -> None:
    for name in "ab":
        v2.unified(f"/{name}")
    v2.join(10, "/a")
    v2.join(11, "/b")
    pressures = Pressures(v2.root)
    tenants = {"a": ("/a", (10,)), "b": ("/b", (11,)), "c": ("/c", (12,))}
    pressures.look(tenants)
    for file in (v2.root / "sys/fs/cgroup/unified/a").iterdir():
        file.unlink()
    v2.unified("/b", cpu__stat="usage_usec 3000\n")
    found = pressures.look(tenants)
    assert found["b"].cpu_ns == 2_000_000
    assert found["c"] == Pressed()


def test_a_partial_mount_is_read_below_its_root(tmp_path: Path) -> None:
    host = CgroupFiles(tmp_path, "")
    host.write("proc/self/mountinfo", "30 25 0:30 /outer /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n")
    host.unified("/a", cpu__max="50000 100000\n")
    host.join(10, "/outer/a")
    host.join(11, "/elsewhere")
    pressures = Pressures(tmp_path)
    found = pressures.look({"a": ("/outer/a", (10,)), "b": ("/elsewhere", (11,))})
    assert (found["a"].cpu_quota, found["a"].quota_cgroup) == (0.5, "/outer/a")
    assert found["b"] == Pressed()


def test_files_that_appear_later_are_read(v2: CgroupFiles) -> None:
    v2.files("", "/pod/a", cpu__stat="usage_usec 1\n")
    v2.join(10, "/pod/a")
    pressures = Pressures(v2.root)
    assert look(pressures).cpu_quota is None
    v2.unified("/pod/a", cpu__max="50000 100000\n")  # now the cgroup has a CPU controller
    looks = [look(pressures).cpu_quota for _ in range(12)]
    assert looks[-1] == 0.5


def test_a_changed_quota_is_read_within_some_samples(v2: CgroupFiles) -> None:
    v2.unified("/pod/a", cpu__max="200000 100000\n")
    v2.join(10, "/pod/a")
    pressures = Pressures(v2.root)
    assert look(pressures).cpu_quota == 2.0
    v2.unified("/pod/a", cpu__max="50000 100000\n")
    assert [look(pressures).cpu_quota for _ in range(SETTINGS_LOOKS)][-1] == 0.5


def test_a_changed_quota_that_throttles_is_read_at_once(v2: CgroupFiles) -> None:
    v2.unified("/pod/a", cpu__max="200000 100000\n")
    v2.join(10, "/pod/a")
    pressures = Pressures(v2.root)
    assert look(pressures).cpu_quota == 2.0
    stat = "usage_usec 1500\nnr_periods 14\nnr_throttled 5\nthrottled_usec 900\n"
    v2.unified("/pod/a", cpu__max="50000 100000\n", cpu__stat=stat)
    assert look(pressures).cpu_quota == 0.5


def test_a_process_that_moves_is_followed(v2: CgroupFiles) -> None:
    v2.unified("/pod/a", cpu__max="100000 100000\n")
    v2.unified("/pod/b", cpu__max="200000 100000\n")
    v2.join(10, "/pod/a")
    pressures = Pressures(v2.root)
    assert look(pressures).cpu_quota == 1.0
    v2.join(10, "/pod/b")
    assert [look(pressures).cpu_quota for _ in range(6)][-1] == 2.0


def test_a_block_cgroup_belongs_to_its_tenant(v1: CgroupFiles) -> None:
    for name in "ab":
        v1.files("blkio", f"/docker/{name}", tasks="")
        v1.join(10 if name == "a" else 11, f"/docker/{name}")
    pressures = Pressures(v1.root)
    assert not pressures.block_is_unified
    pressures.look({"a": ("/docker/a", (10,)), "b": ("/docker/b", (11,))})
    blkio = v1.root / "sys/fs/cgroup/blkio/docker"
    assert pressures.tenant_of_block_cgroup((blkio / "a").stat().st_ino) == "a"
    assert pressures.tenant_of_block_cgroup((blkio / "b").stat().st_ino) == "b"
    assert pressures.tenant_of_block_cgroup(blkio.stat().st_ino) is None, "this cgroup contains both tenants"
    assert pressures.tenant_of_block_cgroup(1) is None


@pytest.mark.parametrize(
    ("limit", "moved", "requests", "least_ns"),
    [
        (IoLimit(1000, None), 500, 9, 500_000_000),
        (IoLimit(None, 10), 500, 5, 500_000_000),
        (IoLimit(1000, 10), 500, 20, 2_000_000_000),
        (IoLimit(None, None), 500, 20, 0),
    ],
)
def test_io_under_a_limit_takes_at_least_a_known_time(
    limit: IoLimit, moved: int, requests: int, least_ns: int
) -> None:
    assert limit.least_ns(moved, requests) == least_ns


def test_refaults_and_limit_hits_are_counted(v2: CgroupFiles) -> None:
    def memory(path: str, refaults: int, hits: int, own_hits: int) -> None:
        v2.unified(
            path,
            memory__stat=f"workingset_refault_anon 5\nworkingset_refault_file {refaults}\n",
            memory__events=f"max {hits}\n",
            memory__events__local=f"max {own_hits}\n",
        )

    memory("/pod", 90, 70, 4)
    memory("/pod/a", 10, 3, 3)
    v2.join(10, "/pod/a")
    pressures = Pressures(v2.root)
    first = look(pressures)
    memory("/pod", 900, 99, 6)
    memory("/pod/a", 17, 6, 6)
    second = look(pressures)
    assert (first.refaults, first.limit_hits) == (0, 0)
    assert second.refaults == 7, "refaults of the parent include other children, so they must not count"
    assert second.limit_hits == 5, "hits of the parent's limit count, those of a sibling's do not"


@pytest.mark.parametrize(
    ("own", "above", "limit_kills"),
    [
        ("max 9\noom 4\n", "max 0\noom 0\n", 1),
        ("max 0\noom 3\n", "max 9\noom 1\n", 1),
        ("max 9\noom 3\n", "max 9\noom 0\n", 0),  # killed because the host had no memory left, not by a limit
    ],
)
def test_a_kill_by_a_limit_differs_from_one_by_the_host(
    v2: CgroupFiles, own: str, above: str, limit_kills: int
) -> None:
    v2.unified("/pod", memory__events__local="max 0\noom 0\n")
    v2.unified("/pod/a", memory__events__local="max 0\noom 3\n")
    v2.join(10, "/pod/a")
    pressures = Pressures(v2.root)
    look(pressures)
    v2.unified("/pod", memory__events="oom 7\noom_kill 2\n", memory__events__local=above)
    v2.unified("/pod/a", memory__events="oom 7\noom_kill 2\n", memory__events__local=own)
    pressed = look(pressures)
    assert (pressed.oom_kills, pressed.limit_kills) == (1, limit_kills)


def test_with_cgroup_v1_a_kill_counts_for_the_limit_if_that_was_hit(v1: CgroupFiles) -> None:
    def memory(refaults: int, hits: int, kills: int) -> None:
        v1.files(
            "memory",
            "/docker/a",
            memory__stat=f"workingset_refault_file 1\ntotal_workingset_refault_file {refaults}\n",
            memory__failcnt=f"{hits}\n",
            memory__oom_control=f"oom_kill {kills}\n",
        )

    v1.join(10, "/docker/a")
    pressures = Pressures(v1.root)
    told = []
    for figures in ((10, 4, 0), (15, 4, 1), (15, 9, 2)):
        memory(*figures)
        pressed = look(pressures, "/docker/a")
        told.append((pressed.refaults, pressed.limit_hits, pressed.oom_kills, pressed.limit_kills))
    assert told == [(0, 0, 0, 0), (5, 0, 1, 0), (0, 5, 1, 1)]


def test_the_folder_of_each_limit_is_found(v2: CgroupFiles, tmp_path: Path) -> None:
    v2.unified("/pod", cpu__max="150000 100000\n")
    v2.unified("/pod/a")
    v2.unified("/pod/a/inner")
    v2.join(10, "/pod/a/inner")
    pressed = look(Pressures(v2.root))
    mounted = v2.root / "sys/fs/cgroup/unified"
    assert (pressed.cpu_folder, pressed.cpu_version) == (f"{mounted}/pod", 2)
    assert (pressed.memory_folder, pressed.memory_version) == (f"{mounted}/pod/a", 2)
    assert pressed.quota_cgroup == "/pod"


def test_the_folders_of_limits_are_found_with_both_versions(tmp_path: Path) -> None:
    host = CgroupFiles(tmp_path, "", "cpu,cpuacct", "cpuset", "memory")
    host.files("", "/docker/a", cgroup__procs="")
    host.files("cpu,cpuacct", "/docker/a", cpu__stat="")
    host.files("cpuset", "/docker/a", cpuset__effective_cpus="0-3,8\n")
    host.files("memory", "/docker/a", memory__limit_in_bytes="1000\n", memory__usage_in_bytes="9\n")
    host.join(10, "/docker/a")
    pressed = look(Pressures(tmp_path), "/docker/a")
    mounted = tmp_path / "sys/fs/cgroup"
    assert (pressed.cpu_folder, pressed.cpu_version) == (f"{mounted}/cpu,cpuacct/docker/a", 1)
    assert (pressed.memory_folder, pressed.memory_version) == (f"{mounted}/memory/docker/a", 1)
    assert pressed.cpuset == "0-3,8"


def test_a_folder_with_unprintable_characters_is_left_out(v2: CgroupFiles) -> None:
    v2.unified("/po\x1bd", cpu__max="150000 100000\n")
    v2.join(10, "/po\x1bd")
    pressed = look(Pressures(v2.root), own="/po\x1bd")
    assert (pressed.cpu_folder, pressed.cpu_version, pressed.quota_cgroup) == ("", 0, "/pod")


def test_the_cpus_of_a_cgroup_are_read(v2: CgroupFiles) -> None:
    v2.unified("/pod", cpuset__cpus__effective="2-3\n")
    v2.unified("/pod/a", cpuset__cpus__effective="2\n")
    v2.unified("/pod/a/inner")
    v2.unified("/other")
    v2.join(10, "/pod/a/inner")
    v2.join(11, "/other")
    pressures = Pressures(v2.root)
    assert look(pressures).cpuset == "2"
    assert look(pressures, own="").cpuset == "2", "the CPUs of the nearest ancestor with a cpuset controller"
    assert look(pressures, own="/other", pids=(11,)).cpuset == ""


def test_a_root_must_match_whole_folder_names(tmp_path: Path) -> None:
    host = CgroupFiles(tmp_path, "")
    host.write(
        "proc/self/mountinfo", "30 25 0:30 /docker/ab /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    )
    host.unified("c", cpu__max="50000 100000\n")
    host.join(10, "/docker/abc")
    assert look(Pressures(tmp_path), own="/docker/abc") == Pressed()
