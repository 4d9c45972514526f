"""Makes one list of problems and warnings, and finds the rows that a problem names. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from stalltop.formats.text.answer import fades
from stalltop.formats.text.chains import name_of, rate
from stalltop.model.chain import (
    SEVERITIES,
    SEVERITY_SECONDS,
    Chain,
    Link,
    Severity,
    uncontradicted,
    worst_first,
)
from stalltop.model.evidence import shown_operation
from stalltop.model.row_key import RowKey
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.rows.filter import parse
from stalltop.model.rows.pivot import RowNaming
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.text.words import with_pid
from stalltop.model.window import Window
from stalltop.tui.problems.folding import device_numbers, folded
from stalltop.tui.problems.warnings import Warn, warnings
from stalltop.tui.views.view import View
from stalltop.widgets.alerts import AlertRow
from stalltop.widgets.drawing.magnitude import brightness
from stalltop.widgets.table import Role

MARK: dict[Severity, str] = {"critical": "C", "high": "H", "medium": "M", "low": "L", "info": "-"}
"""The letter of each severity, to tell severities apart without colours."""
ROLE: dict[Severity, Role] = {
    "critical": "critical",
    "high": "bad",
    "medium": "warn",
    "low": "low",
    "info": "dim",
}
_WARNING_MARK = {"bad": "!", "warn": "!", "dim": "-"}
_WARNING_RANK = {"bad": 1.5, "warn": 2.5, "dim": 4.5}
"""The rank of warnings among problems, by role. The rank of a problem is the index of its severity in
``SEVERITIES``, so a warning of rank 1.5 comes after problems of severity critical and high."""
_OVER, _STANDING, _NO_FAULT = 5.0, 6.0, 7.0
"""The ranks of the lines at the end of the list: problems that ended, conditions that have existed since the
start, and problems of severity ``info``."""

STANDING: Final = "standing"
"""First part of the keys of lines about conditions that have existed since the start, such as an untraced
process."""
WARNING: Final = "warning"
"""First part of the keys of lines about other warnings."""
CLEARLY: Final = 2.0
"""The loss by which a problem is sorted changes if the real loss is larger or smaller by more than this
factor."""
_NOT_SHOWN: Final[Mapping[str, float]] = {}
_NOT_HELD: Final[Mapping[str, tuple[Severity, float]]] = {}


@dataclass(frozen=True, slots=True)
class Listed:
    """The list of problems and warnings."""

    rows: tuple[AlertRow, ...]
    """Open problems and warnings, the worst first; then problems that ended; then conditions that have
    existed since the start; then problems of severity ``info``.

    Problems of one kind that ended share one line. Problems of one kind and of severity ``info`` share one
    line too.
    """
    chains: tuple[Chain, ...]
    """The chains of the list, the worst first; chains that ended come last."""
    silenced: int
    """The number of silenced lines about open problems and warnings. It does not depend on whether these
    lines are shown."""
    silenced_problems: int = 0
    """The number of silenced open problems, without those of severity ``info`` and without warnings."""
    lines: Mapping[str, Hashable] = field(default_factory=dict)
    """The key of the line that shows each chain, by the chain's id."""
    aside: tuple[AlertRow, ...] = ()
    """Lines of the list that are drawn only while the list has the keyboard focus."""
    sorted_by: Mapping[str, float] = field(default_factory=dict)
    """The loss (ms/s) by which each open chain is sorted, by the chain's id."""
    held: Mapping[str, tuple[Severity, float]] = field(default_factory=dict)
    """The severity with which each open chain is shown, and the last time at which the chain really had this
    severity (Unix seconds), by the chain's id."""

    @property
    def open(self) -> tuple[Chain, ...]:
        """Return the chains that are still open."""
        return tuple(chain for chain in self.chains if chain.open)

    def chain(self, key: Hashable) -> Chain | None:
        """Return the chain of the line ``key``; None if that line has none."""
        return next((chain for chain in self.chains if chain.id == key), None)


def stands(key: Hashable) -> bool:
    """Return whether the line ``key`` is about a condition that has existed since the start and does not
    change."""
    return isinstance(key, tuple) and key[0] == STANDING


def warns(key: Hashable) -> bool:
    """Return whether the line ``key`` is a warning that no problem explains, such as a call that hangs."""
    return isinstance(key, tuple) and key[0] == WARNING


def steady_losses(chains: Iterable[Chain], before: Mapping[str, float] = _NOT_SHOWN) -> dict[str, float]:
    """Return the loss (ms/s) by which each open chain is sorted, by the chain's id.

    This is the loss in ``before``, unless the chain's current loss is larger or smaller by more than the
    factor ``CLEARLY``; then it is the current loss. So no line jumps because a loss varies a little.
    """

    def kept(chain: Chain) -> float:
        now, then = chain.lost_ms_per_s, before.get(chain.id, chain.lost_ms_per_s)
        return then if then / CLEARLY <= now <= then * CLEARLY else now

    return {chain.id: kept(chain) for chain in chains if chain.open}


