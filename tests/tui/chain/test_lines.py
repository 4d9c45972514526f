"""Tests the list of problems and the page of a chain, as lines of text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.formats.documents.window import document
from stalltop.model.chain import SEVERITIES, Chain, Link, Severity
from stalltop.model.devices.device import Device, Devices
from stalltop.model.text import figures
from stalltop.model.text.glyphs import ASCII, UNICODE
from stalltop.model.window import Missing, OpenCall
from stalltop.tui.chain.page import chain_page
from stalltop.tui.problems.chains import MARK, ROLE, Listed, chains_of, counts, listed, steady
from stalltop.tui.problems.folding import together
from stalltop.tui.problems.rows import row_losses
from stalltop.tui.tables.table import table
from stalltop.tui.views.path import PathStep
from stalltop.tui.views.view import View
from stalltop.widgets.page import PageLine
from tests.tui.faults import GAP, LATE, LAUNCH, OVER, REDUCE, STARVED, STORM, chain, faulty


def text(lines: list[PageLine]) -> list[str]:
    return ["".join(part for part, _ in line.parts) for line in lines]


def test_chains_sort_by_severity_then_oldest_first_with_ended_ones_last() -> None:
    newer = replace(STORM, id="newer", since=999.0)
    assert steady([OVER, newer, STORM, STARVED, LATE]) == (LATE, STARVED, STORM, newer, OVER)


def test_the_screen_lists_chains_as_documents_do() -> None:
    chains = [
        replace(STORM, id=str(lost), lost_ms_per_s=lost, since=lost) for lost in (5.0, 80.0, 40.0, 900.0)
    ]
    one = faulty(*chains, OVER, LATE)
    printed = [found["id"] for found in document(one)["chains"]]
    assert [found.id for found in listed(one).chains] == printed
    assert printed == [LATE.id, "900.0", "80.0", "40.0", "5.0", OVER.id]


def test_only_a_clearly_different_loss_moves_a_line() -> None:
    def shown(*losses: float, before: Listed | None = None) -> Listed:
        chains = [
            replace(STORM, id=name, lost_ms_per_s=lost) for name, lost in zip("ab", losses, strict=True)
        ]
        return listed(faulty(*chains), before=before.sorted_by if before else {})

    first = shown(60.0, 99.0)
    assert [found.id for found in first.chains] == ["a", "b"]  # the losses are too close to change the order
    edge = shown(60.0, 101.0, before=first)
    assert edge.chains == shown(60.0, 101.0, before=edge).chains
    assert [found.id for found in edge.chains] == ["a", "b"]
    assert [found.id for found in shown(60.0, 101.0).chains] == ["b", "a"]
    # A loss that grows in small steps eventually moves its line: the new loss is compared with the loss by
    # which the line was last sorted, not with the previous loss.
    assert [found.id for found in shown(60.0, 250.0, before=edge).chains] == ["b", "a"]
    worse = (
        replace(STORM, id="a", severity="high", lost_ms_per_s=1.0),
        replace(STORM, id="b", lost_ms_per_s=9.0),
    )
    assert [found.id for found in steady(worse, first.sorted_by)] == ["a", "b"]


def test_a_chain_that_comes_in_bursts_keeps_its_colour_and_place_for_some_seconds() -> None:
    calm = replace(STARVED, severity="low", lost_ms_per_s=1.0)
    first = listed(faulty(STARVED, STORM))
    assert [row.mark for row in first.rows] == ["H", "M"]
    second = listed(faulty(calm, STORM, number=4), before=first.sorted_by, held=first.held)
    assert [(row.mark, row.key) for row in second.rows] == [("H", STARVED.id), ("M", STORM.id)]
    assert counts(second.open) == (("high", 1), ("medium", 1))
    third = listed(faulty(calm, STORM, number=20), before=second.sorted_by, held=second.held)
    assert [(row.mark, row.key) for row in third.rows] == [("M", STORM.id), ("L", STARVED.id)]
    # The screen shows a past moment, so a severity that a line had at a later moment does not count. A worse
    # severity is shown at once, and so is ``info``.
    later: dict[str, tuple[Severity, float]] = {calm.id: ("high", 2_000.0)}
    assert [row.mark for row in listed(faulty(calm), held=later).rows] == ["L"]
    assert [row.mark for row in listed(faulty(STARVED, number=41), held=third.held).rows] == ["H"]
    bound = replace(calm, severity="info")
    assert [row.mark for row in listed(faulty(bound, number=1), held=first.held).rows] == ["-"]


def test_other_warnings_sort_among_chains_by_severity() -> None:
    one = faulty(LATE, STARVED, STORM, OVER)
    missing = Missing("/opt/app", "no symbols"), Missing("names", "no answer")
    one = replace(one, loss={"no_slot": 3}, coverage=replace(one.coverage, missing=missing))
    rows = listed(one, ["a note"]).rows
    assert [row.title or row.text for row in rows] == [
        "title of nccl_straggler",
        "title of loader_disk",
        "3 calls not counted: no histogram slot left for their process",
        "title of sync_storm",
        "a note",
        "title of reclaim",
        "not traced: /opt/app: no symbols",
        "not known: names: no answer",
    ]
    assert len({row.key for row in rows}) == len(rows)


def test_ended_and_informational_chains_share_one_line_per_cause_after_the_others() -> None:
    bound = chain("host_bound", severity="info")
    others = [replace(bound, id=name, tenant="cri:bb", links=()) for name in "ab"]
    later = replace(OVER, id="later", tenant="docker:aa", seen=960.0)
    found = listed(faulty(bound, *others, OVER, later, STORM))
    assert [(row.title, row.who, row.mark, row.key) for row in found.rows] == [
        ("title of sync_storm", "train", "M", STORM.id),
        ("2x title of reclaim", "serve, train", "C", "later"),
        ("3x title of host_bound", "serve, train", "-", found.rows[2].key),
    ]
    assert found.rows[1].ended == figures.clock(960.0)
    assert len(found.chains) == 6  # each chain has a page
    assert {row.lost for row in found.rows[1:]} == {""}


def test_the_line_of_a_chain_without_a_tenant_names_its_device() -> None:
    hot = chain("gpu_thermal", tenant="", links=(Link("mechanism", "it is hot", device="GPU 1"),))
    assert listed(faulty(hot)).rows[0].who == "GPU 1"


def test_devices_of_chains_in_one_line_are_counted_as_devices() -> None:
    def ended(number: int) -> Chain:
        links = (Link("mechanism", "it is hot", device=f"GPU {number}"),)
        return replace(OVER, id=f"hot{number}", tenant="", links=links)

    assert listed(faulty(ended(0), ended(1))).rows[0].who == "2 GPUs"
    assert listed(faulty(ended(1), replace(ended(1), id="again"))).rows[0].who == "GPU 1"
    assert listed(faulty(ended(1), replace(OVER, links=()))).rows[0].who == "several"


def test_problems_with_one_culprit_share_a_line_of_the_short_list() -> None:
    other = replace(STARVED, id="other", tenant="docker:cc", lost_ms_per_s=88.0)
    third = replace(STARVED, id="third", links=(STARVED.links[0],))
    one = faulty(STARVED, other, third, STORM)
    found = listed(one)
    lines = together([(found.chain(row.key), row) for row in found.rows], one)
    assert [(row.key, row.title) for row in lines] == [
        (STARVED.id, f"2x {STARVED.title}"),
        (third.id, third.title),
        (STORM.id, STORM.title),
    ]
    assert (lines[0].who, lines[0].lost.strip()) == ("2 tenants", "500ms/s")
    assert lines[1].who == "train"


def test_what_is_not_measured_is_listed_apart_from_warnings() -> None:
    one = faulty(STORM)
    found = listed(replace(one, evidence=replace(one.evidence, unknown=("PSI: not in this kernel",))))
    assert [row.key for row in found.rows] == [STORM.id]
    assert [row.text for row in found.aside] == ["not measured: PSI: not in this kernel"]


def test_a_line_names_victim_loss_culprit_and_fix() -> None:
    (row,) = listed(faulty(STARVED)).rows
    assert (row.mark, row.who, row.lost.strip(), row.where) == ("H", "train", "412ms/s", "time between calls")
    assert row.culprit == "serve: dd 201"
    assert row.fix == "ionice -c 3 -p 201"
    alone = replace(STARVED, links=(STARVED.links[0], Link("mechanism", "quota of 2 CPUs used up", 0.9)))
    assert listed(faulty(alone)).rows[0].culprit == "quota of 2 CPUs used up"
    assert listed(faulty(replace(STARVED, lost_ms_per_s=0.0))).rows[0].lost == ""


def test_a_warning_that_a_chain_explains_is_not_listed_again() -> None:
    call = OpenCall("cri:bb", 200, 201, "tritonserver", "nccl", "ncclAllReduce", 42_000_000_000)
    other = replace(call, pid=300, tid=301)
    hang = chain("nccl_hang", REDUCE)
    rows = listed(faulty(hang, calls=(call, other))).rows
    assert [row.text for row in rows if row.text] == [
        "ncclAllReduce open for 42.0s in serve: tritonserver 300 (thread 301)"
    ]
    # The open call has a line of its own if the chain has ended or is about something else.
    for chains in ((replace(hang, open=False),), (STORM,)):
        assert sum(bool(row.text) for row in listed(faulty(*chains, calls=(call,))).rows) == 1
    hot = Device(0, "GPU-1", "H100", throttle_reasons=("hw thermal",))
    cold = replace(hot, index=1, uuid="GPU-2")
    one = replace(faulty(), devices=Devices((hot, cold)))
    told = chain("gpu_thermal", links=(Link("mechanism", "it is hot", device="GPU 0"),))
    assert sum(bool(row.text) for row in listed(one).rows) == 2
    rows = listed(replace(one, chains=(told,))).rows
    assert [row.text for row in rows if row.text] == ["GPU 1 throttled: hw thermal"]


def test_silenced_chains_are_hidden_counted_and_can_be_shown() -> None:
    one = faulty(STARVED, STORM)
    hidden = listed(one, silenced={STARVED.id})
    assert [found.id for found in hidden.open] == [STORM.id]
    assert hidden.silenced == 1
    shown = listed(one, silenced={STARVED.id}, show_silenced=True)
    assert [row.key for row in shown.rows] == [STARVED.id, STORM.id]
    assert shown.rows[0].title == "(title of loader_disk)"


def test_every_severity_has_a_mark_of_its_own() -> None:
    assert set(MARK) == set(ROLE) == set(SEVERITIES)
    assert len(set(MARK.values())) == len(SEVERITIES)
    bound = chain("gpu_bound", severity="info")
    assert counts([STORM, STARVED, STORM, bound]) == (("high", 1), ("medium", 2))


@pytest.mark.parametrize(
    ("view", "marked"),
    [
        (View(), {("docker:aa",): "H", ("cri:bb",): "C"}),
        (
            View(by="operation"),
            {("host gap", "host"): "H", ("cudaLaunchKernel", "runtime"): "M", ("ncclAllReduce", "nccl"): "C"},
        ),
        (View(by="process", path=(PathStep("container", "docker:aa", "train"),)), {"gpu7/100/python3": "H"}),
        (View(by="layer"), {("host",): "H", ("runtime",): "M", ("nccl",): "C"}),
        (View(by="container", path=(PathStep("operation", "ncclAllReduce", ""),)), {("cri:bb",): "C"}),
    ],
)
def test_rows_with_a_chain_are_marked_in_every_grouping(view: View, marked: dict[object, str]) -> None:
    one = faulty(LATE, STARVED, STORM)
    found = row_losses(one.chains, one, view).marks
    if view.by == "process":
        assert {key[0]: cell.text for key, cell in found.items()} == marked
    else:
        assert {key: cell.text for key, cell in found.items()} == marked
    data = table(one, view, width=120, marks=found)
    shown = {row.key: row.mark.text for row in data.rows if row.mark}
    assert shown == {key: cell.text for key, cell in found.items()}


def test_a_row_leads_to_its_chains_the_worst_first() -> None:
    one = faulty(STARVED, STORM, LATE)
    view = View(by="operation")
    assert chains_of(("cudaLaunchKernel", "runtime"), one.chains, one, view) == [STARVED, STORM]
    assert chains_of(("ncclAllReduce", "nccl"), one.chains, one, view) == [LATE]
    # A chain that names no rows is listed for the row of its tenant.
    bare = replace(STORM, rows=(), operation="", layer="")
    assert chains_of(("docker:aa",), [bare], one, View()) == [bare]
    assert chains_of(("", ""), [bare], one, view) == []


def test_the_page_draws_the_tree_with_figures_culprits_and_fixes() -> None:
    shown = replace(STARVED, rows=(GAP, REDUCE))
    lines = text(chain_page(shown, faulty(shown), glyphs=UNICODE, letters=True))
    whole = "\n".join(lines)
    at = next(i for i, line in enumerate(lines) if line.startswith("Why"))
    assert lines[at + 1 : at + 6] == [
        "         500ms/s time between calls",
        "  90.0%  450ms/s ├─ waits for a worker",
        "  85.0%  425ms/s │  └─ the worker waits for a disk (loader 101, sda)",
        "  80.0%  400ms/s │     └─ serve loads the disk (dd 201, sda)",
        "   5.0% 25.0ms/s └─ waits for a CPU",
    ]
    for word in (
        *(" H high ", "title of loader_disk", "summary of loader_disk", "412 ms of each second", "80 %"),
        *("one worker only", "what dd reads", "use more workers", "slow dd down"),
        *("ionice -c 3 -p 201", "R─────────  time between calls", "ncclAllReduce  serve: tritonserver 200"),
    ):
        assert word in whole, word
    assert "time between calls  train" not in whole  # a row of the chain's own process does not name it
    assert whole.index("one worker only") > whole.index("What makes it worse")
    assert whole.index("What to do") < whole.index("What makes it worse")
    plain = "\n".join(text(chain_page(STARVED, faulty(STARVED), glyphs=ASCII, letters=True)))
    assert plain.isascii()
    assert "|  `- the worker" in plain


def test_the_page_shows_the_baseline_and_the_end_of_a_chain() -> None:
    learning = replace(STORM, p99_ns=9_000_000, calls=1200)
    assert "p99        9.00ms; 1,200 calls" in "\n".join(
        text(chain_page(learning, faulty(), glyphs=UNICODE, letters=False))
    )
    known = replace(learning, normal_p99_ns=40_000)
    assert "9.00ms, baseline 40.0µs (22,400% slower than usual for this program)" in "\n".join(
        text(chain_page(known, faulty(), glyphs=UNICODE, letters=False))
    )
    over = text(chain_page(replace(OVER, links=()), faulty(), glyphs=UNICODE, letters=False))
    assert "ended" in over[0]
    assert not any(line.startswith("Why") for line in over)
    assert "\n".join(over).count("ncclAllReduce") == 2  # once as the victim, once as a row


def test_the_page_lists_some_of_many_rows() -> None:
    many = replace(STARVED, rows=(GAP, LAUNCH, *(REDUCE for _ in range(30))))
    assert "  and 20 more" in text(chain_page(many, faulty(), glyphs=UNICODE, letters=False))
