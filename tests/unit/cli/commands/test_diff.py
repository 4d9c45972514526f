"""Tests comparing two windows: rows, faults, conditions that fail a script, and the command's output."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stalltop.cli import main as cli
from stalltop.cli.whole_file import chains_of
from stalltop.formats.documents.diff import SCHEMA
from stalltop.model.chain import Chain
from stalltop.model.comparing.chain_difference import ChainTally, compare_chains, shares
from stalltop.model.comparing.condition import FIGURES, condition
from stalltop.model.comparing.difference import compare
from stalltop.model.comparing.likeness import alike
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from stalltop.recordings.write.saving import save
from tests.windows.by_hand import Calls, key, window
from tests.windows.full import full_window
from tests.windows.hostile import NAMES
from tests.windows.known_calls import random_calls, windows_of, write_file
from tests.windows.recordings import record

DOCS = Path(__file__).resolve().parents[4] / "docs" / "diff.md"


def of(
    durations: list[int], *, tenant: str = "docker:aa", name: str = "train", pid: int = 1, errors: int = 0
) -> Window:
    """Returns a window with calls of one container, which has the id ``tenant`` and the name ``name``."""
    made = window([Calls(key(tenant=tenant, pid=pid), durations, errors=errors)])
    return replace(made, tenants={tenant: Tenant(tenant, name)})


def chain(cause: str = "cpu", lost: float = 10.0, **changes: object) -> Chain:
    made = Chain(
        id=f"{cause}-id",
        cause=cause,
        title="waits",
        severity="high",
        summary="it waits",
        tenant="docker:aa",
        pid=1,
        process="python3",
        layer="runtime",
        operation="cudaLaunchKernel",
        lost_ms_per_s=lost,
        confidence=1.0,
        links=(),
        fixes=(),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


QUICK, SLOW = [1_000_000] * 2_000, [2_000_000] * 2_000


def ran(
    capsys: pytest.CaptureFixture[str], folder: Path, then: Window, now: Window, *options: str
) -> tuple[int, str]:
    paths = [str(save(one, folder / name, overwrite=True)) for one, name in ((then, "a"), (now, "b"))]
    code = cli.main(["diff", *paths, *options])
    return code, capsys.readouterr().out


def test_another_run_of_a_container_is_the_same_row() -> None:
    then, now = of(QUICK, pid=7), of(SLOW, tenant="docker:bb", pid=9)
    found = compare(alike(then), alike(now), ("container", "process", "operation"))
    assert found.labels == (("train", "python3", "cudaLaunchKernel"),)
    assert found.difference.p99_ratio[0] == pytest.approx(2.0, rel=0.02)
    assert found.difference.p99_sure[0]
    assert found.difference.lost_ns_per_s[0] == pytest.approx(2_000 * 1e6 / now.seconds)


def test_rows_with_equal_labels_add_up() -> None:
    both = window([Calls(key(pid=1), [1_000] * 3), Calls(key(pid=2), [1_000] * 4)])
    found = compare(alike(both), alike(both), ("process",))
    assert len(found.labels) == 1
    assert found.difference.now.groups.calls[0] == 7


@pytest.mark.parametrize(
    ("text", "then", "now", "holds", "unsure"),
    [
        ("p99 > 1.5x", QUICK, SLOW, True, False),
        ("p99>1.5x", QUICK, SLOW, True, False),
        ("p99 > 2.5x", QUICK, SLOW, False, False),
        ("p50 < 0.6x", SLOW, QUICK, True, False),
        ("p50 <= 0.6x", QUICK, SLOW, False, False),
        # A hundred calls are enough to detect a change of the median, but not of the p99.
        ("p99 > 1.5x", QUICK[:100], SLOW[:100], False, True),
        ("p50 > 1.5x", QUICK[:100], SLOW[:100], True, False),
        ("p95 > 1.5ms", QUICK, SLOW, True, False),
        ("p95 > 1500us", QUICK, QUICK, False, False),
        ("max > 1ms", QUICK, [*QUICK, 9_000_000], True, False),
        ("max >= 9x", QUICK, [*QUICK, 9_000_000], True, False),
        ("mean > 1.9x", QUICK, SLOW, True, False),
        ("calls < 0.5x", QUICK, QUICK[:500], True, False),
        ("calls < 0.5x", QUICK, QUICK[:1500], False, False),
        ("lost > 100ms/s", QUICK, SLOW, True, False),
        ("lost > 100s/s", QUICK, SLOW, False, False),
        ("p99 > 1.5x", [], SLOW, False, False),
        ("p99 > 1.5x", QUICK, [], False, False),
    ],
)
def test_conditions_hold_fail_or_are_unsure(
    text: str, then: list[int], now: list[int], holds: bool, unsure: bool
) -> None:
    found = compare(alike(of(then)), alike(of(now)), ("operation",))
    met = condition(text).judge(found.difference, ())
    assert (bool(met.rows), bool(met.unsure)) == (holds, unsure)


@pytest.mark.parametrize(
    ("text", "holds"), [("errors > 0", True), ("errors > 5", False), ("errors > 1x", True)]
)
def test_conditions_on_errors(text: str, holds: bool) -> None:
    found = compare(alike(of(QUICK)), alike(of(QUICK, errors=3)), ("operation",))
    assert bool(condition(text).judge(found.difference, ()).rows) == holds


def test_host_gaps_are_not_judged() -> None:
    def gaps(ns: int) -> Window:
        return window([Calls(key("host gap", layer="host"), [ns] * 2_000)])

    found = compare(alike(gaps(1_000_000)), alike(gaps(9_000_000)), ("operation",))
    assert found.difference.p99_sure.any()
    assert np.isnan(found.difference.share).all()
    assert condition("p99 > 1.5x").judge(found.difference, ()).rows == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p99", "is not a condition"),
        ("p99 > ", "is not a condition"),
        ("p99 > 1.5", "write the limit of p99 with x or ns or us"),
        ("p98 > 1.5x", "unknown figure p98; use one of p50, p95"),
        ("faults > 1x", "write the limit of faults with no unit"),
        ("errors > 1ms", "write the limit of errors with no unit or x"),
        ("lost > 5ms", "write the limit of lost with ns/s"),
        ("p99 > 1e5x", "is not a condition"),
    ],
)
def test_an_invalid_condition_is_reported(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        condition(text)


def test_every_figure_can_be_judged() -> None:
    units = {"lost": "1ms/s", "faults": "1", "errors": "1", "calls": "1x"}
    found = compare(alike(of(QUICK)), alike(of(SLOW)), ("operation",))
    for figure in FIGURES:
        condition(f"{figure} > {units.get(figure, '1x')}").judge(found.difference, ())


def test_faults_are_new_gone_worse_better_or_the_same() -> None:
    def named(_: str) -> str:
        return "train"

    then = [chain("cpu", 10), chain("disk", 100), chain("lock", 10), chain("net", 10)]
    now = [chain("cpu", 100), chain("disk", 10), chain("lock", 12), chain("heat", 5, tenant="docker:bb")]
    found = {change.chain.cause: change.state for change in compare_chains(then, now, named, named)}
    assert found == {"heat": "new", "cpu": "worse", "lock": "same", "disk": "better", "net": "gone"}
    changes = compare_chains(then, now, named, named)
    assert [change.state for change in changes] == ["new", "worse", "same", "better", "gone"]
    assert sum(change.more_ms_per_s for change in changes) == pytest.approx(127 - 130)
    assert [change.ratio for change in changes] == [None, 10.0, pytest.approx(1.2), 0.1, None]
    assert sum(shares(changes)) == pytest.approx(1.0)
    assert shares(changes)[1] == pytest.approx(90 / 197)
    unsure = compare_chains([chain(confidence=0.4)], [chain(confidence=0.9)], named, named)
    assert unsure[0].confidence == 0.4


def test_a_chain_of_a_recording_costs_its_average() -> None:
    tally = ChainTally()
    for lost, still in ((40.0, True), (80.0, True), (80.0, False), (0.0, False)):
        tally.add(replace(of(QUICK), seconds=1.0, chains=(chain("cpu", lost, open=still),)))
    (found,) = tally.chains
    assert found.lost_ms_per_s == pytest.approx(120 / 4)
    assert found.open


def test_problems_that_ended_before_both_files_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = of(QUICK)
    old = chain("disk", open=False, seen=now.start - 600)
    recent = chain("lock", open=False, seen=now.start + 0.5)
    assert chains_of(replace(now, chains=(old, recent))) == (recent,)
    for one, listed in ((old, False), (recent, True)):
        both = replace(now, chains=(one,))
        code, out = ran(capsys, tmp_path, both, both, "--all")
        assert code == 0
        assert ("problems, A against B" in out) == listed
    tally = ChainTally()
    tally.add(replace(now, chains=(old, recent)))
    later = replace(now, start=now.start + 600, chains=(replace(recent, seen=now.start + 0.5), old))
    tally.add(later)
    assert [one.cause for one in tally.chains] == ["lock"]


def test_time_lost_has_the_ratio_of_the_means_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A few very long calls cost time, although most calls are faster."""
    then, now = [1_000_000] * 1_900 + [2_000_000] * 100, [900_000] * 1_999 + [900_000_000]
    _, out = ran(capsys, tmp_path, of(then), of(now))
    head = next(line for line in out.splitlines() if "lost/s" in line)
    line = next(line for line in out.splitlines() if line.startswith("train"))
    assert "mean B/A" in head
    assert line.split()[2:4] == ["+599ms", "1.29x"]
    assert "0.45x" in line
    found = compare(alike(of(then)), alike(of(now)), ("operation",)).difference
    assert found.mean_ratio[0] == pytest.approx(sum(now) / sum(then), rel=0.01)
    fresh = compare(alike(of(then)), alike(window([])), ("operation",)).difference
    assert np.isnan(fresh.mean_ratio).all()


