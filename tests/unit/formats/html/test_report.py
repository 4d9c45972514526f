"""Tests that the HTML report is well-formed, self-contained and free of markup in names, and that charts
match."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.formats import course
from stalltop.formats.episodes import Episodes
from stalltop.formats.html import axes, charts, report, report_tables
from stalltop.formats.html.axes import duration_axis, linear_axis, time_axis
from stalltop.formats.html.charts import ChartLine, ChartPoint
from stalltop.formats.html.tags import Html
from stalltop.formats.stretches import stretches
from stalltop.model.chain import Severity
from stalltop.model.comparing.chain_difference import ChainTally
from stalltop.model.hosts.clocks import shifted
from stalltop.model.merge.merging import merge
from stalltop.model.rows.pivot import pivot
from stalltop.model.text import figures
from stalltop.model.window import Window
from tests.unit.formats.html.parsed_page import ATTRIBUTES, ELEMENTS, HtmlPage
from tests.windows.by_hand import Calls, key, row_table, window
from tests.windows.drawn import FEW, sequences
from tests.windows.exported import hostile, several
from tests.windows.full import full_window

OURS = {"a", "b", "figure", "figcaption", "details", "summary"}
DRAWN = {"svg", "path", "circle", "rect", "text", "title"}
DRAWING = {"viewbox", "d", "x", "y", "cx", "cy", "r", "width", "height"}
LINKING = {"href", "id", "open"}
STYLES = re.compile(r"(width|padding-left|left):[0-9.]+(%|em)(;width:[0-9.]+%)?(;opacity:[0-9.]+)?")


class ReportPage(HtmlPage):
    """Finds elements of a page by name and class."""

    def of(self, name: str, class_: str = "") -> list[dict[str, str]]:
        return [
            found for element, found in self.elements if element == name and found.get("class", "") == class_
        ]


def page_of(found: list[Window]) -> ReportPage:
    text = report.page(found, found[0].start, found[-1].end)
    page = ReportPage(text)
    # Only known elements and attributes: no script, nothing is loaded.
    assert "default-src 'none'" in text
    assert "@import" not in text
    assert "url(" not in text
    assert {name for name, _ in page.elements} <= ELEMENTS | OURS | DRAWN
    known = ATTRIBUTES | DRAWING | LINKING
    for name, has in page.elements:
        assert has.keys() <= known, (name, has)
        assert re.fullmatch(r"#chain-\d+", has.get("href", "#chain-0"))
        style = has.get("style", "")
        assert not style or STYLES.fullmatch(style), style
        for attribute in DRAWING & has.keys():
            assert re.fullmatch(r"[-MVHv0-9. %]*", has[attribute]), has[attribute]
    return page


def test_a_chain_is_described_as_it_was_at_its_worst() -> None:
    found = several(5)
    one_chain = next(chain for chain in found[0].chains if chain.severity != "info")
    costs: list[tuple[Severity, float]] = [
        *(("low", 5.0), ("critical", 800.0), ("critical", 1_300.0), ("critical", 900.0), ("medium", 40.0))
    ]
    chains = [
        replace(one_chain, severity=severity, lost_ms_per_s=lost, seen=one.end)
        for one, (severity, lost) in zip(found, costs, strict=True)
    ]
    found = [replace(one, chains=(chain,)) for one, chain in zip(found, chains, strict=True)]
    episodes = Episodes()
    for one in found:
        episodes.add(one)
    (episode,) = episodes.all()
    assert (episode.chain.severity, episode.chain.lost_ms_per_s) == ("critical", 1_300.0)
    assert episode.end == found[-1].end
    page = page_of(found)
    assert page.of("details", "critical")
    assert not page.of("details", "medium")
    average = sum(lost for _, lost in costs) / len(costs)
    tally = ChainTally()
    for one in found:
        tally.add(one)
    assert tally.chains[0].lost_ms_per_s == pytest.approx(average)
    assert f"{figures.duration(average * 1e6).strip()}/s on average" in " ".join(page.words)


def test_a_recording_starts_at_its_earliest_time() -> None:
    before = several(3)
    found = [*before, *(shifted(one, -1_000.0) for one in before)]
    text = " ".join(page_of(found).words)
    assert f"{figures.moment(found[3].start)} to {figures.moment(found[2].end)}" in text


def test_a_recording_is_summarized() -> None:
    page = page_of(several(5))
    for text in (
        "stalltop gpu7",
        "10.0s of it recorded",
        "serve loses time between its calls to train",
        "taskset -acp 1 100",
        "Calls over time",
        "cudaStreamSynchronize (runtime)",
        "Containers over time",
        "GPU 0 NVIDIA H100 80GB HBM3: busy",
        "512 W of 700",
        "CPUs busy",
        "containers, whole host",
        "Slow calls, one by one",
        "void scale<float>(float*, int)",
        "ncclCommInitRank",
    ):
        assert text in page.text, text
    # Five windows of eleven outermost calls each.
    assert "55calls" in page.text
    assert len(page.of("svg")) >= 8
    assert all(svg["aria-label"] for svg in page.of("svg"))


def test_one_window_shows_a_distribution_instead_of_time_charts() -> None:
    page = page_of([full_window()])
    assert "How long calls took" in page.text
    assert "over time" not in page.text
    assert page.of("rect", "bin")
    assert page.of("path", "mark p99")


def test_every_chain_has_a_link_a_bar_and_a_section() -> None:
    found = several(5)
    page = page_of(found)
    links = [given["href"] for name, given in page.elements if name == "a"]
    ids = [given["id"] for name, given in page.elements if "id" in given]
    assert links == [f"#{one}" for one in ids] == ["#chain-0", "#chain-1"]
    bars = [given for name, given in page.elements if name == "i" and "left:" in given.get("style", "")]
    assert [bar["class"] for bar in bars if "class" in bar] == ["critical", "high"]
    # The worst chains are unfolded.
    assert [given.get("open") for name, given in page.elements if name == "details"] == ["open", "open"]


def test_a_chain_that_returned_is_described_once_and_drawn_twice() -> None:
    one = full_window()
    first = one.chains[0]
    again = replace(first, since=one.start + 10, seen=one.start + 12, lost_ms_per_s=1.0)
    # When a chain opens again, its first episode becomes a separate chain, with the time of its beginning in
    # its id.
    over = replace(first, id=f"{first.id}@{first.since:.0f}", open=False)
    assert over.identity == again.identity == first.id
    page = page_of([replace(one, chains=(first,)), replace(one, start=one.start + 10, chains=(again, over))])
    assert "2 times" in page.text
    assert len([given for given in page.of("i", "high") if "left:" in given["style"]]) == 2
    assert len(page.of("article", "high over")) == 1


def test_a_chain_that_ended_before_the_recording_is_left_out() -> None:
    one = full_window()
    over = replace(one.chains[0], since=one.start - 30, seen=one.start - 20, open=False)
    one = replace(one, chains=(over,))
    assert "No problems detected" in page_of([one, replace(one, start=one.end)]).text
    assert over.summary in page_of([one]).text


def test_frequent_chains_are_drawn_by_their_share_of_the_time() -> None:
    one = full_window()
    # The chain is open for ten of every 20 seconds, for two hours.
    found = [
        replace(
            one,
            start=one.start + 20.0 * number,
            chains=(
                replace(one.chains[0], since=one.start + 20.0 * number, seen=one.start + 20.0 * number + 10),
            ),
        )
        for number in range(360)
    ]
    page = page_of(found)
    shades = [
        float(cell["style"].rpartition(":")[2])
        for cell in page.of("i", "high")
        if "opacity" in cell.get("style", "")
    ]
    assert len(shades) == 240
    assert sum(shades) / len(shades) == pytest.approx(0.6, abs=0.01)
    assert "360 times" in page.text


def test_a_list_that_was_cut_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_tables, "MOST_LISTED", 1)
    found = several(3)
    page = page_of(found)
    slow = sum(call.why == "slow" and not call.nested for one in found for call in one.calls.kept)
    assert f"and {slow - 1} more" in page.text
    passed_over = sum(one.calls.passed_over for one in found)
    assert f"{passed_over} more slow calls were only counted" in page.text


def test_hostile_names_stay_text() -> None:
    page = page_of([hostile(), replace(hostile(), start=1_700_000_002.25)])
    assert "<script>alert(1)</script>" in page.text
    assert "</script><!--" in page.text
    assert all(line.isprintable() for line in page.text.split("\n"))


@FEW
@given(sequences())
def test_any_windows_make_a_valid_report(found: list[Window]) -> None:
    page_of(found)


def test_no_windows_are_refused_and_an_empty_window_is_reported() -> None:
    with pytest.raises(ValueError, match="at least one window"):
        report.page([], 0.0, 1.0)
    assert "No problems detected" in page_of([window()]).text


def test_several_hosts_have_separate_charts() -> None:
    one = full_window()
    rows = replace(one.rows, keys=tuple(key._replace(host="gpu8") for key in one.rows.keys))
    other = replace(one, host="gpu8", rows=rows, start=one.start + 0.5)
    page = page_of([one, other, replace(one, start=one.end), replace(other, start=other.end)])
    assert "stalltop gpu7, gpu8" in page.text
    for host in ("gpu7", "gpu8"):
        assert f"Calls over time of {host}" in page.text


def test_short_lived_containers_share_a_chart() -> None:
    found = [
        window(
            [
                Calls(key(tenant="docker:lasting"), [5_000]),
                Calls(key(tenant=f"docker:{number:064x}", pid=number), [7_000] * 3),
            ],
            start=1_700_000_000.0 + number,
        )
        for number in range(200)
    ]
    page = page_of(found)
    titles = [given["title"] for given in page.of("b") if "docker:" in given.get("title", "")]
    assert titles == ["docker:lasting"]
    assert "200 short-lived containers: calls a second" in page.text
    assert "together 600 calls, longest" in page.text


def test_charts_of_a_long_recording_are_bounded() -> None:
    one = full_window()
    found = [replace(one, start=one.start + 2.0 * number, chains=()) for number in range(1_000)]
    page = page_of(found)
    steps = max(given["d"].count("H") for given in page.of("path", "p99"))
    assert steps <= 2 * report.POINTS + 2
    assert "11.0kcalls" in page.text


def test_stretches_add_up_exactly() -> None:
    found = several(5)
    made = list(stretches(found, 4.0))
    assert [round(one.seconds) for one in made] == [4, 4, 2]
    assert [one.start for one in made] == [found[0].start, found[2].start, found[4].start]
    assert row_table(merge(made).rows) == row_table(merge(found).rows)


@FEW
@given(sequences(), st.sampled_from([0.5, 1.0, 2.5, 100.0]))
def test_no_call_is_lost_in_stretches(found: list[Window], seconds: float) -> None:
    made = list(stretches(found, seconds))
    assert row_table(merge(made).rows) == row_table(merge(found).rows)
    assert sum(one.seconds for one in made) == sum(one.seconds for one in found)


def test_windows_of_a_stretch_are_merged_as_they_come() -> None:
    found = (replace(full_window(), start=1_700_000_000.25 + number) for number in range(100))
    (made,) = stretches(found, 1e6)
    assert pivot(made, ()).calls[0] == 1_100


def test_hosts_have_separate_stretches() -> None:
    one, other = window([], host="a"), window([], host="b", start=1_000.5)
    later = replace(one, start=1_001.0)
    assert [made.host for made in stretches([one, other, later], 10.0)] == ["a", "b"]


def test_the_slowest_calls_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course, "MOST_SLOW", 2)
    found, episodes = course.courses(several(20), 1.0)
    kept = found[0].window(episodes).calls.kept
    assert len(kept) == 2
    assert {call.why for call in kept} == {"slow"}


@pytest.mark.parametrize(
    ("span", "shown"), [(5, "%H:%M:%S"), (3_600, "%H:%M"), (86_400, "%H:%M"), (30 * 86_400, "%d %b")]
)
def test_time_ticks_are_round_and_in_local_time(span: float, shown: str) -> None:
    start = 1_700_000_000.25
    axis = time_axis(start, start + span, 7)
    assert 2 <= len(axis.ticks) <= 7
    for tick in axis.ticks:
        assert tick.label == time.strftime(shown, time.localtime(round(start + tick.at * span)))
    assert [axis.place(value) for value in (start - 5, start, start + span / 2, start + 2 * span)] == [
        0.0,
        0.0,
        0.5,
        1.0,
    ]


@given(st.floats(1e-6, 1e12), st.integers(2, 6))
def test_linear_axes_fit_the_values_closely(highest: float, most: int) -> None:
    axis = linear_axis(highest, most, str)
    assert axis.ticks[0].label == "0"[: len(axis.ticks[0].label)] or float(axis.ticks[0].label) == 0
    assert axis.ticks[-1].at == 1.0
    assert highest * 0.999 <= float(axis.ticks[-1].label) <= highest * 2.01
    assert len(axis.ticks) <= most + 2


@pytest.mark.parametrize("highest", [0.0, -1.0, float("nan"), float("inf")])
def test_an_axis_without_a_valid_maximum_is_usable(highest: float) -> None:
    assert linear_axis(highest, 4, str).ticks[-1].at == 1.0


@given(st.floats(0, 1e12), st.floats(0, 1e12))
def test_duration_axes_have_at_least_two_ticks_and_hold_the_values(one: float, other: float) -> None:
    low, high = sorted((one, other))
    axis = duration_axis(low, high)
    assert len(axis.ticks) >= 2
    assert 0.0 <= axis.place(low) <= axis.place(high) <= 1.0
    if low >= 1:
        # The value is inside the axis, not cut off at its end.
        assert axis.place(high) < 1.0 or axis.place(high) == pytest.approx(1.0)


def test_duration_ticks_have_whole_units() -> None:
    labels = [tick.label for tick in duration_axis(1, 1e11).ticks]
    assert labels == [
        *("1ns", "10ns", "100ns", "1µs", "10µs", "100µs"),
        *("1ms", "10ms", "100ms", "1s", "10s", "100s"),
    ]


def path_of(points: list[ChartPoint], style: str) -> str:
    times, values = time_axis(0.0, 10.0, 5), linear_axis(1.0, 2, str)
    chart = charts.over_time([ChartLine("x", style, points)], times, values, told="x")
    return ReportPage(str(chart)).of("path", style)[0]["d"]


def test_a_line_has_gaps_where_values_are_unknown() -> None:
    points = [
        ChartPoint(0, 1, 0.5),
        ChartPoint(1, 2, 1.0),
        ChartPoint(2, 3, None),
        ChartPoint(3, 4, 1.0),
        ChartPoint(8, 9, 0.5),
    ]
    assert path_of(points, "p99").count("M") == 3
    assert path_of(points, "area").count("M") == 3
    # Each part of an area starts and ends at zero.
    assert re.findall(r"M([0-9.]+) [0-9.]+V[0-9.]+", path_of(points, "area")) == re.findall(
        r"V148\.0H([0-9.]+)(?=M|$)", path_of(points, "area")
    )


def test_small_gaps_between_windows_do_not_break_a_line() -> None:
    points = [ChartPoint(number * 1.02, number * 1.02 + 1, 0.5) for number in range(8)]
    assert path_of(points, "p50").count("M") == 1


def test_bars_stand_at_the_durations_of_calls() -> None:
    made = charts.distribution(
        np.array([100, 101, 2_000]), np.array([5, 5, 1_000_000]), [("p50", 105.0)], told="x"
    )
    page = ReportPage(str(made))
    bars = page.of("rect", "bin")
    assert len(bars) in (2, 3)
    heights = [float(bar["height"]) for bar in bars]
    assert max(heights) == heights[-1] == pytest.approx(charts.HEIGHT - 30, abs=0.2)
    assert page.of("path", "mark p50")


def test_chart_labels_are_escaped() -> None:
    axis = axes.Axis((axes.AxisTick(0.5, "<b>"),), lambda value: value)
    chart = charts.over_time([], axis, axis, told='"><script>', dots=[(0.5, 0.5, "</title><script>")])
    assert isinstance(chart, Html)
    assert ReportPage(str(chart)).words.count("<b>") == 2
