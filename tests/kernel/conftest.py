"""Provides the fixtures of the tests with real eBPF."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stalltop.demo.build import Built
from stalltop.probes.cuda_devices import process_sight
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.harness import Workplace, workplace_in
from tests.kernel.relays import compile_relay, tracing
from tests.kernel.traced_program import FUNCTIONS, TracedProgram, compile_program, points


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests with real eBPF only if STALLTOP_TESTS_WITHOUT_EBPF=1.

    Without the variable they fail on a host where eBPF does not work, so that the lack of eBPF is noticed.
    """
    if os.environ.get("STALLTOP_TESTS_WITHOUT_EBPF") == "1":
        for item in items:
            if item.path.is_relative_to(Path(__file__).resolve().parent):
                item.add_marker(pytest.mark.skip(reason="STALLTOP_TESTS_WITHOUT_EBPF is set"))


@pytest.fixture(scope="session", autouse=True)
def patient() -> Iterator[None]:
    """Allow the inspection of processes more time, since it is slow on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process_sight, "PATIENCE_SECONDS", 30.0)
        yield


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile native/driver.c and, beside it, the library whose functions are traced."""
    return compile_program(tmp_path_factory.mktemp("native"))


@dataclass(frozen=True)
class Traced:
    """A kernel side that traces the library of native/driver.c."""

    kernel: KernelSide
    driver: Path

    def start(self) -> TracedProgram:
        """Start a new process of the driver and discard earlier counts and losses."""
        self.kernel.read()
        self.kernel.losses()
        return TracedProgram(self.driver)


@pytest.fixture(scope="module", params=["multi", pytest.param("perf", marks=pytest.mark.perf)])
def traced(request: pytest.FixtureRequest, driver: Path) -> Iterator[Traced]:
    """Trace the library of native/driver.c; each test runs once per way of attaching."""
    kernel = KernelSide(way=request.param, slots=256, threads=64, functions=FUNCTIONS)
    library = driver.with_name("libtraced.so")
    attachment = kernel.attach(str(library), points(library))
    assert not attachment.failed
    assert attachment.count == 2 * len(FUNCTIONS)
    yield Traced(kernel, driver)
    kernel.close()


@pytest.fixture(scope="session")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile native/relay.c, whose processes wake and delay each other."""
    return compile_relay(tmp_path_factory.mktemp("relay"))


@pytest.fixture(scope="module")
def relay_kernel(relay: Path) -> Iterator[KernelSide]:
    """Trace the functions of native/relay.c."""
    kernel = tracing(relay)
    yield kernel
    kernel.close()


@pytest.fixture
def kernel(relay_kernel: KernelSide) -> KernelSide:
    """Give each test a kernel side that traces native/relay.c, without what was counted before the test."""
    relay_kernel.read()
    relay_kernel.losses()
    relay_kernel.evidence.charges()
    relay_kernel.evidence.waits()
    return relay_kernel


@pytest.fixture
def workplace(built: Built) -> Iterator[Workplace]:
    """Give the test a workplace and end all of its callers afterwards."""
    with workplace_in(built) as place:
        yield place


DISK_FILE_BYTES = 32 << 20


@pytest.fixture(scope="session")
def disk_folder() -> Iterator[Path]:
    """Make a folder on a file system that is on a block device."""
    for place in (None, "/var/tmp", str(Path(__file__).resolve().parent)):
        with tempfile.TemporaryDirectory(dir=place, prefix="stalltop-test-") as name:
            device = os.stat(name).st_dev
            if Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").exists():
                yield Path(name)
                return
    pytest.fail("no temporary folder of this machine is on a block device: set TMPDIR to a folder on a disk")


@pytest.fixture(scope="session")
def disk_file(disk_folder: Path) -> Path:
    """Write a file and flush it, so that all of its blocks are on the disk."""
    path = disk_folder / "file"
    with path.open("wb") as file:
        file.write(os.urandom(DISK_FILE_BYTES))
        os.fsync(file.fileno())
    return path