def steady_severities(
    chains: Iterable[Chain], now: float, before: Mapping[str, tuple[Severity, float]] = _NOT_HELD
) -> dict[str, tuple[Severity, float]]:
    """Return the severity with which each open chain is shown at ``now``, and the last time at which the
    chain really had this severity (Unix seconds), by the chain's id.

    A chain keeps its severity from ``before`` for ``SEVERITY_SECONDS`` after it became less severe. So the
    line of a loss that comes in bursts does not change its colour and its place with each burst.
    """

    def kept(chain: Chain) -> tuple[Severity, float]:
        severity, at = before.get(chain.id, (chain.severity, now))
        worse = SEVERITIES.index(severity) < SEVERITIES.index(chain.severity)
        held = worse and chain.severity != "info" and 0.0 <= now - at < SEVERITY_SECONDS
        return (severity, at) if held else (chain.severity, now)

    return {chain.id: kept(chain) for chain in chains if chain.open}


def steady(chains: Iterable[Chain], losses: Mapping[str, float] = _NOT_SHOWN) -> tuple[Chain, ...]:
    """Return ``chains``, the worst first. A chain whose id is in ``losses`` (from ``steady_losses``) is
    sorted by the loss given there, any other chain by its own loss."""

    def rank(chain: Chain) -> tuple[bool, int, int, float, str]:
        return worst_first(replace(chain, lost_ms_per_s=losses.get(chain.id, chain.lost_ms_per_s)))

    return tuple(sorted(chains, key=rank))


def listed(
    window: Window | None,
    notes: Sequence[str] = (),
    *,
    before: Mapping[str, float] = _NOT_SHOWN,
    held: Mapping[str, tuple[Severity, float]] = _NOT_HELD,
    silenced: Collection[Hashable] = (),
    show_silenced: bool = False,
    glyphs: Glyphs = UNICODE,
) -> Listed:
    """Return the list of problems and warnings of ``window``.

    ``before`` and ``held`` are ``sorted_by`` and ``held`` of the previous list. ``silenced`` holds keys of
    lines.
    """
    found = window.chains if window is not None else ()
    severities = steady_severities(found, window.end, held) if window is not None else {}
    found = uncontradicted(replace(one, severity=severities[one.id][0]) if one.open else one for one in found)
    losses = steady_losses(found, before)
    chains = steady(found, losses)
    shown = [chain for chain in chains if show_silenced or chain.id not in silenced]
    ranked: list[tuple[float, AlertRow]] = []
    lines: dict[str, Hashable] = {chain.id: chain.id for chain in shown}
    alike: dict[tuple[str, bool], list[tuple[Chain, AlertRow]]] = {}
    for chain in shown:
        assert window is not None
        row = alert_row(chain, window, silenced=chain.id in silenced, glyphs=glyphs)
        if chain.open and chain.severity != "info":
            ranked.append((SEVERITIES.index(chain.severity), row))
        else:
            alike.setdefault((row.title, chain.open), []).append((chain, row))
    for (_, goes_on), of in alike.items():
        assert window is not None
        line = folded(of, window)
        ranked.append((_NO_FAULT if goes_on else _OVER, line))
        lines.update((chain.id, line.key) for chain, _ in of)
    standing_silenced = 0
    aside: list[AlertRow] = []
    keys: Counter[str] = Counter()
    for warn in warnings(window, notes, glyphs):
        # The key leaves out the figures of the text, because they change.
        about = warn.name or "".join(letter for letter in warn.text if not letter.isdigit())
        keys[about] += 1
        row = _sentence(warn, (STANDING if warn.standing else WARNING, about, keys[about]))
        if row.key in silenced:
            standing_silenced += 1
            if not show_silenced:
                continue
            row = replace(row, text=f"({row.text})", role="dim")
        if warn.aside:
            aside.append(row)
        else:
            ranked.append((_STANDING if warn.standing else _WARNING_RANK[warn.level], row))
    ranked.sort(key=lambda pair: pair[0])
    silenced_chains = sum(chain.open and chain.id in silenced for chain in chains)
    return Listed(
        rows=tuple(row for _, row in ranked),
        chains=tuple(shown),
        silenced=silenced_chains + standing_silenced,
        silenced_problems=sum(
            chain.open and chain.severity != "info" and chain.id in silenced for chain in chains
        ),
        lines=lines,
        aside=tuple(aside),
        sorted_by=losses,
        held=severities,
    )


def _sentence(warn: Warn, key: tuple[str, str, int]) -> AlertRow:
    mark = _WARNING_MARK[warn.level]
    # A warning that has stood since the start is dim: problems are more urgent. The header keeps its colour.
    role = "dim" if warn.standing and warn.level == "warn" else warn.level
    return AlertRow(key=key, mark=mark, role=role, text=warn.text, name=warn.name)


