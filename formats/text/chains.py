"""Chains as text: one line each, as a tree from the effect to its root, and in full with what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stalltop.model.chain import Chain, Fix, Link, Severity
from stalltop.model.text import figures
from stalltop.model.text.style import BOLD, DIM, RED, YELLOW, Style
from stalltop.model.window import Window

_COLOURS: Final[dict[Severity, str]] = {
    "critical": RED,
    "high": RED,
    "medium": YELLOW,
    "low": "",
    "info": DIM,
}
_RATE_WIDTH: Final = figures.DURATION_WIDTH + 2
_NARROW: Final = 72
"""Below so many columns figures stand behind the text, not before the tree."""
_DEEPEST: Final = 8
"""From there on a tree goes no further to the right."""


def rate(ns_per_s: float | None, *, unicode: bool = True) -> str:
    """Time a second, such as ``155ms/s``, in eight columns; blank where it is not known."""
    if ns_per_s is None:
        return " " * _RATE_WIDTH
    return figures.duration(ns_per_s, unicode=unicode) + "/s"


def name_of(tenant: str, window: Window) -> str:
    """What a person calls a tenant; the host's name where there is none."""
    found = window.tenants.get(tenant)
    return (found.name if found is not None else "") or tenant or window.host


def headline(chain: Chain, style: Style) -> list[str]:
    """Severity, what happens, what it costs, and since when: one line, or as many as that needs."""
    mark = chain.severity.upper()
    text = f"{chain.summary or chain.title} ({', '.join(course(chain, unicode=style.unicode))})"
    lines = style.folded(mark.ljust(8) + "  ", text)
    code = _COLOURS[chain.severity] if chain.open else DIM
    return [style.paint(line, code) for line in lines]


def course(chain: Chain, *, unicode: bool) -> list[str]:
    """What it costs, since when, and when it was over."""
    parts = [rate(chain.lost_ms_per_s * 1e6, unicode=unicode).strip()] if chain.lost_ms_per_s > 0 else []
    parts.append(f"since {figures.clock(chain.since)}")
    return parts if chain.open else [*parts, f"ended {figures.clock(chain.seen)}"]


def tree(chain: Chain, window: Window, style: Style, indent: str = "") -> list[str]:
    """The steps from the effect to its root, one below the other, each with its share and time a second."""
    links = [link for link in chain.links if link.role != "factor"]
    lines: list[str] = []
    for at, link in enumerate(links):
        share = "" if link.share is None else figures.percent(100 * link.share, unicode=style.unicode)
        cost = rate(link.ns_per_s, unicode=style.unicode)
        branch, below = branches(links, at, unicode=style.unicode)
        text, front = step(link, chain, window), indent
        if style.width < _NARROW:
            figured = ", ".join(part.strip() for part in (share, cost) if part.strip())
            text += f" ({figured})" if figured else ""
        else:
            front += f"{share.rjust(figures.PERCENT_WIDTH)} {cost} "
        folded = style.folded(front + branch, text, " " * len(front) + below)
        lines += [style.paint(line, BOLD) if link.role == "culprit" else line for line in folded]
    return lines


def branches(links: Sequence[Link], at: int, *, unicode: bool) -> tuple[str, str]:
    """What a tree draws before the link ``at``, and before further lines of its text."""
    corner, tee, pipe, blank = ("└─ ", "├─ ", "│  ", "   ") if unicode else ("`- ", "|- ", "|  ", "   ")

    def followed(depth: int) -> bool:
        """Whether a link of ``depth`` comes later, below the same one."""
        later = next((link for link in links[at + 1 :] if link.depth <= depth), None)
        return later is not None and later.depth == depth

    depth = min(max(links[at].depth, 0), _DEEPEST)
    deeper = at + 1 < len(links) and links[at + 1].depth > depth
    inside = pipe if deeper else ""
    if depth == 0:
        return "", inside
    before = "".join(pipe if followed(level) else blank for level in range(1, depth))
    more = followed(depth)
    return before + (tee if more else corner), before + (pipe if more else blank) + inside


def step(link: Link, chain: Chain, window: Window) -> str:
    """A link's text, and of whom or what it speaks, but for the chain's own process, where it says not."""
    own = link.tenant in ("", chain.tenant) and link.pid in (0, chain.pid)
    # Two steps may differ by nothing else.
    alike = any(other.text == link.text and other.pid != link.pid for other in chain.links)
    process = ""
    if not own or alike:
        process = f"{link.process} {link.pid}" if link.process and link.pid else link.process
    tenant = name_of(link.tenant, window) if link.tenant and link.tenant != chain.tenant else ""
    known = (
        (
            f"pid {link.pid}" if alike and link.process in link.text else process,
            "" if alike else link.process,
        ),
        (tenant, tenant),
        (link.device, link.device),
    )
    unsaid = [text for text, said in known if text and (not said or said not in link.text)]
    return f"{link.text} ({', '.join(unsaid)})" if unsaid and link.role != "effect" else link.text


def explained(chain: Chain, window: Window, style: Style) -> list[str]:
    """All that is known about ``chain``."""
    lines = headline(chain, style)
    lines += style.folded("  ", about(chain, unicode=style.unicode))
    lines += tree(chain, window, style, "  ")
    for link in chain.links:
        if link.role == "factor":
            lines += style.folded("  worse through: ", step(link, chain, window))
    for line in chain.unknown:
        lines += style.folded("  not known: ", line)
    for number, found in enumerate(chain.fixes, start=1):
        lines += fix(found, f"fix {number}", style)
    return lines


def about(chain: Chain, *, unicode: bool) -> str:
    """Its cause, how sure it is, where it is, and how slow that is."""
    parts = [chain.title, f"{figures.percent(100 * chain.confidence, unicode=unicode).strip()} sure"]
    place = " ".join(part for part in (chain.process, str(chain.pid or ""), chain.operation) if part)
    parts += [place] if place else []
    if chain.p99_ns is not None:
        found = slowest(chain, "normal not learned yet", unicode=unicode)
        parts.append(", ".join((f"p99 {found}", f"{figures.count(chain.calls).strip()} calls")))
    return "; ".join(parts)


def slowest(chain: Chain, unlearned: str, *, unicode: bool) -> str:
    """Its p99, and what is normal where that is less: a loss need not show in the slowest calls.
    ``unlearned`` is said where nothing is known to be normal yet."""
    if chain.p99_ns is None:
        return ""
    now = figures.duration(chain.p99_ns, unicode=unicode).strip()
    if chain.normal_p99_ns is None:
        return f"{now}, {unlearned}"
    normal = figures.duration(chain.normal_p99_ns, unicode=unicode).strip()
    return f"{now}, normally {normal}" if chain.p99_ns > chain.normal_p99_ns and normal != now else now


def fix(found: Fix, title: str, style: Style) -> list[str]:
    """What helps; a command stands on a line of its own that is never broken."""
    command = ["    $ " + style.plain(found.command)] if found.command else []
    return style.folded(f"  {title}: ", found.text) + command
