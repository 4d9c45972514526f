"""Tests what a summary keeps of a window, and what a namespace may see of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stalltop.cli.tracing import diagnosed
from stalltop.demo.simulated.windows import SimulatedSource
from stalltop.fleet.messages.summary_message import decoded, encoded
from stalltop.formats.documents.fleet import fleet_document
from stalltop.model.chain import Link
from stalltop.model.evidence import Rank
from stalltop.model.fleet.condensing import ANOTHER, condensed, namespaces, seen_by
from stalltop.model.fleet.fleet_state import FleetState
from stalltop.model.fleet.host_summary import MOST_RANKS
from stalltop.model.fleet.past_problems import chain_of
from stalltop.model.fleet.problem_changes import ProblemChanges
from stalltop.model.hosts.collectives import entries_text
from stalltop.model.rows.pivot import pivot
from stalltop.model.window import Window
from tests.unit.model.fleet.summaries import at, problem, rank, summary
from tests.windows.full import full_window

NOW_NS = 1_800_000_000_000_000_000


@pytest.fixture(scope="module")
def simulated() -> Window:
    now = [1_800_000_000.0]
    source = diagnosed(SimulatedSource(tenants=20, clock=lambda: now[0]))
    for _ in range(12):
        now[0] += 1.0
        window = source.read()
    return window


def test_a_summary_has_one_or_two_kilobytes(simulated: Window) -> None:
    size = len(encoded(condensed(simulated, program="0.1.0", session="root 4711")))
    assert 500 < size < 2_500, size


def test_a_summary_has_the_figures_of_its_window(simulated: Window) -> None:
    found = condensed(simulated)
    groups = pivot(simulated, ("container",))
    assert found.calls == int(groups.calls.sum())
    assert found.tenants_in_all == len(groups)
    by_name = {simulated.tenants[key].name: at for at, (key,) in enumerate(groups.keys)}
    for tenant in found.tenants:
        assert tenant.calls == int(groups.calls[by_name[tenant.name]])
        assert tenant.p99_ns == int(groups.percentiles_ns[by_name[tenant.name]][2])
    faults = [one for one in simulated.chains if one.open and one.severity != "info"]
    assert faults
    assert found.problems_in_all == len(faults)
    assert {one.cause for one in found.problems} <= {one.cause for one in faults}


def test_a_problem_names_victim_and_culprit() -> None:
    window = full_window()
    found = condensed(window)
    chain = next(one for one in window.chains if one.open and one.severity != "info")
    told = next(one for one in found.problems if one.id == chain.identity)
    assert told.victim == window.tenants[chain.tenant].name
    assert told.namespace == window.tenants[chain.tenant].namespace
    culprit = chain.culprits[0]
    assert told.culprit in (window.tenants[culprit.tenant].name if culprit.tenant else "", culprit.process)


LINES = (
    Link("effect", "waits for data", tenant="a", depth=0),
    Link("line", "in train.py:41 next, from train.py:9 main", tenant="a", depth=1),
    Link("mechanism", "the loader reads from vda", tenant="a", pid=7, depth=1),
    Link("line", "in my loader.py:88 load, from loader.py:12 run", tenant="a", pid=7, depth=2),
    Link("culprit", "reads from vda", tenant="b", depth=2),
    Link("line", "in backup.py:3 copy", tenant="b", depth=3),
)


@pytest.mark.parametrize(
    ("links", "told"),
    [
        (LINES, "my loader.py:88"),
        (LINES[:3], "train.py:41"),
        ((LINES[0], *LINES[4:]), ""),
        ((LINES[0], Link("line", "in unknown code", tenant="a")), ""),
        ((LINES[0], Link("line", "in loader.py:88", tenant="a")), "loader.py:88"),
        ((), ""),
    ],
)
def test_a_problem_has_the_line_of_its_victim_nearest_to_the_cause(
    links: tuple[Link, ...], told: str
) -> None:
    window = full_window()
    chain = next(one for one in window.chains if one.open and one.severity != "info")
    changed = replace(window, chains=(replace(chain, tenant="a", links=links),))
    assert condensed(changed).problems[0].line == told


def test_a_namespace_sees_the_line_of_its_own_code() -> None:
    (seen,) = seen_by(summary(problem(namespace="ml", line="loader.py:88")), "ml").problems
    assert (seen.culprit, seen.line) == (ANOTHER, "loader.py:88")


def test_a_problem_of_the_past_has_its_line() -> None:
    told = problem(line="loader.py:88")
    chain = chain_of(at("node-1"), told)
    assert [link.text for link in chain.links if link.role == "line"] == ["in loader.py:88"]
    window = replace(full_window(), chains=(replace(chain, open=True),))
    assert condensed(window).problems[0].line == "loader.py:88"


def test_a_namespace_sees_its_own_part_only() -> None:
    mine, theirs = problem(namespace="ml"), problem(namespace="web", victim="shop")
    more: dict[str, Any] = {"culprit": "encode", "culprit_namespace": "ml", "summary": "encode takes its CPU"}
    inside = problem("cpu_contention", namespace="ml", **more)
    whole = summary(mine, theirs, inside)
    assert namespaces(whole) == {"ml", "web"}
    part = seen_by(whole, "ml")
    assert [one.victim for one in part.problems] == ["train", "train"]
    assert "storage-backup" not in str(part)
    assert "shop" not in str(part)
    assert part.problems[0].culprit == ANOTHER
    assert part.problems[1] == inside
    assert part.lost_ms_per_s == 200.0


def test_changes_of_problems_are_told_once() -> None:
    changes = ProblemChanges()

    def told(*problems: object) -> list[str]:
        return [one.change for one in changes.take(summary(*problems))]  # type: ignore[arg-type]

    assert told(problem(lost=100)) == ["opened"]
    assert told(problem(lost=120)) == []
    assert told(problem(lost=500)) == ["changed"]
    assert told(problem(lost=500, severity="critical")) == ["changed"]
    assert told() == ["closed"]
    assert told() == []


def test_a_problem_that_only_left_the_list_is_not_over() -> None:
    changes = ProblemChanges()
    changes.take(summary(problem()))
    assert changes.take(summary(problem("fsync", id="fsync/x"), problems_in_all=9))[0].change == "opened"
    assert [one.change for one in changes.take(summary())] == ["closed", "closed"]


def with_ranks(gpus: int, communicators: int, entries: str = "", process: str = "python3") -> Window:
    """Returns a window with a rank of each GPU in each communicator. The last communicator is that of the
    GPUs of this host alone; the first one is the largest."""
    ranks = [
        Rank(
            communicator=f"{(number + 1) * 0x1234567890ABCD:016x}",
            tenant="a",
            pid=40_000 + gpu,
            process=process,
            rank=gpu,
            ranks=gpus if number == communicators - 1 else 4096 >> number,
            local_ranks=gpus,
            entered=100_000 * number + gpu,
            since_entry_ns=gpu * 1_234_567,
            entries=entries or entries_text([(n, NOW_NS + n * 987_654_321 + gpu * 13_579) for n in range(8)]),
            nccl_hashes="0x6afe1cc17717e1f4 0xbf47c1d1a3e0b2c4",
        )
        for gpu in range(gpus)
        for number in range(communicators)
    ]
    window = full_window()
    return replace(window, evidence=replace(window.evidence, ranks=tuple(ranks)))


def test_eight_gpus_in_six_communicators_fit_into_a_summary() -> None:
    told = condensed(with_ranks(8, 6))
    assert len(told.ranks) == told.ranks_in_all == 48
    assert told.ranks_left_out == 0
    message = encoded(told)
    assert len(message) < 6_000, len(message)
    assert decoded(message) == told


def test_a_summary_says_how_many_ranks_it_leaves_out() -> None:
    told = decoded(encoded(condensed(with_ranks(16, 6))))
    assert (len(told.ranks), told.ranks_in_all, told.ranks_left_out) == (MOST_RANKS, 96, 32)
    # The ranks of the communicator of this host, and of the smallest other one, are left out.
    assert [one.ranks for one in told.ranks] == [4096] * 16 + [2048] * 16 + [1024] * 16 + [512] * 16
    state = FleetState()
    state.take(at("n1"), told, told.end)
    (host,) = state.view(told.end).hosts
    assert "32 of its 96 ranks are left out: a summary has no room for them" in host.remarks
    (line,) = fleet_document(state.view(told.end))["hosts"]
    assert (line["summary"]["ranks_in_all"], line["summary"]["ranks_left_out"]) == (96, 32)
    mine = seen_by(told, told.ranks[0].namespace)
    assert mine.ranks_left_out == 0


def test_ranks_with_the_longest_texts_fit_into_a_summary() -> None:
    entries = entries_text([(10**14 + n, NOW_NS + n) for n in range(16)])
    assert len(entries) > 500
    told = condensed(with_ranks(16, 6, entries, "0123456789abcde"))
    assert decoded(encoded(told)).ranks_left_out == 32


def test_a_host_of_an_earlier_release_leaves_out_no_ranks() -> None:
    assert summary(ranks=(rank(0, 1), rank(1, 1))).ranks_left_out == 0
