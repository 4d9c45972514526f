"""A window as one page for a browser: what is wrong and what helps, tables, and all that is to be said.

The page is one file without scripts, and loads nothing: its own policy forbids both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from stalltop.formats.html.style import STYLE
from stalltop.formats.html.tags import Html, joined, tag
from stalltop.formats.tables.sheet import Sheet, SheetColumn, SheetRow, columns_of, others, parts
from stalltop.formats.text import chains as chain_text
from stalltop.formats.text.window import counted, host, remarks
from stalltop.model.chain import Chain, Fix, worst_first
from stalltop.model.text import figures
from stalltop.model.text.style import Style
from stalltop.model.window import SPLITS, Window

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What the page may do: be styled by what is in it."""
MOST_ROWS: Final = 100
"""Rows of the tables besides the one that was looked at, which has all."""
_WIDE: Final = Style(width=100_000, colour=False, unicode=True)
"""Lines that a browser wraps, not we."""
_LETTERS: Final = dict(zip(SPLITS, "Rqdmlgnpso", strict=True))
"""As on the screen: colours are not all that tells parts apart."""


def html_page(window: Window, shown: Sheet | None = None) -> str:
    """The page of ``window``, with the table that was looked at before the others."""
    title = f"stalltop {window.host} {figures.moment(window.start)}"
    return framed(
        title, STYLE, _head(window), _wrong(window), _tables(window, shown), remark_sections(window), _foot()
    )