def test_the_table_shows_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = ran(capsys, tmp_path, of(QUICK), of(SLOW, tenant="docker:bb"))
    assert code == 0
    line = next(line for line in out.splitlines() if line.startswith("train"))
    assert "cudaLaunchKernel" in line
    assert "2.00x " in line
    assert "100%" in line


@pytest.mark.parametrize(("calls", "marked"), [(50, True), (2_000, False)])
def test_a_ratio_that_may_be_chance_has_a_question_mark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], calls: int, marked: bool
) -> None:
    _, out = ran(capsys, tmp_path, of(QUICK[:calls]), of(SLOW[:calls]), "--all")
    line = next(line for line in out.splitlines() if line.startswith("train"))
    assert ("2.00x?" in line) == marked
    assert "?: may be chance, too few calls" in " ".join(out.split())


def test_a_problem_is_as_certain_as_its_less_certain_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    then, now = (replace(of(QUICK), chains=(chain(confidence=sure),)) for sure in (0.9, 0.4))
    _, out = ran(capsys, tmp_path, then, now, "--all")
    assert "cause 40 % certain)" in " ".join(out.split())


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--fail-if", "p99 > 1.5x"], 1, "FAILED  p99 > 1.5x: train > cudaLaunchKernel"),
        (["--fail-if", "p99 > 3x"], 0, "ok      p99 > 3x"),
        (["--fail-if", "p99 > 3x", "--fail-if", "max > 1ms"], 1, "FAILED  max > 1ms"),
        (["--fail-if", "p99 > 1.5x", "--filter", "op:memcpy"], 0, "ok      p99 > 1.5x"),
    ],
)
def test_the_exit_code_follows_the_conditions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int, said: str
) -> None:
    found, out = ran(capsys, tmp_path, of(QUICK), of(SLOW), *options)
    assert found == code
    assert said in out


