"""Writes a window as one HTML page: problems with their fixes, tables and remarks.

The page is one file without scripts, and loads nothing: its Content-Security-Policy forbids both. The module
``report`` uses parts of this module, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from stalltop.formats.html.style import STYLE
from stalltop.formats.html.tags import Html, joined, tag
from stalltop.formats.tables.sheet import Sheet, SheetColumn, SheetRow, columns_of, others, parts
from stalltop.formats.text import chains as chain_text
from stalltop.formats.text.window import counted, host, remarks
from stalltop.model.chain import Chain, Fix, worst_first
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE
from stalltop.model.text.style import Style
from stalltop.model.window import PARTS, Window

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""The Content-Security-Policy of the page. It allows only the style sheet inside the page."""
MOST_ROWS: Final = 100
"""Maximum number of rows of a table. Only the table that the screen shows has all its rows."""
_WIDE: Final = Style(width=100_000, colour=False, glyphs=UNICODE)
"""Style for lines of text that are not wrapped here, because the browser wraps them."""
_FEW: Final = "in a row with few calls, percentiles are rough."


def html_page(window: Window, shown: Sheet | None = None) -> str:
    """Return the page of ``window``. The table that the screen shows, ``shown``, comes before the other
    tables."""
    title = f"stalltop {window.host} {figures.moment(window.start)}"
    parts = [_head(window), _wrong(window), _tables(window, shown), remark_sections(window)]
    return framed(title, STYLE, *parts, foot("Saved", _FEW))


def framed(title: str, style: str, *body: str) -> str:
    """Return a whole page. Its ``POLICY`` prevents the page from loading or running anything."""
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
    return page_head(window, tag("p", ", ".join(when)), *host_lines(window))


def page_head(window: Window, when: Html, *lines: Html) -> Html:
    """Return the head of a page: the host, the time ``when``, warnings about the window, and ``lines``."""
    warnings = ["SIMULATED: no such tenants were traced"] if window.simulated else []
    warnings += [f"not tracing: {window.coverage.tracing}"] if window.coverage.tracing else []
    warned = [tag("p", warning, class_="warn") for warning in warnings]
    return tag("header", tag("h1", f"stalltop {window.host}"), when, *warned, *lines)


def host_lines(window: Window) -> list[Html]:
    """Return the figures of the host and of its devices, one paragraph for each line of text."""
    # Lines of text separate figures by two blanks, which a browser would draw as one. So the page separates
    # them by a dot.
    return [tag("p", re.sub(" {2,}", " · ", line.strip())) for line in host(window, _WIDE)]


def section(title: str, *children: str) -> Html:
    """Return a section of a page: its title and ``children``."""
    return joined(Html("\n"), tag("section", tag("h2", title), *children))


# ---- chains


def _wrong(window: Window) -> Html:
    chains = sorted(window.chains, key=worst_first)
    return chain_section("Problems", chains, [chain_article(chain, window) for chain in chains])


def chain_section(title: str, chains: Iterable[Chain], content: Sequence[Html]) -> Html:
    """Return the section for ``chains``; ``content`` has their HTML. The section has the title ``title`` if
    at least one chain is a fault. If all are information, its title is "Information"."""
    if not content:
        return section(title, tag("p", "No problems detected.", class_="dim"))
    faults = any(chain.severity != "info" for chain in chains)
    return section(title if faults else "Information", *content)


def chain_article(chain: Chain, window: Window) -> Html:
    """Return a chain in full: figures, steps, unknowns and fixes. ``window`` has the names of the tenants."""
    course = ", ".join(chain_text.course(chain, UNICODE))
    title = tag("h3", tag("span", chain.severity, class_="severity"), chain.summary or chain.title)
    lines = [tag("p", f"{course}; {chain_text.about(chain, UNICODE)}", class_="dim")]
    lines.append(_links(chain, window))
    lines += [
        tag("p", f"made worse by: {chain_text.step(link, chain, window)}")
        for link in chain.links
        if link.role == "factor"
    ]
    lines += [tag("p", f"not known: {text}", class_="dim") for text in chain.unknown]
    lines += [_fix(fix) for fix in chain.fixes]
    return tag("article", title, *lines, class_=chain.severity + ("" if chain.open else " over"))


def _links(chain: Chain, window: Window) -> Html:
    """Return the steps from the effect to its root, each with its share and lost time per second."""
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
    """Return a section with the first ``most`` rows of a table (None: with all rows). If ``split`` is True,
    each row has a bar with the parts of its time."""
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
        text = column.shown(getattr(row, column.field), UNICODE).strip()
        cells.append(tag("td", text, class_="bad" if wrong else ""))
    if split:
        cells.append(tag("td", split_bar(row), class_="name"))
    return joined(Html("\n"), tag("tr", *cells, class_="inside" if row.inside else ""))


def split_bar(row: SheetRow) -> Html:
    """Return a bar that shows the parts of a row's time; '' if the parts are not known."""
    found = parts(row)
    if not found:
        return Html()
    told = ", ".join(f"{name} {100 * share:.1f}%" for name, share in found)
    pieces = [
        tag("i", PARTS[name].letter, class_=name, style=f"width:{100 * share:.2f}%") for name, share in found
    ]
    return tag("div", *pieces, class_="bar", role="img", title=told, aria_label=told)


def split_key() -> Html:
    """Return the legend of the bars that ``split_bar`` draws."""
    pieces = [tag("span", tag("i", part.letter, class_=name), f" {name}") for name, part in PARTS.items()]
    return joined(Html("\n"), tag("p", *pieces, class_="key"))


# ---- the rest


def remark_sections(window: Window) -> Html:
    """Return a section for each list of remarks (``formats.text.window.remarks``)."""
    found: Sequence[list[str]] = [part for part in remarks(window, _WIDE) if part]
    return joined(*(section(title.capitalize(), _list(lines)) for title, *lines in found))


def _list(lines: Sequence[str]) -> Html:
    return tag("ul", *(tag("li", line.strip()) for line in lines))


def foot(verb: str, more: str) -> Html:
    """Return the end of a page. It explains names in parentheses and percentiles, and ends with the text
    ``more``."""
    text = (
        f"{verb} by stalltop. (name): calls made inside another traced call, whose time includes theirs. "
        f"Percentiles come from HdrHistograms with two significant digits; {more}"
    )
    return tag("footer", tag("p", text))