def framed(title: str, style: str, *body: str) -> str:
    """A whole page, with the policy that keeps it from loading or running anything."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        Html(f"<style>{style}</style>"),
    )
    return f'<!DOCTYPE html>\n<html lang="en">{head}\n{tag("body", *body)}</html>\n'


def _head(window: Window) -> Html:
    when = [f"{figures.moment(window.start)} for {window.seconds:.1f} s", *counted(window)]
    lines = [tag("p", ", ".join(when))]
    if window.simulated:
        lines.append(tag("p", "SIMULATED: no such tenants were traced", class_="warn"))
    if window.coverage.tracing:
        lines.append(tag("p", f"not tracing: {window.coverage.tracing}", class_="warn"))
    # What stands two blanks apart in a line of text is parted by a dot here: browsers show one blank.
    lines += [tag("p", re.sub(" {2,}", " · ", line.strip())) for line in host(window, _WIDE)]
    return tag("header", tag("h1", f"stalltop {window.host}"), *lines)


def section(title: str, *children: str) -> Html:
    """A part of a page below its title."""
    return joined(Html("\n"), tag("section", tag("h2", title), *children))


# ---- chains


def _wrong(window: Window) -> Html:
    chains = sorted(window.chains, key=worst_first)
    if not chains:
        return section("What is wrong", tag("p", "Nothing that is known to be wrong.", class_="dim"))
    faults = any(chain.severity != "info" for chain in chains)
    title = "What is wrong" if faults else "Worth knowing"
    return section(title, *(chain_article(chain, window) for chain in chains))


def chain_article(chain: Chain, window: Window) -> Html:
    """A chain in full: its steps, and what helps. ``window`` has its tenants."""
    course = ", ".join(chain_text.course(chain, unicode=True))
    title = tag("h3", tag("span", chain.severity, class_="severity"), chain.summary or chain.title)
    lines = [tag("p", f"{course}; {chain_text.about(chain, unicode=True)}", class_="dim")]
    lines.append(_links(chain, window))
    lines += [
        tag("p", f"worse through: {chain_text.step(link, chain, window)}")
        for link in chain.links
        if link.role == "factor"
    ]
    lines += [tag("p", f"not known: {text}", class_="dim") for text in chain.unknown]
    lines += [_fix(fix) for fix in chain.fixes]
    return tag("article", title, *lines, class_=chain.severity + ("" if chain.open else " over"))


def _links(chain: Chain, window: Window) -> Html:
    """The steps from the effect to its root, each with its share and time a second."""
    rows = []
    for link in chain.links:
        if link.role == "factor":
            continue
        share = "" if link.share is None else figures.percent(100 * link.share).strip()
        step = tag(
            "td",
            chain_text.step(link, chain, window),
            class_=f"step {link.role}",
            style=f"padding-left:{1.4 * min(max(link.depth, 0), 8):.1f}em",
        )
        rows.append(tag("tr", tag("td", share), tag("td", chain_text.rate(link.ns_per_s).strip()), step))
    return tag("table", *rows, class_="links") if rows else Html()


def _fix(fix: Fix) -> Html:
    text = tag("p", f"{'to see more' if fix.look else 'what helps'}: {fix.text}")
    return joined(text, tag("pre", fix.command)) if fix.command else text


# ---- tables


def _tables(window: Window, shown: Sheet | None) -> Html:
    sheets = [*([shown] if shown is not None else []), *others(window, shown)]
    measured = any(row.split_ns for table in sheets for row in table.rows)
    tables = [sheet_table(table, None if table is shown else MOST_ROWS, split=measured) for table in sheets]
    return joined(*([split_key()] if measured else []), *tables)


def sheet_table(table: Sheet, most: int | None, *, split: bool) -> Html:
    """The first ``most`` rows of a table, all without it; ``split``: with where their time went."""
    heads = [tag("th", name, class_="name") for name in table.by]
    columns = columns_of(table)
    heads += [tag("th", column.head) for column in columns]
    heads += [tag("th", "time went to", class_="name")] if split else []
    rows = [_row(row, columns, split=split) for row in table.rows[:most]]
    content = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows))
    more = len(table.rows) - len(rows)
    rest = [tag("p", f"and {more} more", class_="dim")] if more else []
    if not rows:
        rest.append(tag("p", "no row", class_="dim"))
    return section(table.title, tag("div", content, class_="scroll"), *rest)


def _row(row: SheetRow, columns: Sequence[SheetColumn], *, split: bool) -> Html:
    cells = [tag("td", name, class_="name", title=name) for name in row.label]
    for column in columns:
        wrong = column.field == "errors" and bool(row.errors)
        text = column.shown(getattr(row, column.field), True).strip()
        cells.append(tag("td", text, class_="bad" if wrong else ""))
    if split:
        cells.append(tag("td", split_bar(row), class_="name"))
    return joined(Html("\n"), tag("tr", *cells, class_="inside" if row.inside else ""))


def split_bar(row: SheetRow) -> Html:
    """Where the time of a row went; nothing where that is not known."""
    found = parts(row)
    if not found:
        return Html()
    told = ", ".join(f"{name} {100 * share:.1f}%" for name, share in found)
    pieces = [
        tag("i", _LETTERS[name], class_=name, style=f"width:{100 * share:.2f}%") for name, share in found
    ]
    return tag("div", *pieces, class_="bar", role="img", title=told, aria_label=told)


def split_key() -> Html:
    """What the colours of bars mean."""
    pieces = [tag("span", tag("i", _LETTERS[name], class_=name), f" {name}") for name in SPLITS]
    return joined(Html("\n"), tag("p", *pieces, class_="key"))


# ---- the rest


def remark_sections(window: Window) -> Html:
    """What is to be said besides tables and chains."""
    found: Sequence[list[str]] = [part for part in remarks(window, _WIDE) if part]
    return joined(*(section(title.capitalize(), _list(lines)) for title, *lines in found))


def _list(lines: Sequence[str]) -> Html:
    return tag("ul", *(tag("li", line.strip()) for line in lines))


def _foot() -> Html:
    text = (
        "Saved by stalltop. (name): made inside another traced call, part of that call's time. Percentiles "
        "are of HdrHistograms with two significant digits; a row with few calls has rough ones."
    )
    return tag("footer", tag("p", text))
