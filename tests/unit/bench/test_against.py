"""Tests comparing two revisions: the arithmetic, alternating rounds, the command line, and cleaning up."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as command
from bench.against import command as against
from bench.against.pairs import Pairs, paired, student
from bench.against.turns import SideProcess, in_turns
from bench.against.worktree import checked_out
from bench.measuring import document, revision
from bench.measuring.figures import Figure, FigureColumn, FigureText, figures, values_of
from bench.measuring.program import Program
from bench.measuring.spread import Spread
from bench.measuring.table import TextTable
from stalltop.model.errors import StalltopError, UsageError
from tests.unit.bench.other_revision import NEW, OLD, git, repository

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder in which ``tempfile`` makes its files and folders during the test."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def pairs(here: list[float], there: list[float], better: Any = "lower") -> Pairs:
    made = Pairs(Figure("cost", ("a",), "ns", (), "ns", better))
    made.add(here, there)
    return made


def told(table: TextTable) -> dict[str, Any]:
    """Returns the table as the measuring process sends it."""
    from bench.against.side import _plain

    found: dict[str, Any] = json.loads(json.dumps(_plain(table)))
    return found


def untyped(table: dict[str, Any]) -> dict[str, Any]:
    """Returns the table as a revision without typed figures sends it."""
    head = [{"text": one["text"]} for one in table["head"]]
    rows = [[{"text": cell["text"]} for cell in row] for row in table["rows"]]
    return {"title": table["title"], "head": head, "rows": rows, "others": []}


def test_figures_of_a_table_have_names_units_and_rounds() -> None:
    table = TextTable(
        "cost, 1 thread: ns a call",
        (
            "on",
            "tool",
            FigureColumn("ns", "ns"),
            FigureColumn("/ off"),
            FigureColumn("share", "%", "higher"),
            FigureColumn("CPU"),
            "x",
        ),
    )
    table.head = (*table.head[:-1], FigureColumn("target", told_only=True))
    table.add(
        "one", "off", Spread.of([3.0, 1.0, 2.0]).text(), "-", FigureText("all", [100.0]), "1,234.5", "9"
    )
    table.add("", "-", "-", "1.5 (1.4-1.6)", "-", FigureText("2 MB", [2.0], "MB"), "9")
    assert table.figures() == [
        Figure("cost, 1 thread", ("one", "off"), "ns", (3.0, 1.0, 2.0), "ns", "lower"),
        Figure("cost, 1 thread", ("one", "off"), "share", (100.0,), "%", "higher"),
        Figure("cost, 1 thread", ("one", "off"), "CPU", (1234.5,), "", "lower"),
        Figure("cost, 1 thread", ("one",), "ns / off", (1.5,), "", "lower"),
        Figure("cost, 1 thread", ("one",), "CPU", (2.0,), "MB", "lower"),
    ]
    assert table.figures()[0].plain()["value"] == 2.0


def test_text_of_an_older_revision_is_read_as_figures() -> None:
    cells = {"1,234.5 (1-2)": 1234.5, "-0.5": -0.5, "75.7 %": 75.7, "all": 100.0, "-": None, "byte 10": None}
    assert {cell: (*values_of(cell), None)[0] for cell in cells} == cells


def test_columns_of_one_name_get_distinct_names() -> None:
    head = ("what", FigureColumn("a"), FigureColumn("/ off"), FigureColumn("b"), FigureColumn("/ off"))
    found = figures("t", head, [("row", "1", "2", "3", "4")])
    assert [(one.name, one.value) for one in found] == [("a", 1), ("a / off", 2), ("b", 3), ("b / off", 4)]
    head = ("what", FigureColumn("write"), FigureColumn("CPU"), FigureColumn("tend"), FigureColumn("CPU"))
    assert [one.name for one in figures("t", head, [("row", "1", "2", "3", "4")])] == [
        *("write", "write CPU", "tend", "tend CPU")
    ]


def test_students_quantiles_match_published_tables() -> None:
    for freedom, exact in ((3, 5.841), (4, 4.604), (5, 4.032), (9, 3.250), (14, 2.977), (24, 2.797)):
        assert student(freedom) == pytest.approx(exact, rel=0.04)


def test_a_difference_is_reported_only_beyond_the_noise() -> None:
    assert pairs([10, 11, 10, 11], [20, 21, 21, 20]).verdict == "better"
    assert pairs([10, 11, 10, 11], [20, 21, 21, 20], "higher").verdict == "worse"
    assert pairs([10, 11, 10, 11], [20, 21, 21, 20], "").verdict == "differs"
    assert pairs([10, 30, 10, 30], [20, 21, 21, 20]).verdict == ""
    assert pairs([10, 11, 10], [20, 21, 21]).verdict == "too few"
    assert pairs([5, 5, 5, 5], [5, 5, 5, 5]).verdict == ""
    assert pairs([5, 5, 5, 5], [6, 6, 6, 6]).verdict == "better"


def test_a_machine_that_slows_down_makes_no_difference() -> None:
    chance = random.Random(1)
    machine = [2.0**number for number in range(8)]
    here = [value * chance.uniform(0.99, 1.01) for value in machine]
    found = pairs(here, machine)
    assert found.ratio is not None
    assert found.ratio.median == pytest.approx(1.0, abs=0.01)
    assert found.verdict == ""
    slower = pairs([1.2 * value for value in here], machine).ratio
    assert slower is not None
    assert slower.low > 1.15


@pytest.mark.parametrize("rounds", [4, 6, 25])
def test_equal_sides_rarely_differ(rounds: int) -> None:
    chance = random.Random(rounds)

    def values(mean: float) -> list[float]:
        return [chance.gauss(mean, 2.0) for _ in range(rounds)]

    called = sum(bool(pairs(values(100.0), values(100.0)).beyond_noise) for _ in range(2000))
    assert called < 0.02 * 2000
    seen = sum(pairs(values(120.0), values(100.0)).verdict == "worse" for _ in range(500))
    assert seen > 0.95 * 500


def test_a_ratio_skips_divisors_that_are_not_positive() -> None:
    assert pairs([1.0, 1.0, 1.0], [0.0, -1.0, 2.0]).ratio is None
    found = pairs([1.0, 3.0, 5.0, 9.0], [2.0, 6.0, 0.0])
    assert (found.here, found.ratio) == ([1.0, 3.0, 5.0], Spread(0.5, 0.5, 0.5, 2))
    assert found.plain()["ratio"] == 0.5


def test_rows_are_matched_by_name_then_by_order() -> None:
    def watching(values: tuple[float, ...]) -> dict[str, Any]:
        head = ("load", FigureColumn("calls/s", "1/s", ""), "screen", FigureColumn("CPU %", "%"))
        table = TextTable("watching: 10 s each", head, others=("beside",))
        for load, value in enumerate(values):
            table.add(f"{load} calls/s", str(load + 17), "no", FigureText("-", [value]))
            table.add(f"{load} calls/s", str(load + 17), "120x40", f"{10 * value}")
            table.add(f"{load} calls/s", str(load + 17), "beside", "1")
        return told(table)

    other = untyped(watching((3.0, 4.0)))
    del other["head"][0]
    for number, row in enumerate(other["rows"]):
        del row[0]
        if number % 3 == 0:
            row[2]["text"] = str(3 + number // 3)
    found, alone = paired([([watching((1.0, 2.0))], [other])] * 2)
    assert [(one.figure.row, one.here, one.there) for one in found] == [
        (("0 calls/s", "no"), [1.0, 1.0], [3.0, 3.0]),
        (("0 calls/s", "120x40"), [10.0, 10.0], [30.0, 30.0]),
        (("1 calls/s", "no"), [2.0, 2.0], [4.0, 4.0]),
        (("1 calls/s", "120x40"), [20.0, 20.0], [40.0, 40.0]),
    ]
    assert alone == []


def test_revisions_run_their_own_code_in_alternating_rounds(
    tmp_path: Path, temporary: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    old, new = repository(tmp_path / "repository")
    with (
        checked_out(new, tmp_path / "repository") as here,
        checked_out(old, tmp_path / "repository") as there,
    ):
        assert against.benches_of(there) == ["mini"]
        where = subprocess.check_output(
            [there.python, "-P", "-c", "import bench, textual; print(bench.__file__, textual.__file__)"],
            text=True,
            cwd=temporary,
        ).split()
        # Each revision runs its own code. Both use the packages of this environment, because both need the
        # same packages.
        assert where[0].startswith(str(there.root))
        assert not where[1].startswith(str(temporary))
        sides = [
            SideProcess("here", here, "mini", [], {}),
            SideProcess("there", there, "mini", ["--quick"], {}),
        ]
        tables = in_turns(sides, 0)
    said = [line for line in capfd.readouterr().err.splitlines() if "round" in line]
    assert [line.partition(":")[0] for line in said] == ["here", "there", "there", "here"] * 2 + [
        *("here", "there")
    ]
    found, alone = paired([tables])
    assert [(one.figure.row, one.figure.name) for one in found] == [(("a row",), "ms")]
    assert found[0].here == [NEW, NEW + 1, NEW + 2, NEW + 3, NEW + 4]
    assert found[0].there == [OLD, OLD + 1, OLD + 2, OLD + 3, OLD + 4]
    assert alone == ["only in this revision: a row: added"]
    [table] = against.Comparison("mini", old[:7], found, alone).tables()
    assert "0.545 (0.524-0.565)" in table.text()
    assert table.rows[0][-1] == "better"
    assert "only in this revision: a row: added" in table.text()
    # No checkout is left behind.
    assert list(temporary.iterdir()) == []
    assert len(git(tmp_path / "repository", "worktree", "list").splitlines()) == 1


def test_a_failing_side_is_reported_with_its_reason(tmp_path: Path, temporary: Path) -> None:
    old, _ = repository(tmp_path / "repository")
    with checked_out(old, tmp_path / "repository") as there:
        with pytest.raises(StalltopError, match="there: LookupError: this revision has no benchmark other"):
            in_turns([SideProcess("there", there, "other", [], {})], 0)
        strange = Program(tmp_path, there.python)
        with pytest.raises(StalltopError, match="should be measured, but Python imports from"):
            in_turns([SideProcess("there", strange, "mini", [], {})], 0)
        (there.root / "bench/mini.py").write_text("import os\nos._exit(7)\n")
        with pytest.raises(StalltopError, match="exit status 7"):
            in_turns([SideProcess("there", there, "mini", [], {})], 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_comparison_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    old, _ = repository(tmp_path / "repository")
    place = tmp_path / "temporary"
    place.mkdir()
    script = f"""
