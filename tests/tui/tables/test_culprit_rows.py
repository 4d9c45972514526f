"""Tests the rows of culprits: processes that make no calls, but take time from those that do."""

from __future__ import annotations

import re
from dataclasses import replace

from stalltop.diagnosis.causes import TELLINGS
from stalltop.model.chain import OTHERS, Chain, Fix, Link
from stalltop.model.evidence import Evidence, ProcessUse
from stalltop.model.rows.filter import parse
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from stalltop.tui.problems.culprit_rows import chains_by, culprit_rows
from stalltop.tui.problems.rows import row_losses
from stalltop.tui.row.facts import facts
from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.tables.table import lines_of
from stalltop.tui.tables.worst_first import WorstFirst
from stalltop.tui.views.groups import grouped
from stalltop.tui.views.path import PathStep
from stalltop.tui.views.trends import NO_TRENDS
from stalltop.tui.views.view import View
from tests.tui.faults import GAP, LAUNCH, REDUCE, chain, faulty
from tests.tui.screen import running

OPTIONS = RunOptions(interval=0.0, theme="dark", tellings=lambda: TELLINGS, tour=False)
BACKUP = Tenant("docker:zz", "backup", runtime="docker", container_id="zz", user="ops")
TAR = Link("culprit", "tar takes the CPU", 0.7, 300e6, BACKUP.id, 900, "tar", depth=2)
GZIP = Link("culprit", "gzip takes the CPU", 0.25, 100e6, BACKUP.id, 901, "gzip", depth=2)
LITTLE = Link("culprit", "cron takes the CPU", 0.05, 20e6, "docker:yy", 950, "cron", depth=2)
REST = Link("culprit", "others", 0.3, 90e6, process=OTHERS)
HOGGED = chain(
    "cpu_contention",
    GAP,
    severity="high",
    lost_ms_per_s=420.0,
    links=(TAR, GZIP, LITTLE, REST),
    fixes=(Fix("move tar", "taskset -acp 1 900"),),
)
USES = (
    ProcessUse(BACKUP.id, 900, "tar", cpu_ns=700_000_000, rss_bytes=1 << 20),
    ProcessUse(BACKUP.id, 901, "gzip", cpu_ns=200_000_000, rss_bytes=1 << 20),
    ProcessUse("docker:aa", 100, "python3", cpu_ns=100_000_000),
)


def hogged(*chains: Chain) -> Window:
    one = faulty(*chains)
    return replace(one, tenants={**one.tenants, BACKUP.id: BACKUP}, evidence=Evidence(processes=USES))


def test_the_main_culprits_of_a_problem_have_rows_with_their_resources() -> None:
    one = hogged(HOGGED)
    containers = culprit_rows(one.chains, one, View())
    assert [row.labels for row in containers.values()] == [("backup",)]
    processes = culprit_rows(one.chains, one, View(by="process"))
    assert [row.labels[0] for row in processes.values()] == ["tar 900", "gzip 901"]
    rows = grouped(one, ("container",), added=containers)
    at = rows.keys.index((BACKUP.id,))
    assert (rows.cpu_percent[at], rows.rss_bytes[at], rows.owners[at]) == (90.0, 2 << 20, ("ops",))
    assert rows.at[at] == -1
    assert rows.cpu_percent[rows.keys.index(("docker:aa",))] == 10.0


def test_tables_of_calls_and_rows_inside_others_have_none() -> None:
    one = hogged(HOGGED)
    assert not culprit_rows(one.chains, one, View(by="operation"))
    assert not culprit_rows(one.chains, one, View(by="device"))
    assert not culprit_rows(one.chains, one, View(by="process", path=(PathStep("container", "x", "x"),)))
    assert culprit_rows(one.chains, one, View(filter="backup"))
    assert not culprit_rows(one.chains, one, View(filter="train"))
    assert not culprit_rows((replace(HOGGED, severity="info"),), one, View())


def test_a_tenant_that_slows_itself_gets_no_second_row() -> None:
    own = replace(TAR, tenant=LAUNCH.tenant, pid=LAUNCH.pid, process=LAUNCH.process)
    one = hogged(chain("own_threads", LAUNCH, links=(own,)))
    assert not culprit_rows(one.chains, one, View())


def test_the_problem_is_found_from_the_row_of_its_culprit() -> None:
    one = hogged(HOGGED)
    assert chains_by((BACKUP.id,), one.chains, one, View()) == [HOGGED]
    assert not chains_by(("docker:aa",), one.chains, one, View())
    assert facts(one, (PathStep("container", BACKUP.id, "backup"),)).chains == (HOGGED,)


def test_a_culprit_follows_the_rows_that_lose_time_wherever_these_stand() -> None:
    one, view, worst = hogged(), View(), WorstFirst()

    def names(window: Window) -> list[str]:
        lost = row_losses(window.chains, window, view).lost_ms_per_s
        added = culprit_rows(window.chains, window, view)
        lines = lines_of(window, view, parse(""), None, NO_TRENDS, {}, lost, worst, added)
        return [line.rows.labels[line.i][0] for line in lines]

    victim = replace(HOGGED, tenant="cri:bb", pid=200, process="tritonserver", rows=(REDUCE,))
    assert names(one)[0] == "serve"
    assert names(hogged(victim)) == ["serve", "backup", "train"]
    assert names(hogged(replace(HOGGED, rows=(GAP,)))) == ["serve", "train", "backup"]


async def test_a_culprit_stands_below_the_rows_that_lose_time_and_leads_to_the_problem() -> None:
    async with running(hogged(HOGGED), size=(160, 45), options=OPTIONS) as screen:
        await screen.sees("backup ")
        lines = screen.text().splitlines()
        victim = next(at for at, line in enumerate(lines) if re.search(r"\btrain +H ", line))
        assert re.search(r"\bbackup +< .* 90.0%", lines[victim + 1])
        await screen.press("down", "i")
        await screen.sees("summary of cpu_contention")
        await screen.press("escape", "A")
        await screen.sees("taskset -acp 1 900")
        # It has no calls to go into: Enter opens its page, which says whose time it takes.
        await screen.press("escape", "enter")
        await screen.sees("lost by train; this row is the culprit")
        await screen.sees("gzip")


async def test_a_normal_fact_of_a_culprit_does_not_hide_whom_it_slows() -> None:
    own = chain("gpu_bound", REDUCE, severity="info", lost_ms_per_s=0.0)
    by = Link(
        "culprit", "tritonserver takes the CPU", 0.9, 300e6, REDUCE.tenant, 200, "tritonserver", depth=2
    )
    async with running(faulty(replace(HOGGED, links=(by,)), own), size=(160, 45), options=OPTIONS) as screen:
        await screen.named(["train", "serve"])
        await screen.press("down", "y")
        await screen.until(lambda: screen.app.clipboard == "taskset -acp 1 900")
