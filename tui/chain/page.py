"""The page about one problem: from what is slow to its root, with figures and fixes. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stalltop.formats.text.chains import branches, cost, name_of, rate, slowest, step, sureness_and_baseline
from stalltop.model.chain import Chain
from stalltop.model.evidence import HOST_LAYER, shown_operation
from stalltop.model.rows.pivot import bounded
from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.text.words import numbered, with_pid
from stalltop.model.window import Window
from stalltop.tui.chain.commands import MOST_OFFERS, command_lines, offers_of
from stalltop.tui.columns.split import bar, legend
from stalltop.tui.keys.actions import key
from stalltop.tui.pages.network import network_of
from stalltop.tui.problems.chains import MARK, ROLE, keys_of
from stalltop.widgets.drawing.magnitude import brightness
from stalltop.widgets.page import PageLine

MOST_ROWS = 12
"""The most rows of the window that the page lists."""


def chain_page(chain: Chain, window: Window, *, glyphs: Glyphs, letters: bool) -> list[PageLine]:
    """Return the page about ``chain``, as it was at the end of ``window``.

    With ``letters`` the parts of a call's time are drawn as letters and patterns, for terminals with few
    colours.
    """
    lines = _summary(chain, window, glyphs)
    lines += _tree(chain, window, glyphs)
    lines += _what_to_do(chain, window, glyphs)
    lines += remarks(chain, window)
    lines += _rows(chain, window, glyphs=glyphs, letters=letters)
    ports = network_of(chain, window, glyphs).lines
    return [*lines, PageLine(), *ports] if ports else lines


def _pair(name: str, text: str, role: str = "text") -> PageLine:
    return PageLine(((f"  {name.ljust(10)} ", "label"), (text, role)), indent=13)


def _summary(chain: Chain, window: Window, glyphs: Glyphs) -> list[PageLine]:
    when = f"since {figures.clock(chain.since)}"
    when += (
        f", for {_span(window.end - chain.since)}" if chain.open else f", ended {figures.clock(chain.seen)}"
    )
    severity = f" {MARK[chain.severity]} {chain.severity} "
    role = ROLE[chain.severity] if chain.open else "dim"
    lines = [
        PageLine(((severity, role), (" " + chain.title, "head"), (f"  {when}", "dim"))),
        PageLine((("  " + chain.summary, "text"),), indent=2),
        PageLine(),
    ]
    lines.append(_pair(*cost(chain, glyphs)))
    place = [name_of(chain.tenant, window), with_pid(chain.process, chain.pid)]
    if chain.operation:
        layer = f" ({chain.layer})" if chain.layer not in ("", HOST_LAYER) else ""
        place.append(shown_operation(chain.operation) + layer)
    lines.append(_pair("in", glyphs.separator.join(part for part in place if part)))
    if chain.p99_ns is not None:
        said = slowest(chain, glyphs)
        calls = f"; {numbered(chain.calls, 'call')}" if chain.calls else ""
        lines.append(_pair("p99", said + calls))
    lines.append(_pair("cause", sureness_and_baseline(chain)))
    return lines


def _span(seconds: float) -> str:
    whole = round(max(seconds, 0.0))
    return f"{whole}s" if whole < 60 else figures.duration(whole * 1e9).strip()


def remarks(chain: Chain, window: Window) -> list[PageLine]:
    """Return what makes a problem worse, and what is not known about it."""
    factors = [link for link in chain.links if link.role == "factor"]
    worse = _listed("What makes it worse", [step(link, chain, window) for link in factors])
    return [*worse, *_listed("What is not known", chain.unknown)]


def _tree(chain: Chain, window: Window, glyphs: Glyphs) -> list[PageLine]:
    """Return the section with the links as a tree."""
    found = steps(chain, window, glyphs)
    if not found:
        return []
    about = "  share of the loss, time lost per second; from what is slow, step by step, to its root"
    return [PageLine(), PageLine((("Why", "head"), (about, "dim"))), *found]


def steps(chain: Chain, window: Window, glyphs: Glyphs) -> list[PageLine]:
    """Return the links as a tree, each with its share and its time."""
    links = [link for link in chain.links if link.role != "factor"]
    lines = []
    for at, link in enumerate(links):
        branch, below = branches(links, at, glyphs)
        share = figures.percent(100 * link.share, glyphs) if link.share is not None else ""
        front = f"  {share.rjust(5)} {rate(link.ns_per_s, glyphs)} "
        lines.append(
            PageLine(
                (
                    (front, "label"),
                    (branch, "dim"),
                    (
                        step(link, chain, window),
                        "bright" if link.role == "culprit" and not link.of_others else "text",
                    ),
                ),
                indent=len(front) + len(branch),
                hang=" " * len(front) + below,
            )
        )
    return lines


def _listed(heading: str, texts: Sequence[str]) -> list[PageLine]:
    if not texts:
        return []
    return [
        PageLine(),
        PageLine(((heading, "head"),)),
        *(PageLine((("  " + text, "text"),), 4) for text in texts),
    ]


def _what_to_do(chain: Chain, window: Window, glyphs: Glyphs) -> list[PageLine]:
    offers = offers_of(chain, window)
    whole, offers = (
        len(offers),
        offers[: max(MOST_OFFERS, len(chain.fixes)) if chain.open else len(chain.fixes)],
    )
    if not offers:
        return []
    copies = f"{key('copy')} copies the first command, " if any(offer.command for offer in offers) else ""
    about = (
        f"  {copies}{key('commands')} lists all {whole}"
        if whole > len(offers)
        else f"  {copies}".rstrip(", ")
    )
    lines = command_lines(offers, len(offers), glyphs)
    return [
        PageLine(),
        PageLine((("What to do", "head"), (about, "dim"))),
        *(_indented(line) for line in lines),
    ]


def _indented(line: PageLine) -> PageLine:
    return replace(line, parts=(("  ", "text"), *line.parts), indent=line.indent + 2)


def _rows(chain: Chain, window: Window, *, glyphs: Glyphs, letters: bool) -> list[PageLine]:
    """Return the lines with the figures of the rows that the chain names."""
    place = {key: at for at, key in enumerate(window.rows.keys)}
    keys = [key for key in keys_of(chain, window) if key in place]
    if not keys:
        return []
    lines = [
        PageLine(),
        PageLine((("Rows", "head"), (f"  {'CALL/S':>7} {'P50':>6} {'P99':>6} {'MAX':>6}  SPLIT", "dim"))),
    ]
    rows = window.rows.take(np.array([place[key] for key in keys[:MOST_ROWS]]))
    percentiles = bounded(rows.histograms.percentiles((50.0, 99.0)), rows.max_ns)
    for at, row in enumerate(rows.keys):
        durations = (percentiles[at, 0], percentiles[at, 1], int(rows.max_ns[at]))
        calls = figures.rate(int(rows.calls[at]) / (window.seconds or 1.0), glyphs)
        numbers = [(f" {figures.duration(int(ns), glyphs)}", brightness(int(ns))) for ns in durations]
        split = bar(None if rows.split_ns is None else rows.split_ns[at], glyphs=glyphs, letters=letters)
        name = shown_operation(row.operation)
        if (row.tenant, row.pid) != (chain.tenant, chain.pid):
            name += f"  {name_of(row.tenant, window)}: {with_pid(row.process, row.pid)}"
        lines.append(
            PageLine(
                (("        " + calls, "text"), *numbers, ("  ", "text"), *split, ("  " + name, "text")),
                indent=48,
            )
        )
    if len(keys) > MOST_ROWS:
        lines.append(PageLine(((f"  and {len(keys) - MOST_ROWS} more", "dim"),)))
    if rows.split_ns is not None:
        lines.append(PageLine((("        ", "text"), *legend(glyphs=glyphs, letters=letters)), indent=8))
    return lines
