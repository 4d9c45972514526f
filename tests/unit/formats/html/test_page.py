"""Tests that the saved HTML page is well-formed and self-contained, and that names stay text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.formats.html.page import MOST_ROWS, html_page
from stalltop.formats.html.tags import Html, joined, tag
from stalltop.formats.tables.sheet import sheet
from stalltop.model.window import SPLITS, Window
from tests.unit.formats.html.parsed_page import ATTRIBUTES, ELEMENTS, HtmlPage
from tests.windows.by_hand import window
from tests.windows.drawn import FEW, windows
from tests.windows.full import full_window
from tests.windows.hostile import NAMES, hostile_window


def harmless(page: HtmlPage) -> None:
    """Fails unless only known elements and attributes are used: no script, no link, nothing is loaded."""
    assert {name for name, _ in page.elements} <= ELEMENTS
    assert {key for _, given in page.elements for key in given} <= ATTRIBUTES
    for name, found in page.elements:
        style = found.get("style", "")
        assert "url(" not in style
        assert not style or style.startswith(("width:", "padding-left:")), (name, style)


def page_of(one: Window) -> HtmlPage:
    return HtmlPage(html_page(one, sheet(one, ("operation", "layer"), "containers › train › operations")))


def test_the_page_has_the_figures_of_the_window() -> None:
    page = page_of(full_window())
    harmless(page)
    for text in (
        "stalltop gpu7",
        "containers › train › operations",
        "containers, whole host",
        "processes, whole host",
        "(cuLaunchKernel)",
        "serve loses time between its calls to train",
        "train has the CPU",
        "NVIDIA H100",
        "ncclCommInitRank",
        "CFS throttling of cri:bb",
    ):
        assert text in page.text, text
    for fix in full_window().chains[0].fixes:
        assert fix.text in page.text
        assert fix.command in page.text


def test_bars_add_up_and_have_a_text() -> None:
    page = page_of(full_window())
    bars = [given for name, given in page.elements if given.get("class") == "bar"]
    assert bars
    assert all(bar["aria-label"] == bar["title"] == "running 100.0%" for bar in bars)
    widths = [given["style"] for name, given in page.elements if name == "i" and "style" in given]
    assert set(widths) == {"width:100.00%"}
    named = {given["class"] for name, given in page.elements if name == "i"}
    assert named == set(SPLITS)


def test_the_page_loads_and_runs_nothing() -> None:
    text = html_page(full_window())
    assert "default-src 'none'" in text
    assert "://" not in text
    assert "@import" not in text
    assert "url(" not in text


def test_hostile_names_stay_text() -> None:
    page = page_of(hostile_window())
    harmless(page)
    shown = page.text
    assert "<script>alert(1)</script>" in shown
    assert '"><img src=x onerror=alert(1)>' in shown
    assert "&lt;b&gt;&#x3c;" in shown
    assert all(line.isprintable() for line in shown.split("\n"))


@pytest.mark.parametrize("name", NAMES)
def test_only_tag_makes_markup(name: str) -> None:
    page = HtmlPage(str(tag("p", name, tag("span", name), title=name, class_=name)))
    assert [element for element, _ in page.elements] == ["p", "span"]
    assert joined("<", Html("<i></i>"), ">") == "&lt;<i></i>&gt;"


@given(st.text())
def test_any_text_stays_text(text: str) -> None:
    page = HtmlPage(str(tag("p", text, title=text)))
    assert [element for element, _ in page.elements] == ["p"]
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    assert page.text == shown
    assert page.elements[0][1].get("title", "") == shown


def test_any_window_makes_a_harmless_page() -> None:
    @FEW
    @given(windows())
    def check(one: Window) -> None:
        harmless(page_of(one))

    check()


def test_an_empty_window_and_a_large_one_make_a_page() -> None:
    from tests.tui.sources import many

    page = HtmlPage(html_page(window()))
    assert "No problems detected" in page.text
    large = many(MOST_ROWS + 50)
    assert f"and {50} more" in HtmlPage(html_page(large)).text
    page = HtmlPage(html_page(large, sheet(large, ("operation", "layer"), "operations")))
    assert sum(name == "tr" for name, _ in page.elements) >= MOST_ROWS + 50
