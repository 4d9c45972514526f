"""Configures hypothesis, gives tests a state folder of their own, repeats tests that need a quiet machine."""

from __future__ import annotations

import gc
import inspect
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from stalltop.demo.build import Built, build

# Every run takes the same examples; STALLTOP_EXAMPLES chooses how many. No example has a time limit, so that
# no test fails on a slow machine.
settings.register_profile(
    "stalltop",
    deadline=None,
    derandomize=True,
    max_examples=int(os.environ.get("STALLTOP_EXAMPLES", "30")),
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("stalltop")

_SOCKETS = tempfile.TemporaryDirectory(prefix="stalltop-test-")
"""Folder of this process for the sockets of tracers. Their paths must be short."""
_NUMBERS = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests, and the programs that they start, away from the files of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def pytest_collection_finish() -> None:
    """Keeps the collector of garbage off the imported modules, which would take a tenth of the CPU time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Lets the programs that a test starts share a tracer with each other only."""
    os.environ["STALLTOP_SOCKET"] = f"{_SOCKETS.name}/{next(_NUMBERS)}/tracer.sock"


@pytest.fixture
def tracer_socket() -> Path:
    """Returns the path of the socket at which programs of this test find their tracer."""
    return Path(os.environ["STALLTOP_SOCKET"])


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Returns copies for this process of the stand-in libraries and of the program that calls them.

    They are compiled anew only if the folder that STALLTOP_TEST_BUILDS names does not have them.
    """
    own, once = tmp_path_factory.mktemp("standin"), os.environ.get("STALLTOP_TEST_BUILDS")
    return Built(shutil.copytree(build(Path(once)).folder, own / "copy")) if once else build(own)


@pytest.fixture
def utc() -> Iterator[None]:
    """Set the time zone to UTC."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Lets a test marked ``quiet_machine`` run more than once; the summary says how often it passed."""
    mark = item.get_closest_marker("quiet_machine")
    if mark is not None:
        assert isinstance(item, pytest.Function)
        # The result of a coroutine would be dropped, and the test would pass without being run.
        assert not inspect.iscoroutinefunction(item.obj)
        item.obj = _tried(item, **mark.kwargs)


def _tried(item: pytest.Function, *, reason: str, tries: int) -> Callable[..., None]:
    """Returns a function that runs the test of ``item`` until it passes, at most ``tries`` times."""
    test = item.obj

    def run(**arguments: object) -> None:
        failure: Exception | None = None
        for number in range(1, tries + 1):
            try:
                test(**arguments)
            except Exception as error:
                print(f"run {number} of at most {tries} failed: {error}")
                failure = error
            else:
                failure = None
                break
        item.user_properties.append(("quiet_machine", f"{0 if failure else 1} of {number} ({reason})"))
        if failure is not None:
            raise failure

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Writes how often the tests passed that need a quiet machine."""
    for report in (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())):
        for name, rate in report.user_properties:
            if name == "quiet_machine":
                terminalreporter.write_line(f"quiet machine: {report.nodeid} passed {rate}")
