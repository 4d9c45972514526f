"""Boots kernels in guests for the tests and prints a table of the results."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels import matrix
from tests.kernels.compiled import Compiler, compilers
from tests.kernels.fetch import DEBIAN, FetchError, other_kernels
from tests.kernels.guests import GuestKernel, Guests
from tests.kernels.machine import X86_64, GuestReport

DOCS = Path(__file__).resolve().parents[2] / "docs/kernels.md"
KERNELS = (
    *(GuestKernel(wanted.name, wanted=wanted) for wanted in DEBIAN),
    *(GuestKernel(path.name.removeprefix("vmlinuz-"), path=path) for path in other_kernels()),
)
_GUESTS = pytest.StashKey[Guests]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--write-docs``."""
    parser.addoption(
        "--write-docs", action="store_true", help="write the table of kernels into docs/kernels.md"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests in guests only if STALLTOP_TESTS_WITHOUT_EBPF=1.

    They compile the programs on the host, which has to be able to load eBPF programs.
    """
    if os.environ.get("STALLTOP_TESTS_WITHOUT_EBPF") == "1":
        for item in items:
            if item.path.is_relative_to(Path(__file__).resolve().parent):
                item.add_marker(pytest.mark.skip(reason="STALLTOP_TESTS_WITHOUT_EBPF is set"))


@pytest.fixture(scope="session")
def guests(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guests]:
    """Boot the guests of this run; with ``--write-docs``, write docs/kernels.md when the run ends."""
    request.config.stash[_GUESTS] = guests = Guests(tmp_path_factory.mktemp("guests"))
    tests = [item for item in request.session.items if isinstance(item, pytest.Function)]
    wanted = [test.callspec.params["booted"] for test in tests if "booted" in test.fixturenames]
    # A test without a kernel that it is meant for has no pair: pytest skips it.
    guests.begin(dict.fromkeys(pair for pair in wanted if isinstance(pair, tuple)))
    yield guests
    guests.close()
    if request.config.getoption("--write-docs"):
        DOCS.write_text(matrix.page(DOCS.read_text(), *_rows(guests)))


@pytest.fixture(scope="session")
def booted(request: pytest.FixtureRequest, guests: Guests) -> GuestReport:
    """Return the report of the guest of ``request.param``, a kernel and a compiler."""
    kernel, compiler = request.param
    assert isinstance(kernel, GuestKernel)
    assert isinstance(compiler, Compiler)
    try:
        return guests.report(kernel, compiler)
    except FetchError as error:
        if kernel.wanted is not None and not kernel.wanted.in_ci:
            pytest.skip(str(error))
        pytest.fail(str(error))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test with every compiler and with every kernel for which it is meant."""
    if "booted" not in metafunc.fixturenames:
        return
    refused = metafunc.definition.get_closest_marker("refused") is not None
    metafunc.parametrize(
        "booted",
        [
            pytest.param(
                (kernel, compiler),
                id=f"{kernel.name}-{compiler.name}",
                marks=[pytest.mark.ci] if kernel.wanted and kernel.wanted.in_ci and compiler.in_ci else [],
            )
            for compiler in compilers()
            for kernel in KERNELS
            # Only this host's BCC compiles the programs for another architecture.
            if kernel.refused == refused and (kernel.machine is X86_64 or compiler.in_ci)
        ],
        indirect=True,
        scope="session",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table of the booted kernels."""
    guests = config.stash.get(_GUESTS, None)
    if guests is not None and guests.told:
        rows, refusals = _rows(guests)
        terminalreporter.section("kernels")
        terminalreporter.write_line(matrix.table(rows))
        for line in (*refusals, *_not_run(config, guests)):
            terminalreporter.write_line(line)


def _not_run(config: pytest.Config, guests: Guests) -> list[str]:
    """Return lines that say what a full run left out and how to include it."""
    if config.getoption("-m") == "ci":
        return []
    run = {name for name, _ in guests.told}
    left = [f"NOT RUN: {kernel.name}" for kernel in KERNELS if kernel.name not in run]
    if not other_kernels():
        left.append(
            "NOT RUN: kernels of other distributions (STALLTOP_KERNELS names a folder with vmlinuz files)"
        )
    if len(compilers()) == 1:
        left.append(
            "NOT RUN: programs of Debian 13's compiler (python -m tests.kernels.compiled makes its tree)"
        )
    return left


def _rows(guests: Guests) -> tuple[list[matrix.MatrixRow], list[str]]:
    rows = [
        line for (name, compiler), told in guests.told.items() for line in matrix.lines(told, name, compiler)
    ]
    refusals = {
        f"{told.of('kernel')[0]['release']}: {line['reason']}; {line['remedy']}"
        for told in guests.told.values()
        for line in told.of("refused")
    }
    return rows, sorted(refusals)
