"""Tests ``stalltop query``: output and exit codes."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from stalltop.cli import main as cli
from stalltop.model.text.glyphs import ASCII, UNICODE
from stalltop.recordings.query import ready
from stalltop.recordings.query.printing import write
from stalltop.recordings.views.catalogue import VIEWS
from tests.windows.full import full_window
from tests.windows.known_calls import random_calls, windows_of, write_file


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(write_file(tmp_path / "file.stalltop", windows_of(random_calls(2))))


def test_the_default_output_is_a_table(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT 'a' AS text, 12 AS number, 0.5 AS half, NULL AS missing, x'00' AS bytes"
    sql += " UNION ALL SELECT 'bcd', 3, 20, 1, 2"
    assert cli.main(["query", file, sql]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines() if line[0].isalnum()] == [
        ["text", "number", "half", "missing", "bytes"],
        ["a", "12", "0.500", "–", "(1", "bytes)"],
        ["bcd", "3", "20", "1", "2"],
    ]


def test_json_and_csv_have_all_columns_and_rows(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT container_id, COUNT(*) AS n, NULL AS missing, 9e999 AS much"
    sql += " FROM cuda_events JOIN containers USING (cgroup_id) GROUP BY 1"
    assert cli.main(["query", file, sql, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 3
    assert all(set(row) == {"container_id", "n", "missing", "much"} for row in found)
    assert {row["much"] for row in found} == {None}
    assert cli.main(["query", file, sql, "--format", "jsonl"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == found
    assert cli.main(["query", file, sql, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["container_id"], row["n"], row["missing"]) for row in rows] == [
        (row["container_id"], str(row["n"]), "") for row in found
    ]


@pytest.mark.parametrize("style", ["json", "jsonl", "csv", "table"])
def test_an_empty_answer_has_no_rows_in_any_format(
    file: str, style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["query", file, "SELECT 1 AS one WHERE 0", "--format", style]) == 0
    out = capsys.readouterr().out
    assert {"json": out == "[]\n", "jsonl": out == "", "csv": out == "one\n", "table": "one" in out}[style]


def test_sql_can_come_from_stdin(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 41 + 1 AS it; -- the answer\n"))
    assert cli.main(["query", file, "-", "--format", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out) == {"it": 42}


def test_sql_in_a_pipe_needs_no_dash(file: str, tmp_path: Path) -> None:
    typed = tmp_path / "query.sql"
    typed.write_text("SELECT 41 + 1 AS it")
    command = [sys.executable, "-m", "stalltop", "query", file, "--format", "jsonl"]
    with typed.open() as stdin:
        ran = subprocess.run(command, stdin=stdin, capture_output=True, text=True, timeout=120)
    assert json.loads(ran.stdout) == {"it": 42}
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 2
    assert "no query given" in ran.stderr


@pytest.mark.parametrize("name", ready.queries())
def test_named_queries_run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_file(tmp_path / "file", [full_window()])
    assert cli.main(["query", str(path), "--named", name, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, list)
    if name not in ("gaps",):
        assert found, name
    about = ready.queries()[name].about
    assert about
    assert about[0] != "-"
    assert len(about) <= 65


def test_queries_and_tables_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["query", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name} " in listed for name in ready.queries())
    assert cli.main(["query", "--tables", "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["table"] for row in rows} == {view.name for view in VIEWS}


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([], 2, "no file given"),
        (["FILE", "SELECT 1", "--named", "nccl"], 2, "cannot be combined"),
        (["FILE", "--named", "launch"], 2, "did you mean launches"),
        (["FILE", "--named", "zzz"], 2, "there are: allocations, block-io"),
        (["FILE", "SELECT missing FROM containers"], 2, "there is no column"),
        (["/nowhere/at/all", "SELECT 1"], 2, "cannot read"),
        (
            [
                "FILE",
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
                "--limit-seconds",
                "0.1",
            ],
            1,
            "--limit-seconds",
        ),
    ],
)
def test_errors_are_reported(
    arguments: list[str], code: int, told: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["query", *(file if word == "FILE" else word for word in arguments)]) == code
    out, err = capsys.readouterr()
    assert told in err
    assert "Traceback" not in err
    assert out == ""


def test_another_database_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE windows (a)")
    assert cli.main(["query", str(path), "SELECT 1"]) == 2
    assert "no window" in capsys.readouterr().err


def test_a_table_fits_and_has_no_markup() -> None:
    out = io.StringIO()
    rows = [("[red]x\x1b[2J", "y" * 200, 1.0), ("short", "z", None)]
    assert write(out, "table", ("a", "b", "c"), rows, width=60, glyphs=ASCII) == 2
    lines = out.getvalue().splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert "\x1b" not in out.getvalue()
    assert "[red]x?[2J" in out.getvalue()
    assert lines[3].split() == ["short", "z", "-"]


def test_rows_are_written_while_they_arrive() -> None:
    out = io.StringIO()
    assert write(out, "table", ("n",), ((n,) for n in range(2_000)), width=None, glyphs=UNICODE) == 2_000
    assert out.getvalue().splitlines()[-1].strip() == "1999"
