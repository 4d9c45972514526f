"""Writes chains as text: in one line, as a tree from the effect to its root, or in full with fixes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from stalltop.model.chain import Chain, Fix, Link, Severity
from stalltop.model.evidence import shown_operation
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.text.style import BOLD, DIM, RED, YELLOW, Style
from stalltop.model.text.words import with_pid
from stalltop.model.window import Window

_COLOURS: Final[dict[Severity, str]] = {
    "critical": RED,
    "high": RED,
    "medium": YELLOW,
    "low": "",
    "info": DIM,
}
_RATE_WIDTH: Final = figures.DURATION_WIDTH + 2
_UNIT: Final = re.compile(r"(?<=\d)(?=[a-zµ])")
_CERTAIN: Final = 0.995
"""A cause with at least this confidence, which would be written as 100 %, is called certain."""
_NARROW: Final = 72
"""If the output has fewer cells than this, the figures of a step stand behind its text, not in front of the
tree."""
_DEEPEST: Final = 8
"""Largest indent of a step in a tree, in levels. Deeper steps have the same indent."""


def rate(ns_per_s: float | None, glyphs: Glyphs = UNICODE) -> str:
    """Return lost time per second as text, such as ``155ms/s``, eight cells wide; blanks if it is not
    known."""
    if ns_per_s is None:
        return " " * _RATE_WIDTH
    return figures.duration(ns_per_s, glyphs) + "/s"


def amount(ns: float, glyphs: Glyphs = UNICODE) -> str:
    """Return a time as it is written in a sentence: ``516 ms``, ``1.20 s``, ``16m40s``."""
    text = figures.duration(ns, glyphs).strip()
    return _UNIT.sub(" ", text) if len(_UNIT.findall(text)) == 1 else text


def each_second(ns_per_s: float, glyphs: Glyphs = UNICODE) -> str:
    """Return lost time per second in words, for sentences: ``516 ms of each second``. Several threads
    together can lose more than a second per second."""
    lost = amount(ns_per_s, glyphs)
    return f"{lost} each second, summed over threads" if ns_per_s >= 1e9 else f"{lost} of each second"


def name_of(tenant: str, window: Window) -> str:
    """Return the name of a tenant, or its id if it has no name; the name of the host if ``tenant`` is ''."""
    found = window.tenants.get(tenant)
    return (found.name if found is not None else "") or tenant or window.host


def headline(chain: Chain, style: Style) -> list[str]:
    """Return severity, summary, lost time and beginning of a chain, folded to the width of ``style``."""
    mark = chain.severity.upper()
    text = f"{chain.summary or chain.title} ({', '.join(course(chain, style.glyphs))})"
    lines = style.folded(mark.ljust(8) + "  ", text)
    code = _COLOURS[chain.severity] if chain.open else DIM
    return [style.paint(line, code) for line in lines]


_LOST: Final = "lost"
_SPENT: Final = {
    "gpu_bound": ("waits", "for its GPU work"),
    "host_bound": ("computes", "between its calls"),
}
"""What a workload spends the time on that a chain of severity ``info`` is about, by cause: it loses none."""


def cost(chain: Chain, glyphs: Glyphs) -> tuple[str, str]:
    """Return what a chain costs each second, as a label and a text: ``lost``, ``516 ms of each second``."""
    ns_per_s = chain.lost_ms_per_s * 1e6
    if ns_per_s <= 0:
        return _LOST, "no time yet"
    if chain.cause in _SPENT:
        label, on = _SPENT[chain.cause]
        return label, f"{on} {each_second(ns_per_s, glyphs)}"
    estimated = " (estimated from the clocks)" if chain.estimated else ""
    return _LOST, each_second(ns_per_s, glyphs) + estimated


def sureness(chain: Chain, label: str = "") -> str:
    """Return how certain the cause of a chain is, after ``label``."""
    percent = "" if chain.confidence >= _CERTAIN else f"{100 * chain.confidence:.0f} % "
    return f"{label}{percent}certain"


def sureness_and_baseline(chain: Chain, label: str = "") -> str:
    """Return how certain the cause of a chain is, and whether there is a baseline to compare with, after
    ``label``."""
    sure = sureness(chain, label)
    unlearned = chain.p99_ns is not None and chain.normal_p99_ns is None
    return f"{sure}; no baseline yet" if unlearned else sure


def course(chain: Chain, glyphs: Glyphs) -> list[str]:
    """Return, each as a text: the lost time of a chain, its beginning, and its end if it has ended."""
    label, text = cost(chain, glyphs)
    parts = [] if chain.lost_ms_per_s <= 0 else [text if label == _LOST else f"{label} {text}"]
    parts.append(f"since {figures.clock(chain.since)}")
    return parts if chain.open else [*parts, f"ended {figures.clock(chain.seen)}"]


def tree(chain: Chain, window: Window, style: Style, indent: str = "") -> list[str]:
    """Return the steps from the effect to its root as the lines of a tree. Each step has its share and its
    lost time per second."""
    links = [link for link in chain.links if link.role != "factor"]
    lines: list[str] = []
    for at, link in enumerate(links):
        share = "" if link.share is None else figures.percent(100 * link.share, style.glyphs)
        cost = rate(link.ns_per_s, style.glyphs)
        branch, below = branches(links, at, style.glyphs)
        text, front = step(link, chain, window), indent
        if style.width < _NARROW:
            figured = ", ".join(part.strip() for part in (share, cost) if part.strip())
            text += f" ({figured})" if figured else ""
        else:
            front += f"{share.rjust(figures.PERCENT_WIDTH)} {cost} "
        folded = style.folded(front + branch, text, " " * len(front) + below)
        lines += [style.paint(line, BOLD) if link.role == "culprit" else line for line in folded]
    return lines


def branches(links: Sequence[Link], at: int, glyphs: Glyphs) -> tuple[str, str]:
    """Return the branches of the tree beside the text of link ``at``, as two strings: the one to put before
    the first line of the text, and the one to put before each further line."""

    def followed(depth: int) -> bool:
        """Return whether another link at ``depth`` follows, before any link at a smaller depth does."""
        later = next((link for link in links[at + 1 :] if link.depth <= depth), None)
        return later is not None and later.depth == depth

    depth = min(max(links[at].depth, 0), _DEEPEST)
    deeper = at + 1 < len(links) and links[at + 1].depth > depth
    inside = glyphs.trunk if deeper else ""
    if depth == 0:
        return "", inside
    before = "".join(glyphs.trunk if followed(level) else "   " for level in range(1, depth))
    more = followed(depth)
    branch = glyphs.branch if more else glyphs.last_branch
    return before + branch, before + (glyphs.trunk if more else "   ") + inside


def step(link: Link, chain: Chain, window: Window) -> str:
    """Return the text of a link, followed by its process, tenant and device in parentheses. A name is left
    out if the text has it already. Process and tenant are also left out if the whole chain is about them.
    After the text of an effect, all names are left out."""
    own = link.tenant in ("", chain.tenant) and link.pid in (0, chain.pid)
    # The process is not left out if two steps have the same text and differ only in the process.
    alike = any(other.text == link.text and other.pid != link.pid for other in chain.links)
    process = ""
    if not own or alike:
        process = with_pid(link.process, link.pid) if link.process else ""
    tenant = name_of(link.tenant, window) if link.tenant and link.tenant != chain.tenant else ""
    tenant = "" if tenant == link.process else tenant  # a tenant outside containers: do not repeat its name
    known = (
        (
            f"pid {link.pid}" if alike and link.process in link.text else process,
            f"pid {link.pid}" if alike else link.process,
        ),
        (tenant, tenant),
        (link.device, link.device),
    )
    unsaid = [text for text, said in known if text and (not said or said not in link.text)]
    return f"{link.text} ({', '.join(unsaid)})" if unsaid and link.role != "effect" else link.text


def explained(chain: Chain, window: Window, style: Style) -> list[str]:
    """Return ``chain`` in full as lines of text: headline, figures, steps, factors, unknowns and fixes."""
    lines = headline(chain, style)
    lines += style.folded("  ", about(chain, style.glyphs))
    lines += tree(chain, window, style, "  ")
    for link in chain.links:
        if link.role == "factor":
            lines += style.folded("  made worse by: ", step(link, chain, window))
    for line in chain.unknown:
        lines += style.folded("  not known: ", line)
    for number, found in enumerate(chain.fixes, start=1):
        lines += fix(found, f"fix {number}", style)
    return lines


def about(chain: Chain, glyphs: Glyphs) -> str:
    """Return cause, confidence, place, p99 and number of calls of a chain as one text."""
    parts = [chain.title, sureness_and_baseline(chain, "cause ")]
    place = " ".join(
        part for part in (with_pid(chain.process, chain.pid), shown_operation(chain.operation)) if part
    )
    parts += [place] if place else []
    if chain.p99_ns is not None:
        found = slowest(chain, glyphs)
        calls = "call" if chain.calls == 1 else "calls"
        parts.append(f"p99 {found}, {figures.count(chain.calls).strip()} {calls}")
    return "; ".join(parts)


def slowest(chain: Chain, glyphs: Glyphs) -> str:
    """Return the p99 of a chain as text; '' if the chain has none. If it is above the p99 of the baseline,
    the text also has that p99 and the difference."""
    if chain.p99_ns is None:
        return ""
    now = figures.duration(chain.p99_ns, glyphs).strip()
    if chain.normal_p99_ns is None:
        return now
    normal = figures.duration(chain.normal_p99_ns, glyphs).strip()
    if chain.slower_percent is None or normal == now:
        return now
    return f"{now}, baseline {normal} ({chain.slower_percent:,.0f}% slower than usual for this program)"


def fix(found: Fix, title: str, style: Style) -> list[str]:
    """Return a fix as lines. Its command has a line of its own, which is never broken."""
    command = ["    $ " + style.plain(found.command)] if found.command else []
    return style.folded(f"  {title}: ", found.text) + command
