"""Tests answers of queries against known single calls, in each form in which calls can be queried."""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest

from stalltop.recordings.query import ready, rewrite
from stalltop.recordings.query.ask import answer
from stalltop.recordings.read.reading import open_file
from stalltop.recordings.views import batches
from stalltop.recordings.views.forms import Form
from tests.queries import LAUNCHES, NCCL
from tests.windows.full import full_window
from tests.windows.known_calls import (
    LAUNCH,
    Call,
    random_calls,
    recorded,
    windows_of,
    write_file,
)

CONTAINERS = {"docker:aa": "train", "docker:bb": f"serve@{'b' * 12}", "cri:cc": f"serve@{'c' * 12}"}
SEEDS = range(15)


def asked(path: Path, sql: str, least: int = Form.SUMS) -> list[tuple[Any, ...]]:
    with open_file(path) as file:
        return list(answer(file, sql, 60, least=least).rows)


def expanded(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """Returns the answer of ``sql`` if it runs unchanged over single calls. Rewritten queries must give the
    same answer."""

    def planned(sql: str, *_: object, **__: object) -> rewrite.Plan:
        plan = rewrite.unread(sql)
        for need in plan.needs:
            # Failed calls are estimated separately for each CUDA kernel only if the query names CUDA kernels.
            need.kernels = "kernel_name" in sql
        return plan

    with mock.patch.object(rewrite, "planned", planned):
        return asked(path, sql)


def grouped(calls: Sequence[Call], *, layer: str) -> dict[tuple[str, str | None], list[Call]]:
    groups = defaultdict(list)
    for call in calls:
        if call.nested or (call.layer == "nccl") != (layer == "nccl") or call.layer == "host":
            continue
        what = call.operation if layer == "nccl" else None
        if call.operation == LAUNCH:
            what = call.kernel or "(unknown)"
        groups[CONTAINERS[call.tenant], what].append(call)
    return groups


@pytest.mark.parametrize("seed", SEEDS)
def test_launches_by_cuda_kernel_are_exact(seed: int, tmp_path: Path) -> None:
    calls = random_calls(seed)
    path = write_file(tmp_path / "file", windows_of(calls))
    found = {row[:2]: row[2:] for row in asked(path, LAUNCHES)}
    truth = grouped(calls, layer="cuda")
    assert len(found) == min(len(truth), 20)
    for key, (launches, total_ms) in found.items():
        assert launches == len(truth[key])
        assert total_ms == pytest.approx(sum(call.duration_ns for call in truth[key]) / 1e6)
    assert [row[3] for row in asked(path, LAUNCHES)] == sorted(
        (one[1] for one in found.values()), reverse=True
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_nccl_calls_are_exact(seed: int, tmp_path: Path) -> None:
    calls = random_calls(seed)
    found = {row[:2]: row[2:] for row in asked(write_file(tmp_path / "file", windows_of(calls)), NCCL)}
    truth = grouped(calls, layer="nccl")
    assert set(found) == set(truth)
    for key, (number, mean_ms, most_ms) in found.items():
        durations = [call.duration_ns for call in truth[key]]
        assert number == len(durations)
        assert mean_ms == pytest.approx(sum(durations) / len(durations) / 1e6)
        assert most_ms == max(durations) / 1e6


@pytest.mark.parametrize("seed", SEEDS)
def test_calls_are_separated_by_device(seed: int, tmp_path: Path) -> None:
    calls = [call for call in random_calls(seed) if call.layer == "nccl"]
    truth: defaultdict[str | None, list[int]] = defaultdict(list)
    for call in calls:
        truth[call.device or None].append(call.duration_ns)
    sql = "SELECT device, COUNT(*), SUM(duration_ns), MAX(duration_ns) FROM nccl_events GROUP BY device"
    found = asked(write_file(tmp_path / "file", windows_of(calls)), sql)
    assert {device: tuple(figures) for device, *figures in found} == {
        device: (len(durations), sum(durations), max(durations)) for device, durations in truth.items()
    }


def test_captured_calls_have_their_own_times(tmp_path: Path) -> None:
    calls = [call._replace(kept=True) for call in random_calls(3) if call.operation == "ncclAllReduce"]
    path = write_file(tmp_path / "file", windows_of(calls))
    rows = asked(path, "SELECT duration_ns, error, kept, tid, start_ns % 1000000000 FROM nccl_events")
    assert sorted(row[0] for row in rows) == sorted(call.duration_ns for call in calls)
    assert sum(row[1] for row in rows) == sum(call.error for call in calls)
    assert {row[2:] for row in rows} == {(1, 7, 1_000)}


# Parts of random queries. Their answers must not depend on the form in which calls are queried: as sums, as
# groups of equal calls, or one by one.
_COARSE = (
    "op",
    "pid",
    "process",
    "layer",
    "device",
    "kernel_name",
    "e.cgroup_id",
    "window_start",
    "c.name",
    "container_id",
)
_MEASURES = ("duration_ns", "bytes", "error", "pid", "duration_ns / 1e3", "duration_ns * 2 + bytes", "-bytes")
_AGGREGATES = (
    *("COUNT(*)", "COUNT({m})", "SUM({m})", "AVG({m})", "TOTAL({m})", "MAX(duration_ns)", "MIN(pid)"),
    *(
        "MIN(duration_ns)",
        "MAX(bytes)",
        "COUNT(DISTINCT {c})",
        "COUNT(kernel_name)",
        "SUM(duration_ns / 1000)",
    ),
    "SUM(CASE WHEN op LIKE '%Launch%' THEN {m} ELSE 0 END)",
    "SUM(CASE WHEN op LIKE '%Launch%' THEN {m} END)",
    "AVG(CASE pid WHEN 100 THEN {m} END)",
    "SUM(iif(error, duration_ns, 0))",
    "COUNT(*) FILTER (WHERE pid = 100)",
    "SUM({m}) FILTER (WHERE c.kind = 'container')",
    "SUM({m}) FILTER (WHERE duration_ns > 1000000)",
    "MAX(duration_ns / 1e6)",
    "MAX(CASE WHEN pid = 100 THEN duration_ns END)",
    "COUNT(*) * 2.0 / (1 + SUM(error))",
    "COUNT(NULLIF(duration_ns, 0))",
    "MAX(start_ns)",
    "SUM(kept)",
    "length(group_concat(DISTINCT layer))",
)
_CONDITIONS = (
    *(
        "pid = 100",
        "op LIKE '%Launch%'",
        "kernel_name IS NOT NULL",
        "window_start > 1700000000.5",
        "NOT error",
    ),
    *(
        "duration_ns > 1000000",
        "duration_ns BETWEEN 50 AND 4000",
        "c.name = 'serve'",
        "kernel_name = 'reduce'",
    ),
    *(
        "e.cgroup_id IN (SELECT cgroup_id FROM containers WHERE kind = 'pod')",
        "kept",
        "bytes > 0",
        "e.pid + 1 > 0",
    ),
    "EXISTS (SELECT 1 FROM operations o WHERE o.pid = e.pid AND o.op = e.op)",
)
_VIEWS = ("cuda_events", "cuda_events", "nccl_events", "host_events", "nested_events")
_JOIN = "FROM {view} e {join} JOIN containers c ON c.cgroup_id = e.cgroup_id"


def generated(random: Random) -> str:
    """Returns a random query that aggregates calls of a view by some of its columns."""
    keys = random.sample(_COARSE, random.randrange(4)) + (["error"] if random.random() < 0.1 else [])
    chosen = random.sample(_AGGREGATES, random.randint(1, 4))
    aggregates = [text.format(m=random.choice(_MEASURES), c=random.choice(_COARSE)) for text in chosen]
    named = [f"{text} AS a{at}" for at, text in enumerate(aggregates)]
    source = _JOIN.format(view=random.choice(_VIEWS), join=random.choice(("", "LEFT", "INNER")))
    conditions = random.sample(_CONDITIONS, random.choice((0, 0, 1, 2)))
    sql = f"SELECT {', '.join([*keys, *named])} {source}"
    sql += f" WHERE {random.choice((' AND ', ' OR ')).join(conditions)}" if conditions else ""
    sql += f" GROUP BY {', '.join(keys)}" if keys else ""
    if keys and random.random() < 0.3:
        sql += f" HAVING {random.choice(('COUNT(*) > 1', 'a0 IS NOT NULL', 'SUM(duration_ns) > 5000'))}"
    if random.random() < 0.2:
        sql = f"WITH found AS ({sql}) SELECT * FROM found ORDER BY 1"
    elif random.random() < 0.2:
        sql = f"SELECT count(*), total(a0) FROM ({sql})"
    return sql


def alike(first: list[tuple[Any, ...]], second: list[tuple[Any, ...]]) -> bool:
    """Returns whether two answers have the same rows in any order; sums of floats may differ slightly."""
    if len(first) != len(second):
        return False
    return all(
        len(one) == len(other) and all(map(_same, one, other))
        for one, other in zip(sorted(first, key=_order), sorted(second, key=_order), strict=True)
    )


def _order(row: tuple[Any, ...]) -> list[tuple[int, str]]:
    return [
        (0, "") if cell is None else (1, f"{cell:.9g}" if isinstance(cell, float) else str(cell))
        for cell in row
    ]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)
    return bool(one == other) and type(one) is type(other)


@pytest.mark.parametrize("seed", range(15))
def test_random_queries_have_one_answer_in_all_forms(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    path = write_file(tmp_path / "file", windows_of(random_calls(seed, most=60)))
    for _ in range(3):
        sql = generated(random)
        truth = expanded(path, sql)
        for form in Form:
            assert alike(asked(path, sql, form), truth), (form, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT op, kernel_name FROM cuda_events",
        "SELECT DISTINCT duration_ns FROM nccl_events",
        "SELECT op, duration_ns, bytes FROM cuda_events ORDER BY duration_ns DESC, op, bytes LIMIT 7",
        "SELECT op, duration_ns FROM cuda_events ORDER BY duration_ns, op LIMIT 5 OFFSET 3",
        "SELECT duration_ns / 1e6 AS ms FROM cuda_events WHERE pid = 100 ORDER BY ms DESC LIMIT 9",
        "SELECT e.duration_ns FROM containers c JOIN cuda_events e USING (cgroup_id) ORDER BY 1 DESC LIMIT 9",
        "SELECT duration_ns FROM cuda_events WHERE bytes = 0 ORDER BY duration_ns DESC LIMIT 4 OFFSET 2",
        "SELECT duration_ns AS op FROM cuda_events WHERE kernel_name IS NULL ORDER BY op DESC LIMIT 4",
        "SELECT duration_ns / 1000 AS us FROM nccl_events ORDER BY us DESC LIMIT 6",
        "SELECT duration_ns FROM nccl_events WHERE window_start < 17e8 + 1 ORDER BY duration_ns DESC LIMIT 3",
        "SELECT -duration_ns FROM nccl_events ORDER BY -duration_ns DESC LIMIT 3",
        "SELECT count(*) FROM (SELECT pid FROM cuda_events)",
        "SELECT count(*) FROM cuda_events a JOIN nccl_events b USING (pid, window_id)",
        "SELECT op, duration_ns, row_number() OVER (ORDER BY duration_ns) FROM nccl_events",
        "SELECT op FROM nccl_events UNION ALL SELECT op FROM host_events",
        "SELECT layer, sum(n) FROM (SELECT layer, count(*) AS n FROM cuda_events GROUP BY 1) GROUP BY 1",
        "SELECT name, (SELECT count(*) FROM cuda_events e WHERE e.pid = real_cgroup_id + 29) FROM containers",
        "SELECT c.name, count(e.pid) FROM containers c LEFT JOIN nccl_events e USING (cgroup_id) GROUP BY 1",
        "WITH cuda_events AS (SELECT 1 AS one UNION ALL SELECT 2) SELECT count(*), sum(one) FROM cuda_events",
        "SELECT count(*) AS pid FROM cuda_events GROUP BY op HAVING pid > 100",
        "SELECT op AS layer, count(*) FROM cuda_events GROUP BY layer",
        "SELECT avg(duration_ns) AS duration_ns FROM cuda_events GROUP BY op ORDER BY duration_ns",
        "SELECT c.name FROM containers c LEFT JOIN nccl_events e USING (cgroup_id) WHERE e.pid IS NULL",
        "SELECT count(*) FROM containers c LEFT JOIN nccl_events e USING (cgroup_id) WHERE e.pid IS NULL",
        "SELECT w.level, count(*), sum(duration_ns) FROM cuda_events JOIN windows w USING (window_id)",
        "SELECT sum(window_seconds) FROM cuda_events NATURAL JOIN windows WHERE duration_ns > 5000",
        "SELECT op, (SELECT sum(e.pid) FROM containers) FROM cuda_events e GROUP BY op",
        "SELECT op, (SELECT sum(e.pid + cgroup_id) FROM containers) FROM cuda_events e GROUP BY op, pid",
        "SELECT count(*), sum(a.bytes) FROM cuda_events a JOIN kept_calls k USING (duration_ns)",
        "SELECT op, duration_ns, rank() OVER (ORDER BY duration_ns) FROM nccl_events WHERE pid = 100",
        "SELECT count(nullif(duration_ns, 90)), count(pid / bytes), avg(1 / error) FROM cuda_events",
        "SELECT 100 * sum(error) / count(*) FROM cuda_events",
        "SELECT CAST(window_start / 2 AS INTEGER) AS two, count(*) FROM cuda_events GROUP BY two",
        "SELECT count(*) FROM temp.cuda_events",
        'SELECT count(*) FROM cuda_events WHERE op = "cuStreamSynchronize"',
        "SELECT count(*) FROM (cuda_events e JOIN containers c USING (cgroup_id))",
        "SELECT count(*) FROM (SELECT * FROM cuda_events LIMIT 3)",
        "SELECT max(duration_ns), op, pid, kernel_name FROM cuda_events",
        "SELECT group_concat(op) IS NOT NULL FROM cuda_events",
        "SELECT sum(CAST(duration_ns AS NUMERIC) / 1000), typeof(CAST(count(*) AS DECIMAL)) FROM cuda_events",
        "SELECT mod(count(*), 7.5), typeof(mod(sum(pid), 2)) FROM cuda_events",
        "SELECT CAST(avg(duration_ns) AS INTEGER), CAST(sum(bytes) AS REAL) FROM cuda_events",
        "SELECT json_group_array(duration_ns) = '[]' FROM nccl_events",
        "SELECT sum(duration_ns) FROM cuda_events, containers USING (cgroup_id) WHERE real_cgroup_id = 0",
    ],
)
def test_selected_queries_have_one_answer_in_all_forms(sql: str, tmp_path: Path) -> None:
    path = write_file(tmp_path / "file", windows_of(random_calls(11, most=90)))
    truth = expanded(path, sql)
    for form in Form:
        assert alike(asked(path, sql, form), truth), form


@pytest.mark.parametrize("seed", range(10))
def test_many_windows_are_merged_before_their_calls_are_queried(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = random_calls(seed, most=200, windows=8)
    # Calls without devices fall into fewer, larger rows. Durations of launches without a known CUDA kernel
    # are estimated, and the estimate is coarser in small rows.
    calls = [call._replace(device="") for call in calls]
    path = write_file(tmp_path / "file", windows_of(calls))
    sql = (
        "SELECT container_id, kernel_name, op, count(*), sum(duration_ns), max(duration_ns), sum(error),"
        " sum(bytes), count(*) FILTER (WHERE duration_ns >= 0)"
        " FROM cuda_events JOIN containers USING (cgroup_id) GROUP BY 1, 2, 3"
    )
    apart = asked(path, sql, Form.ALIKE)
    monkeypatch.setattr(batches, "MOST_APART", 0)
    monkeypatch.setattr(batches, "_AT_ONCE", 7)
    assert alike(apart, asked(path, sql, Form.ALIKE))


@pytest.mark.parametrize("together", [False, True])
def test_a_condition_on_windows_selects_their_calls(
    together: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = random_calls(4, most=300, windows=8)
    path = write_file(tmp_path / "file", windows_of(calls))
    if together:
        monkeypatch.setattr(batches, "MOST_APART", 0)
    sql = (
        "SELECT op, count(*), max(duration_ns) FROM cuda_events"
        " WHERE window_start >= 1700000003 AND pid = 100 AND duration_ns > 0 GROUP BY op"
    )
    truth = defaultdict(list)
    for call in calls:
        cuda = call.layer in ("runtime", "driver") and not call.nested
        if cuda and call.duration_ns and call.window >= 3 and call.pid == 100:
            truth[call.operation].append(call.duration_ns)
    expected = sorted((op, len(one), max(one)) for op, one in truth.items())
    assert sorted(asked(path, sql)) == expected
    joined = sql.replace("FROM cuda_events", "FROM cuda_events JOIN windows w USING (window_id)")
    assert sorted(asked(path, joined.replace("WHERE window_start", "WHERE w.window_start"))) == expected


def test_percentiles_are_those_of_all_calls(tmp_path: Path) -> None:
    calls = [call for seed in range(5) for call in random_calls(seed) if call.operation == "ncclAllReduce"]
    path = write_file(tmp_path / "file", windows_of(calls))
    sql = "SELECT p(hmerge(histogram), 50), p(hmerge(histogram), 100), SUM(calls) FROM operations"
    [(median, most, number)] = asked(path, sql)
    durations = sorted(call.duration_ns for call in calls)
    assert number == len(durations)
    assert median == pytest.approx(durations[(len(durations) - 1) // 2], rel=0.009, abs=1)
    assert most == pytest.approx(durations[-1], rel=0.009, abs=1)
    whole = "hmerge(histogram)"
    sql = f"SELECT p({whole}, 99), p99({whole}), percentile({whole}, 99), p999({whole}), p50({whole}, 1)"
    ((long, short, word, tail, bounded),) = asked(path, f"{sql} FROM operations")
    assert long == short == word <= tail
    assert bounded == 1
    assert asked(path, "SELECT p(NULL, 50), p(hmerge(NULL), 50)") == [(None, None)]


def test_a_file_without_calls_gives_no_rows(tmp_path: Path) -> None:
    path = write_file(tmp_path / "file", [])
    assert asked(path, "SELECT COUNT(*), SUM(duration_ns), MAX(duration_ns) FROM cuda_events") == [
        (0, None, None)
    ]
    assert asked(path, LAUNCHES) == []
    assert asked(path, "SELECT * FROM cuda_events") == []


def test_every_view_has_its_documented_columns(tmp_path: Path) -> None:
    from stalltop.recordings.views.catalogue import VIEWS

    path = write_file(tmp_path / "file", [full_window()])
    for view in VIEWS:
        with open_file(path) as file:
            found = answer(file, f"SELECT * FROM {view.name}", 60)
            assert found.columns == view.names
            assert list(found.rows) or view.name == "host_events"


def test_a_file_can_be_queried_while_it_is_written(tmp_path: Path) -> None:
    path = write_file(tmp_path / "file", windows_of(random_calls(1)))
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("UPDATE windows SET level = 0")
    try:
        with open_file(path) as file:
            found = answer(file, "SELECT COUNT(*) > 0 FROM cuda_events", 60)
            # The query holds no lock before its rows are read, so the whole log can be checkpointed.
            assert writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
            assert list(found.rows) == [(1,)]
    finally:
        writer.close()


def test_columns_of_results_are_named_as_typed(tmp_path: Path) -> None:
    with recorded(tmp_path / "file", random_calls(1)) as file:
        found = answer(
            file, "SELECT Op, COUNT(*), sum(duration_ns)/1e6, MAX(duration_ns) AS Most FROM cuda_events", 60
        )
        assert found.columns == ("Op", "COUNT(*)", "sum(duration_ns)/1e6", "Most")


def test_a_percentile_can_be_limited_to_the_longest_call(tmp_path: Path) -> None:
    path = write_file(tmp_path / "file", windows_of(random_calls(3)))
    above = "SELECT count(*) FROM operations WHERE p(histogram, 100{}) > max_ns"
    assert asked(path, above.format(""))[0][0] > 0
    assert asked(path, above.format(", max_ns")) == [(0,)]
    assert asked(path, "SELECT count(*) FROM operations WHERE p(histogram, 100, max_ns) < max_ns") == [(0,)]
    assert asked(path, "SELECT p(histogram, 50, NULL) = p(histogram, 50) FROM operations LIMIT 1") == [(1,)]


def test_the_slowest_calls_include_captured_and_counted_ones(tmp_path: Path) -> None:
    calls = [call for call in random_calls(4) if call.layer != "host" and not call.nested]
    path = write_file(tmp_path / "file", windows_of(calls))
    slowest = max(call.duration_ns for call in calls)
    found = asked(path, ready.query("slowest-calls"))
    assert found[0][5] == pytest.approx(slowest / 1e6)
    assert len(found) == min(20, len(calls))
    assert {row[6] for row in found} == {"kept", "counted"}
    assert [row[5] for row in found] == sorted((row[5] for row in found), reverse=True)


def test_an_ended_chain_costs_nothing(tmp_path: Path) -> None:
    path = write_file(tmp_path / "file", [full_window()])
    [(ended, costing)] = asked(path, "SELECT sum(NOT open), sum(NOT open AND lost_ms_per_s > 0) FROM chains")
    assert ended > 0
    assert not costing
    assert asked(path, "SELECT count(*) = sum(lost_ms_per_s IS NOT NULL) FROM chains WHERE open") == [(1,)]


def test_a_call_that_launches_several_cuda_kernels_has_no_kernel_name(tmp_path: Path) -> None:
    """The list of CUDA kernels on the screen leaves such a call out, too."""
    calls = [
        Call(0, "docker:aa", 100, "runtime", operation, False, None, 1_000, False, 0, False)
        for operation in ("cudaLaunchKernel", "cudaLaunchCooperativeKernelMultiDevice")
    ]
    path = write_file(tmp_path / "file", windows_of(calls))
    assert asked(path, "SELECT op, kernel_name FROM cuda_events ORDER BY length(op)") == [
        ("cudaLaunchKernel", "(unknown)"),
        ("cudaLaunchCooperativeKernelMultiDevice", None),
    ]
