"""Tests that the benchmarks start and that their tables are well-formed; judges no speed."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from bench import __main__ as command
from bench.measuring.cpu import cpu_ns
from bench.measuring.machine import machine
from bench.measuring.spread import Spread, ratio
from bench.measuring.table import TextTable
from bench.monitor import workload
from bench.monitor.terminal import OnTerminal
from bench.tracing import cost, gpu
from stalltop.demo.build import Built
from stalltop.demo.scenario import Scenario

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "docs/performance.md"


def test_every_table_in_the_document_belongs_to_a_benchmark() -> None:
    titles = re.findall(r"^([a-z]+)(?:,[^:\n]*)?: .*(?:rounds|s each)", DOCUMENT.read_text(), re.MULTILINE)
    assert set(titles) <= set(command.BENCHES)


def test_the_document_says_how_to_repeat_each_measurement() -> None:
    text = DOCUMENT.read_text()
    assert "./bench/run" in text
    for name in command.BENCHES:
        assert f"bench/run {name}" in text or re.search(rf"^{name}[:,]", text, re.MULTILINE), name
    # Quoted results name the machine and the date.
    assert re.search(r"^Linux \d+\.\d+.*Python 3", text, re.MULTILINE)
    assert re.search(r"^20\d\d-\d\d-\d\d \d\d:\d\d UTC", text, re.MULTILINE)


@pytest.mark.parametrize("option", ["--help", "--list"])
def test_help_names_every_benchmark(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):  # argparse exits
        assert command.main([option]) == 0
    said = capsys.readouterr().out
    for name, (summary, _) in command.BENCHES.items():
        assert name in said
        assert summary in said


def test_the_launcher_lists_benchmarks_without_measuring() -> None:
    done = subprocess.run(
        [ROOT / "bench/run", "--list"], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(command.BENCHES)


def test_an_unknown_benchmark_ends_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["no-such"]) == 2
    assert "no-such" in capsys.readouterr().err


def test_a_spread_is_median_and_quartiles() -> None:
    assert Spread.of([4.0, 1.0, 2.0, 3.0, 5.0]) == Spread(3.0, 2.0, 4.0, 5)
    assert Spread.of([2.0, 1.0]) == Spread(1.5, 1.0, 2.0, 2)
    assert Spread.of([1.0, 2.0, 3.0, 4.0, 5.0]).text(".1f") == "3.0 (2.0-4.0)"


def test_a_ratio_is_taken_per_round() -> None:
    # Every other round is ten times slower; the ratio must not change.
    assert ratio([2.0, 20.0, 2.0, 20.0], [1.0, 10.0, 1.0, 10.0]) == Spread(2.0, 2.0, 2.0, 4)
    assert ratio([1.0, 3.0], [0.0, 1.5]) == Spread(2.0, 2.0, 2.0, 1)
    assert ratio([1.0], [0.0]) is None


def test_figures_are_right_aligned() -> None:
    table = TextTable("title", ("what", "ns"))
    table.add("one", "1")
    table.add("two", "1,000")
    table.add("three", "-")
    assert table.text().splitlines()[2:] == [
        "what      ns",
        "-----  -----",
        "one        1",
        "two    1,000",
        "three      -",
    ]
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        table.add("one")


def test_the_load_has_forty_operations_per_tenant_at_any_rate() -> None:
    for rate in (1_000, 50_000, 500_000):
        made = workload.scenario(rate)
        assert isinstance(made, Scenario)
        assert len(made.tenants) == workload.TENANTS
        for tenant in made.tenants:
            items = tenant.processes[0].cycle.split()
            pause = int(items.pop()[1:])
            assert len(items) == len(set(items)) == 28  # 12 of them make a nested operation each: 40 in all
            repeats = int(items[0].split(":")[1])
            own_us = repeats * workload.CALLS * workload.CALL_NS / 1e3
            reached = workload.TENANTS * workload.CALLS * repeats * 1e6 / (pause + own_us)
            assert reached == pytest.approx(rate, rel=0.1)


def test_cpu_time_of_a_process_grows_with_its_work() -> None:
    before = cpu_ns(os.getpid())
    spent = time.process_time_ns()
    while time.process_time_ns() - spent < 20_000_000:
        pass
    assert cpu_ns(os.getpid()) - before >= 20_000_000


def test_the_machine_is_described() -> None:
    assert os.uname().release in machine()
    assert "core" in machine()


def test_a_program_on_a_terminal_is_read_and_ended() -> None:
    script = "printf 'a\\033[1mb\\033[0mc\\n'; head -c 1 >/dev/null"
    with OnTerminal(["/bin/sh", "-c", f"stty raw -echo; {script}"]) as program:
        program.wait_for("abc")
        assert program.written_bytes >= 11
        program.leave()


def test_the_benchmark_probes_functions_where_stalltop_does(built: Built) -> None:
    if os.uname().machine == "x86_64":
        found, chosen = cost.find(built.cuda, "cuLaunchKernel")
        assert chosen == found.offset + 10
    found, chosen = cost.find(built.cudart, "cudaLaunchKernel")
    assert chosen == found.offset


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="this machine has a GPU, which would be measured")
def test_the_gpu_benchmark_says_that_there_is_no_gpu(tmp_path: Path) -> None:
    [table] = gpu.run(Built(tmp_path), tmp_path, quick=True)
    assert "no GPU" in table.text()