def test_unsure_conditions_fail_only_with_the_option_unsure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = of(QUICK[:50]), of(SLOW[:50])
    code, out = ran(capsys, tmp_path, *few, "--fail-if", "p99 > 1.5x")
    assert code == 0
    assert "perhaps met by 1 of the rows: too few calls to be sure" in out
    assert ran(capsys, tmp_path, *few, "--fail-if", "p99 > 1.5x", "--unsure")[0] == 1


def test_new_faults_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    then, now = full_window(), full_window()
    healthy = replace(then, chains=(chain("nothing", severity="info"),))
    code, out = ran(capsys, tmp_path, healthy, now, "--fail-if", "faults > 0")
    assert code == 1
    assert "NEW " in out
    assert re.search(r"NEW +HIGH .*of the change, cause (\d+ % )?certain\)", " ".join(out.split()))
    assert ran(capsys, tmp_path, then, now, "--fail-if", "faults > 0")[0] == 0
    code, out = ran(capsys, tmp_path, then, now, "--fail-if", "faults < 1")
    assert code == 1
    assert "FAILED  faults < 1: 0 new" in out


def test_containers_without_a_match_are_compared_by_operation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(save(one, tmp_path / name)) for one, name in ((of(QUICK), "a"), (of(SLOW, name="x"), "b"))]
    assert cli.main(["diff", *paths, "--json"]) == 0
    told = capsys.readouterr()
    assert "compared by operation" in told.err
    assert json.loads(told.out)["by"] == ["operation"]


