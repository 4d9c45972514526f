"""Tests that it is said which processes could make calls before their libraries were probed."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from stalltop.probes.libraries.unprobed import UnprobedProcess
from stalltop.probes.tenants.cgroups import cgroup_id_of
from tests.kernel.children import Child, until
from tests.kernel.discovery.tracing import TracedDiscovery


@pytest.fixture
def driver(built: Path, tmp_path: Path) -> Path:
    """Give each test its own copy of the driver."""
    return Path(shutil.copy(built / "libcuda.so.1", tmp_path / "libcuda.so.1"))


def named(tracing: TracedDiscovery) -> list[UnprobedProcess]:
    """Return the unprobed processes with files of the test."""
    found = tracing.libraries.unprobed.take()
    assert not found.unreported
    return [one for one in found.named if one.path.startswith(f"{tracing.folder}/")]


def test_a_process_that_calls_before_its_library_is_probed_is_named(
    tracing: TracedDiscovery, library: Path, driver: Path
) -> None:
    tracing.libraries.start()
    with Child() as child:
        child.load(driver)
        child.load(library)
        child.call(library, "cudaMalloc", 30)
        time.sleep(0.3)
        tracing.update()
        child.call(library, "cudaMalloc", 5)
        assert tracing.calls(child.pid) == {"cudaMalloc": 5}
        (one,) = named(tracing)
        assert (one.pid, one.ended) == (child.pid, False)
        assert 0.3 < one.seconds < 30
        assert one.cgroup_id == cgroup_id_of(child.pid) > 0
        tracing.update()
    assert until(lambda: child.pid not in tracing.libraries.traced_pids(), tracing.update)
    assert named(tracing) == []


def test_a_process_that_ends_before_its_library_is_probed_is_named(
    tracing: TracedDiscovery, library: Path, driver: Path
) -> None:
    tracing.libraries.start()
    with Child() as child:
        child.load(driver)
        child.load(library)
        child.call(library, "cudaMalloc", 30)
    found: list[UnprobedProcess] = []

    def look() -> None:
        tracing.update()
        found.extend(named(tracing))

    assert until(lambda: bool(found), look)
    assert [(one.pid, one.ended, one.path) for one in found] == [(child.pid, True, str(driver))]


def test_processes_with_probed_libraries_miss_nothing_however_short_they_live(
    tracing: TracedDiscovery, library: Path, driver: Path
) -> None:
    with Child() as older, Child() as first:
        older.load(library)
        older.load(driver)
        tracing.libraries.start()
        for _ in range(2):
            with Child() as short:  # it uses files that were in use before tracing began
                short.load(driver)
                short.load(library)
                short.call(library, "cudaMalloc", 3)
            assert until(lambda: True, tracing.update)
            assert tracing.calls(short.pid) == {"cudaMalloc": 3}
            first.load(driver)
            first.load(library)
            tracing.update()
        time.sleep(1.1)  # all processes are listed again
        tracing.update()
        assert named(tracing) == []


def test_a_process_that_loads_the_driver_last_misses_nothing(
    tracing: TracedDiscovery, library: Path, driver: Path
) -> None:
    tracing.libraries.start()
    with Child() as child, Child() as other:
        other.load(driver)
        tracing.update()
        named(tracing)
        child.load(library)
        time.sleep(0.1)
        tracing.update()
        child.load(driver)  # as CUDA's runtime does in its first call
        tracing.update()
        assert child.pid in tracing.libraries.traced_pids()
        assert named(tracing) == []


def test_a_file_that_is_rewritten_leaves_its_processes_unprobed(
    tracing: TracedDiscovery, library: Path, driver: Path, built: Path
) -> None:
    tracing.libraries.start()
    with Child() as child:
        child.load(driver)
        child.load(library)
        tracing.update()
        named(tracing)
        content = (built / "other" / "libcudart.so.12").read_bytes()
        with library.open("r+b") as file:
            file.write(content)
        tracing.update()
        assert until(lambda: bool(tracing.rows.get(("libcudart.so.12", "runtime"))), tracing.update)
        (one,) = named(tracing)
        assert (one.pid, one.ended, one.path) == (child.pid, False, str(library))