def alert_row(chain: Chain, window: Window, *, silenced: bool = False, glyphs: Glyphs = UNICODE) -> AlertRow:
    """Return the line of a chain."""
    remedy = chain.remedy
    return AlertRow(
        key=chain.id,
        mark=MARK[chain.severity],
        role="dim" if silenced or not chain.open or fades(chain, window) else ROLE[chain.severity],
        title=f"({chain.title})" if silenced else chain.title,
        who=name_of(chain.tenant, window) if chain.tenant else _devices(chain) or window.host,
        lost=loss(chain, glyphs),
        lost_role=brightness(chain.lost_ms_per_s * 1e6),
        where=shown_operation(chain.operation),
        culprit=culprit(chain, window),
        since=figures.clock(chain.since),
        fix=remedy.command if chain.open and remedy is not None and not remedy.look else "",
        ended="" if chain.open else figures.clock(chain.seen),
    )


def _devices(chain: Chain) -> str:
    """Return the GPUs that a chain names, as text; empty if it names none."""
    return ", ".join(sorted({link.device for link in chain.links if link.device.startswith("GPU")}))


def loss(chain: Chain, glyphs: Glyphs = UNICODE) -> str:
    """Return the time lost per second because of a chain, as text; empty if none was lost yet."""
    return rate(chain.lost_ms_per_s * 1e6, glyphs) if chain.lost_ms_per_s > 0 else ""


def culprit(chain: Chain, window: Window) -> str:
    """Return the main culprit of a chain as text. If the chain has no culprit, return its last mechanism or
    reason; empty if it has none."""
    if chain.culprits:
        return subject(chain.culprits[0], chain.tenant, window) or chain.culprits[0].text
    roots = [link for link in chain.links if link.role in ("mechanism", "reason")]
    return roots[-1].text if roots else ""


def subject(link: Link, victim: str, window: Window) -> str:
    """Return the name of the process, tenant or device of a link. The tenant is part of the name if it is not
    ``victim``."""
    process = with_pid(link.process, link.pid) if link.process else ""
    tenant = name_of(link.tenant, window) if link.tenant and link.tenant != victim else ""
    tenant = "" if tenant == link.process else tenant  # a tenant outside containers: do not repeat its name
    return ": ".join(part for part in (tenant, process or link.device) if part)


def counts(chains: Iterable[Chain]) -> tuple[tuple[Severity, int], ...]:
    """Return the number of chains of each severity except ``info``, the worst first. Severities without
    chains are left out."""
    found = [chain.severity for chain in chains if chain.severity != "info"]
    return tuple((severity, found.count(severity)) for severity in SEVERITIES if severity in found)


# ---- rows and chains


def keys_of(chain: Chain, window: Window) -> tuple[RowKey, ...]:
    """Return the rows that a chain names. If the chain names none, return the row that loses time because of
    it."""
    own = RowKey(window.host, chain.tenant, chain.pid, chain.process, chain.layer, chain.operation)
    return chain.rows or (own,)


def groups_of(chain: Chain, window: Window, view: View, level: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield, for each row that ``chain`` names, the key of the table row that contains it on ``level`` of the
    tree of ``view``."""
    return (key for _, key in grouped_keys(chain, window, view, level))


def grouped_keys(
    chain: Chain, window: Window, view: View, level: int = 0
) -> Iterator[tuple[RowKey | None, tuple[str, ...]]]:
    """Yield each row that ``chain`` names, and that passes the filter of ``view``, with the key of the table
    row that contains it on ``level`` of the tree of ``view``. The row is None if the chain is about a whole
    device."""
    dimensions = view.levels()[level].by
    naming = RowNaming(window)
    by_device = "device" in dimensions or any(step.dimension == "device" for step in view.path)
    if dimensions == ("device",) and not view.path and not chain.tenant:
        yield from ((None, (f"{window.host}/{name}",)) for name in device_numbers(chain))
    passes = parse(view.filter).of(window) if view.filter else None
    for key in keys_of(chain, window):
        if passes is not None and not passes(key):
            continue
        tenant = window.tenants.get(key.tenant)

        def part(dimension: Dimension, key: RowKey = key) -> str:
            return naming.part(dimension, key)[0]

        if by_device and not naming.placement.devices(key):
            continue
        if not key.operation and not {"operation", "layer"}.isdisjoint(dimensions):
            continue
        if tenant is None and not {"pod", "namespace"}.isdisjoint(dimensions):
            continue
        if all(part(step.dimension) == step.key for step in view.path):
            yield key, tuple(part(dimension) for dimension in dimensions)


def chains_of(key: object, chains: Iterable[Chain], window: Window, view: View) -> list[Chain]:
    """Return those of ``chains`` that name the row ``key`` of the table of ``view``."""
    level = view.level_of(key) if isinstance(key, tuple) else 0
    return [chain for chain in chains if key in set(groups_of(chain, window, view, level))]