def test_the_json_says_how_sure_a_change_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = ran(
        capsys,
        tmp_path,
        of(QUICK),
        of(SLOW),
        "--json",
        "--fail-if",
        "p99 > 1.5x",
        "--by",
        "process,operation",
    )
    assert code == 1
    found = json.loads(out)
    assert found["schema"] == SCHEMA
    (row,) = found["rows"]
    assert (row["process"], row["state"], row["sure"]) == ("python3", "both", True)
    assert row["p99"]["sure"]
    assert row["p99"]["now"]["least_ns"] <= row["p99"]["now"]["ns"]
    assert row["then"]["calls"] == 2_000
    assert found["conditions"] == [
        {
            "condition": "p99 > 1.5x",
            "holds": True,
            "rows": [["python3", "cudaLaunchKernel"]],
            "unsure": [],
            "faults": 0,
        }
    ]
    documented = DOCS.read_text()
    for name in {*found, *row, *found["then"], *row["then"], *row["p99"], *row["p99"]["now"]}:
        assert f"`{name}`" in documented, f"docs/diff.md says nothing of {name}"


def test_conditions_fail_where_a_part_of_a_file_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write_file(tmp_path / "file", windows_of(random_calls(3))))
    condition = ["--fail-if", "p99 > 1000x"]
    assert cli.main(["diff", path, path, *condition]) == 0
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE counts SET calls = calls + 1 WHERE window_id = 1 AND place = 0")
    capsys.readouterr()
    assert cli.main(["diff", path, path]) == 0
    assert "left out" in capsys.readouterr().err
    assert cli.main(["diff", path, path, *condition]) == 1
    assert "a part of" in capsys.readouterr().err


def test_rows_match_if_one_file_has_no_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = full_window()

    def on(path: Path, *devices: str) -> Path:
        keys = tuple(
            key_._replace(device=devices[at % len(devices)]) for at, key_ in enumerate(one.rows.keys)
        )
        return record(path, [replace(one, rows=replace(one.rows, keys=keys))])

    then, now = on(tmp_path / "then.stalltop", ""), on(tmp_path / "now.stalltop", "0", "0:1", "1")
    assert cli.main(["diff", str(then), str(now), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"]
    assert {(row["state"], row["lost_ns_per_s"]) for row in told["rows"]} == {("both", 0.0)}
    assert {fault["state"] for fault in told["faults"]} <= {"both", "same"}


def test_names_are_not_cut_in_a_pipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"cudaLaunch{'Cooperative' * 9}Kernel"
    made = window([Calls(RowKey("h", "docker:aa", 1, "python3", "runtime", name), SLOW)])
    monkeypatch.delenv("COLUMNS", raising=False)
    assert f" {name} " in ran(capsys, tmp_path, of(QUICK), made)[1]
    monkeypatch.setenv("COLUMNS", "100")
    assert name not in ran(capsys, tmp_path, of(QUICK), made)[1]


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_lines_fit_the_width_and_hostile_names_are_harmless(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    rows = [Calls(RowKey("h", f"t{n}", n, name, "runtime", name), SLOW[:300]) for n, name in enumerate(NAMES)]
    made = window(rows)
    named = replace(made, tenants={f"t{n}": Tenant(f"t{n}", name) for n, name in enumerate(NAMES)})
    code, out = ran(capsys, tmp_path, of(QUICK), named, "--by", "container,process,operation", "--all")
    assert code == 0
    assert all(line.isprintable() for line in out.splitlines())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--by", "colour"], "unknown dimension 'colour'; use container"),
        (["--by", "device"], "unknown dimension 'device'"),
        (["--by", "container,container"], "names a dimension twice"),
        (["--fail-if", "p99 > 2"], "write the limit of p99 with x"),
        (["--filter", "/(/"], "is not a valid regular expression"),
    ],
)
def test_bad_options_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    paths = [str(save(of(QUICK), tmp_path / name)) for name in "ab"]
    try:
        code = cli.main(["diff", *paths, *options])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert said in capsys.readouterr().err