import signal, sys
from pathlib import Path
from bench.against.turns import SideProcess, closing
from bench.against.worktree import checked_out
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
with checked_out({old!r}, Path({str(tmp_path / "repository")!r})) as there:
    side = SideProcess("there", there, "mini", [], {{}})
    with closing([side]):
        side.step()
        print(side._process.pid, flush=True)
        signal.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(place)},
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        side = int(process.stdout.readline())
        assert list(place.iterdir())
        process.send_signal(number)
        assert process.wait(timeout=100) != 0
    assert not os.path.exists(f"/proc/{side}")
    assert list(place.iterdir()) == []
    assert len(git(tmp_path / "repository", "worktree", "list").splitlines()) == 1


def test_a_failing_bench_does_not_stop_the_others(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "repository"
    _, new = repository(root)

    def compared(name: str, there: Program, label: str, folder: Path, *, quick: bool) -> against.Comparison:
        if name == "bad":
            raise StalltopError("it broke")
        return against.Comparison(name, label, [], [])

    monkeypatch.setattr(against, "compare", compared)
    monkeypatch.setattr(against, "benches_of", lambda there: ["bad", "good"])
    found = against.run([], ["bad", "good", "only here"], new, root, quick=True)
    assert next(found).name == "good"
    with pytest.raises(StalltopError, match=r"could not be compared .*: bad"):
        next(found)
    assert "bad: it broke" in capfd.readouterr().err
    with pytest.raises(StalltopError, match="has no benchmark only here"):
        list(against.run(["only here"], ["only here"], new, root, quick=True))
    assert list(temporary.iterdir()) == []


def test_a_revision_without_benches_is_reported_and_removed(tmp_path: Path, temporary: Path) -> None:
    root = tmp_path / "repository"
    repository(root)
    git(root, "rm", "--quiet", "-r", "bench")
    git(root, "commit", "--quiet", "--message", "none")
    with (
        pytest.raises(StalltopError, match="no benchmarks"),
        checked_out(git(root, "rev-parse", "HEAD"), root),
    ):
        pass
    assert list(temporary.iterdir()) == []


def test_an_impossible_comparison_gives_a_message_and_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "repository"
    repository(root)
    monkeypatch.setattr(command, "ROOT", root)
    for name in ("no-such", "", "--all", "HEAD:bench"):
        assert command.main([f"--against={name}"]) == 2
        assert f"no such revision: {name!r}" in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert command.main(["--against", "HEAD", "cost"]) == 3
    assert "needs root" in capsys.readouterr().err
    monkeypatch.setattr(command, "ROOT", tmp_path)
    assert command.main(["--against", "HEAD"]) == 1
    assert "not a git checkout" in capsys.readouterr().err
    monkeypatch.setattr(command, "ROOT", root)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command.main(["--against", "HEAD"]) == 1
    assert "git is not installed" in capsys.readouterr().err


def test_the_name_of_a_revision_mentions_uncommitted_changes(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    old, new = repository(root)
    assert revision.revision(root) == git(root, "rev-parse", "--short", new)
    (root / "docs").mkdir()
    (root / "docs/performance.md").write_text("figures")
    git(root, "add", "docs")
    assert revision.revision(root) == git(root, "rev-parse", "--short", new)
    (root / "pyproject.toml").write_text("changed")
    assert revision.revision(root).endswith("with uncommitted changes")
    assert "with uncommitted changes; against: " in against.described(root, old)
    shutil.rmtree(root / ".git")
    assert "unknown revision" in revision.revision(root)
    with pytest.raises(UsageError):
        revision.commit_of(ROOT, "no-such-revision")


def test_figures_are_printed_as_json_and_written_to_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(built: object, folder: Path, *, quick: bool) -> list[TextTable]:
        table = TextTable("mini: 1 round", ("what", FigureColumn("ms", "ms")))
        table.add("a row", Spread.of([1.0, 2.0]).text(".1f"))
        return [table]

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(command, "build", lambda: None)
    monkeypatch.setattr(command, "BENCHES", {"mini": ("small", run)})
    page = tmp_path / "performance.md"
    begin, end = document.BEGIN.format("mini"), document.END.format("mini")
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    for used in (document.put_figures, document.has_place):
        monkeypatch.setattr(used, "__defaults__", (page,))
    assert command.main(["--json", "--write-docs", "mini"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "stalltop.bench/1"
    assert found["revision"] in found["machine"]
    [bench] = found["benches"]
    found_as = Figure("mini", ("a row",), "ms", (1.0, 2.0), "ms", "lower").plain()
    assert bench["figures"] == [json.loads(json.dumps(found_as))]
    assert bench["figures"][0]["value"] == 1.5
    text = page.read_text()
    assert "old" not in text
    assert "1.5 (1.0-2.0)" in text
    assert f"stalltop {found['revision']}\n" in text
    assert (text[:7], text[-6:]) == ("before\n", "after\n")
    page.write_text("no place")
    assert command.main(["--write-docs", "mini"]) == 2
    assert "no place for the figures of mini" in capsys.readouterr().err
    assert command.main(["--write-docs"]) == 0
    assert page.read_text() == "no place"


def test_the_document_has_a_section_per_bench_with_machine_and_revision() -> None:
    text = document.DOCUMENT.read_text()
    for name in command.BENCHES:
        if name == "gpu":  # its figures are measured on other machines
            continue
        begin, end = document.BEGIN.format(name), document.END.format(name)
        block = text.partition(begin)[2].partition(end)[0]
        assert f"\n{name}" in block, name
        assert re.search(r"^Linux \d+\.\d+.*Python 3.*\nstalltop \w+.*\n20\d\d-", block, re.MULTILINE), name
    for name in ("cost", "screen", "start", "switching", "watching"):
        assert document.has_place(f"{name}, against")
