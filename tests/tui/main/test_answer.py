"""Tests the first lines of the main screen: which problem they show, for how long, and their keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.diagnosis.causes import TELLINGS
from stalltop.model.chain import Chain, Fix, Link, Severity
from stalltop.model.text.glyphs import ASCII
from stalltop.model.window import OpenCall, Window
from stalltop.tui.main.layout import ANSWER_FROM, layout
from stalltop.tui.problems.answer import STANDS_SECONDS, Answering, Standing, stand
from stalltop.tui.problems.chains import Listed, listed
from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.settings.settings import PANELS
from stalltop.widgets.answer import AnswerLines
from tests.tui.faults import GAP, LAUNCH, OVER, REDUCE, chain, faulty
from tests.tui.screen import Screen, running

OPTIONS = RunOptions(interval=0.0, theme="dark", tellings=lambda: TELLINGS, tour=False)
HOG = Link("culprit", "encode has the CPU", 1.0, 516e6, "cri:bb", 21741, "encode", depth=2)


def named(name: str, severity: Severity = "high", lost: float = 100.0) -> Chain:
    return replace(chain("gil", LAUNCH), id=name, severity=severity, lost_ms_per_s=lost)


A, B, WORSE = named("a"), named("b"), named("worse", "critical")


# ---- which problem is shown


def test_the_worst_problem_stands_at_once() -> None:
    assert stand(Standing(), (A, B), 100.0) == Standing("a", 100.0)
    assert stand(Standing("", 90.0), (B,), 100.0) == Standing("b", 100.0)


def test_a_sentence_stands_for_some_seconds_and_then_gives_way() -> None:
    shown = Standing("b", 100.0)
    assert stand(shown, (A, B), 100.0 + STANDS_SECONDS - 0.1) == shown
    assert stand(shown, (A, B), 100.0 + STANDS_SECONDS) == Standing("a", 100.0 + STANDS_SECONDS)
    # While the shown problem stays the worst, the time since which it is shown does not change.
    assert stand(shown, (B, A), 200.0) == shown


def test_a_worse_severity_and_an_end_change_the_sentence_at_once() -> None:
    shown = Standing("b", 100.0)
    assert stand(shown, (WORSE, A, B), 101.0) == Standing("worse", 101.0)
    assert stand(shown, (A,), 101.0) == Standing("a", 101.0)
    assert stand(shown, (), 101.0) == Standing("", 101.0)
    assert stand(Standing("", 101.0), (), 102.0) == Standing("", 101.0)


def test_a_less_severe_problem_gives_way_to_what_was_hidden() -> None:
    assert stand(Standing("b", 100.0), (A, replace(B, severity="medium")), 101.0) == Standing("a", 101.0)


def test_a_step_into_the_past_shows_the_worst_problem_of_that_moment() -> None:
    assert stand(Standing("b", 100.0), (A, B), 50.0) == Standing("a", 50.0)


@pytest.mark.parametrize("still", [False, True])
def test_a_moment_of_the_past_always_shows_its_worst_problem(still: bool) -> None:
    answering = Answering()

    def shown(number: int, *chains: Chain) -> str:
        window = faulty(*chains, number=number)
        answering.update(window, _listed(window), tellings=TELLINGS, still=still)
        assert answering.chain is not None
        return answering.chain.id

    assert shown(0, B) == "b"
    louder = replace(A, lost_ms_per_s=5_000.0)
    assert shown(1, louder, B) == ("a" if still else "b")
    assert shown(7, louder, B) == "a"


def test_a_problem_that_is_not_seen_any_more_gives_way_to_a_present_one_at_once() -> None:
    answering = Answering()
    end = faulty(number=1).end
    over, now = replace(A, seen=end - 4.0), replace(B, seen=end)
    first = faulty(replace(A, seen=faulty(number=0).end), number=0)
    answering.update(first, _listed(first), tellings=TELLINGS)
    assert answering.chain is not None
    assert answering.chain.id == "a"
    both = faulty(over, now, number=1)
    answering.update(both, _listed(both), tellings=TELLINGS)
    assert answering.chain.id == "b"


def _listed(window: Window) -> Listed:
    return listed(window)


def test_silenced_problems_information_and_ended_ones_are_not_told() -> None:
    answering = Answering()
    note = named("note", "info")
    window = faulty(A, note, OVER)
    state = answering.update(window, listed(window, silenced={"a"}), silenced={"a"})
    assert answering.chain is None
    assert state.sentence is None
    assert (state.text, state.slowest[:11]) == ("No problems. 2 containers", "slowest p99")
    assert state.about.startswith("1 silenced, serve: title of reclaim ended ")
    # The note is told if nothing else is.
    told = answering.update(faulty(note), listed(faulty(note)))
    assert (told.role, told.about) == ("good", "train: title of gil")
    both = faulty(note, replace(note, id="other", tenant="cri:bb"))
    assert answering.update(both, listed(both)).about == "2 tenants: title of gil"
    # A silenced problem is not shown even while the list contains silenced problems.
    answering.update(window, listed(window, silenced={"a"}, show_silenced=True), silenced={"a"})
    assert answering.chain is None


def test_a_warning_without_a_problem_is_told() -> None:
    hung = OpenCall("docker:aa", 100, 7, "python3", "runtime", "cudaFree", 42_000_000_000)
    window = faulty(calls=(hung,))
    state = Answering().update(window, listed(window))
    assert state.text.startswith("cudaFree open for 42.0s in train")
    assert state.about.startswith("No other problem. 2 containers, slowest p99")


def test_the_first_seconds_raise_no_hope() -> None:
    state = Answering().update(faulty(), listed(faulty()), verdict_in=2.4)
    assert (state.role, state.text) == ("text", "Measuring: first verdict within 3 s. 2 containers")
    note = faulty(named("note", "info"))
    assert Answering().update(note, listed(note), verdict_in=2.4).about == "", "that would be a verdict"


def test_a_problem_of_a_shared_gpu_names_no_single_tenant() -> None:
    device = Link("culprit", "GPU 0: 88 C", 1.0, 400e6, device="GPU 0", depth=2)
    rows = (LAUNCH, REDUCE, LAUNCH._replace(tenant="docker:cc"))
    one = faulty(chain("gpu_thermal", LAUNCH, tenant="", links=(device,), lost_ms_per_s=400.0, rows=rows))
    said = Answering().update(one, listed(one), tellings=TELLINGS).sentence
    assert said is not None
    wanted = (
        "3 tenants are slow: GPU 0 (no tenant's fault: cooling) is thermally throttled: about 400 ms of each"
    )
    assert "".join(text for text, _ in said.parts()).startswith(wanted)


def test_the_sentence_says_how_much_of_the_loss_the_named_culprit_took() -> None:
    hog = replace(HOG, share=0.7, ns_per_s=361e6)
    one = faulty(replace(STORM, links=(hog,)))
    said = Answering().update(one, listed(one), tellings=TELLINGS).sentence
    assert said is not None
    assert (said.lost, said.lost_short) == ("361 of the 516 ms lost each second", "361 of 516 ms/s")


def test_the_named_row_of_a_healthy_host_stays_for_some_seconds() -> None:
    answering = Answering()
    first = answering.update(faulty(), listed(faulty())).slowest
    assert "ncclAllReduce" in first
    quick = faulty(number=1)
    quick = replace(quick, rows=replace(quick.rows, max_ns=quick.rows.max_ns * 0 + 1))
    assert "ncclAllReduce" in answering.update(quick, listed(quick)).slowest


# ---- room


@pytest.mark.parametrize("height", [8, 12, 17, 18, 24, 40, 60])
def test_the_lines_have_room_at_every_size(height: int) -> None:
    found = layout(80, height, PANELS)
    assert found.answer == (2 if height >= ANSWER_FROM else 1)
    assert found.warnings >= 1
    assert layout(80, height, PANELS, "tables").answer == 1
    assert layout(20, 5, PANELS).answer == 0


# ---- on the screen

STORM = chain(
    "cpu_contention",
    GAP,
    severity="high",
    lost_ms_per_s=516.0,
    links=(HOG,),
    fixes=(Fix("move encode", "taskset -acp 1 21741"),),
)
OTHER = chain("gil", REDUCE, fixes=(Fix("look", "py-spy dump --pid 200"),), lost_ms_per_s=3.0)


def test_no_culprit_is_named_where_none_stands_out() -> None:
    hogs = tuple(replace(HOG, pid=pid, share=0.24, ns_per_s=124e6) for pid in (7, 8, 9))
    one = faulty(replace(STORM, links=hogs))
    said = Answering().update(one, listed(one), tellings=TELLINGS).sentence
    assert said is not None
    told = "".join(text for text, _ in said.parts())
    assert told == "train waits for CPUs that others hold: 516 ms of each second"


def answer(screen: Screen) -> list[str]:
    """Return the two lines above the header."""
    return [line.rstrip() for line in screen.text().splitlines()[:2]]


async def test_the_first_lines_tell_the_worst_problem_and_how_many_more() -> None:
    async with running(faulty(STORM, OTHER), size=(120, 40), options=OPTIONS) as screen:
        await screen.until(lambda: "is slow" in answer(screen)[0])
        assert answer(screen) == [
            " HIGH train is slow: serve (encode, pid 21741) takes its CPU: 516 ms of each second",
            "   Fix: taskset -acp 1 21741 (move encode)  y copies the command"
            "   1 more: serve: title of gil (M)  a all problems",
        ]
        # The list repeats the problem only if the list has the focus.
        assert screen.text().count("title of cpu_contention") == 1  # in the panel with the way to its cause
        assert "why train: title of cpu_contention" in screen.text()
        await screen.press("a")
        await screen.until(lambda: screen.text().count("title of cpu_contention") == 2)
        await screen.press("escape")
        await screen.until(lambda: screen.text().count("title of cpu_contention") == 1)


@pytest.mark.parametrize("size", [(40, 8), (60, 17), (80, 24), (100, 30), (200, 60)])
async def test_who_and_whose_fault_are_told_at_every_size(size: tuple[int, int]) -> None:
    async with running(faulty(STORM, OTHER), size=size, options=OPTIONS) as screen:
        await screen.until(lambda: "takes its CPU" in answer(screen)[0])
        said = " ".join(answer(screen))
        assert "train is slow: serve" in said
        if size[1] >= ANSWER_FROM:
            assert "taskset -acp 1 21741" in said
            assert "516 ms of each second" in said or "516 ms/s" in said
            assert "move encode" in said
            assert "1 more" in said


async def test_an_ascii_terminal_gets_ascii() -> None:
    options = replace(OPTIONS, ascii=True)
    async with running(faulty(STORM, OTHER), size=(90, 24), options=options) as screen:
        assert screen.app.glyphs is ASCII
        await screen.until(lambda: "is slow" in answer(screen)[0])
        assert "".join(answer(screen)).isascii()


async def test_y_copies_the_fix_that_is_shown() -> None:
    async with running(faulty(STORM, OTHER), size=(120, 40), options=OPTIONS) as screen:
        await screen.until(lambda: "is slow" in answer(screen)[0])
        await screen.press("y")
        await screen.sees("taskset -acp 1 21741")
        await screen.until(lambda: screen.line(39).startswith(" taskset -acp 1 21741: "))
        # If the cursor is on a row with another problem, ``y`` copies the fix of that problem.
        await screen.press("down", "y")
        await screen.until(lambda: "py-spy dump --pid 200" in screen.line(39))
        # A row without a problem does not hide the fix that is shown.
        await screen.press("home", "y")
        await screen.until(lambda: screen.line(39).startswith(" taskset -acp 1 21741: "))


async def test_a_click_opens_the_problem() -> None:
    async with running(faulty(STORM, OTHER), size=(120, 40), options=OPTIONS) as screen:
        await screen.until(lambda: "is slow" in answer(screen)[0])
        await screen.pilot.click("#answer", offset=(10, 0))
        await screen.sees("summary of cpu_contention")


async def test_a_click_on_the_list_opens_the_problem_that_was_clicked() -> None:
    async with running(faulty(STORM, OTHER), size=(120, 40), options=OPTIONS) as screen:
        await screen.sees("title of gil ")
        await screen.pilot.click("#alerts", offset=(10, 1))  # the line below the list's frame
        await screen.sees("summary of gil")


async def test_without_a_problem_the_host_is_described() -> None:
    async with running(*(faulty(number=n) for n in range(6)), size=(100, 30), options=OPTIONS) as screen:
        said = "   No problems. 2 containers, slowest p99 ncclAllReduce 45.0 µs (serve)"
        await screen.until(lambda: answer(screen)[0] == said)
        await screen.pilot.resize_terminal(60, 24)
        await screen.until(lambda: answer(screen)[1] == "   slowest p99 ncclAllReduce 45.0 µs (serve)")
        assert screen.app.main.query_one(AnswerLines).size.height == 2
