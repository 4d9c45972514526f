"""Tests windows as Markdown."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from stalltop.formats.tables.sheet import sheet
from stalltop.formats.text.markdown import MOST_CHAINS, MOST_ROWS, export, screen
from stalltop.model.text.glyphs import ASCII, UNICODE
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, window
from tests.windows.exported import hostile, several, span_of
from tests.windows.full import full_window


def saved(one: Window) -> str:
    return screen(one, sheet(one, ("operation", "layer"), "operations"), UNICODE)


def table(text: str, title: str) -> list[list[str]]:
    """Return the cells of the table below ``title``, without the line of dashes."""
    _, _, below = text.partition(f"### `{title}`\n\n")
    lines = below.partition("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert all(len(line) == len(cells[0]) for line in cells)
    assert set("".join(cells[1])) <= set("-:")
    return [cells[0], *cells[2:]]


def test_a_saved_window_has_what_is_wrong_and_its_tables() -> None:
    one = full_window()
    text = saved(one)
    assert text.startswith("## stalltop `gpu7`\n\n```text\n")
    for chain in one.chains:
        assert chain.summary in text.replace("\n", " ")
    heads, first, *rows = table(text, "operations")
    assert heads[:3] == ["operation", "layer", "call/s"]
    assert heads[-1] == "time went to"
    assert first[:2] == ["`cudaStreamSynchronize`", "`runtime`"]
    assert first[-1] == "running 100%"
    assert "`(cuLaunchKernel)`" in [row[0] for row in rows]
    assert table(text, "containers, whole host")[1][0] == "`serve`"


def test_long_tables_and_many_problems_are_cut_except_for_the_table_of_the_screen() -> None:
    one = window([Calls(key(f"f{number}"), [1_000]) for number in range(MOST_ROWS + 5)])
    (chain, *_) = full_window().chains
    chains = tuple(replace(chain, id=f"{chain.id}/{number}") for number in range(MOST_CHAINS + 2))
    text = saved(replace(one, chains=chains))
    assert len(table(text, "operations")) == 1 + MOST_ROWS + 5
    assert text.count(chain.summary[:20]) == MOST_CHAINS
    assert "\n\nand 2 more\n\n" in text
    text = export([one], *span_of([one]))
    assert len(table(text, "operations, whole host")) == 1 + MOST_ROWS
    assert "\n\nand 5 more\n" in text


def test_windows_are_exported_as_one() -> None:
    windows = several(5)
    text = export(windows, *span_of(windows))
    one = full_window()
    calls = {row[0]: row[-2] for row in table(text, "operations, whole host")[1:]}
    assert calls["`cudaStreamSynchronize`"] == "15"
    assert text.count(one.chains[0].summary[:20]) == 1
    with pytest.raises(ValueError, match="at least one window"):
        export([], 0.0, 1.0)


def test_problems_of_several_hosts_have_titles_of_their_own() -> None:
    one = full_window()
    rows = window([Calls(key(host="gpu8"), [5])], host="gpu8", split=True).rows
    other = replace(one, host="gpu8", rows=rows)
    text = export([one, other], *span_of([one, other]))
    assert "### Problems on `gpu7`" in text
    assert "### Problems on `gpu8`" in text


def test_names_of_a_host_are_never_markup() -> None:
    strange = ("a|b", "`x`", "``", "<img src=x>", "@all #1 [a](b)")
    one = window([Calls(key(name), [1_000 * (9 - at)]) for at, name in enumerate(strange)])
    names = [row[0] for row in table(saved(one), "operations")[1:]]
    assert names == ["`a\\|b`", "`` `x` ``", "``` `` ```", "`<img src=x>`", "`@all #1 [a](b)`"]


def test_hostile_names_stay_inside_of_code() -> None:
    one = hostile()
    text = export([one], *span_of([one]))
    for line in re.sub(r"^(`{3,})text\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE).splitlines():
        outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", line)
        assert not re.search(r"[<\[@`]", outside), line
    assert all(character.isprintable() for character in text.replace("\n", ""))


def test_a_window_without_calls_says_so_and_ascii_is_possible() -> None:
    assert "no row" in saved(window())
    one = full_window()
    assert screen(one, sheet(one, ("process",), "processes"), ASCII).isascii()
