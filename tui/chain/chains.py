"""Chains and other warnings as one list, and which chain speaks of which row. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from stalltop.formats.text.chains import name_of, rate
from stalltop.model.chain import SEVERITIES, Chain, Link, Severity, worst_first
from stalltop.model.row_key import RowKey
from stalltop.model.rows.pivot import Dimension, Naming
from stalltop.model.text import figures
from stalltop.model.window import Window
from stalltop.tui.chain.warnings import Warn, warnings
from stalltop.tui.tables.view import View
from stalltop.widgets.alerts import AlertRow
from stalltop.widgets.table import Cell, Role

MARK: dict[Severity, str] = {"critical": "C", "high": "H", "medium": "M", "low": "L", "info": "i"}
"""Tells severities apart without a colour."""
ROLE: dict[Severity, Role] = {
    "critical": "critical",
    "high": "bad",
    "medium": "warn",
    "low": "label",
    "info": "dim",
}
_WARNING_MARK = {"bad": "!", "warn": "!", "dim": "-"}
_WARNING_RANK = {"bad": 1.5, "warn": 2.5, "dim": 4.5}
"""Where other warnings stand among chains: after those of the severity with the number below it."""
_OVER, _STANDING, _NO_FAULT = 5.0, 6.0, 7.0
"""Behind them: chains that are over, what was so from the start and stays so, and what is no fault."""

STANDING: Final = "standing"
"""First part of the key of a line that says what is so from the start and stays so."""
CLEARLY: Final = 2.0
"""A loss so many times, or so few, as large as before is another one."""
HELD_SECONDS: Final = 30.0
"""How long a chain that has become less severe is still called what it was."""
_NOT_SHOWN: Final[Mapping[str, float]] = {}
_NOT_HELD: Final[Mapping[str, tuple[Severity, float]]] = {}


@dataclass(frozen=True, slots=True)
class Listed:
    """The list of all that is wrong."""

    rows: tuple[AlertRow, ...]
    """Open faults and other warnings, the worst first, then chains that are over, then what is no fault. Of
    chains of one kind that are over or no fault there is one line."""
    chains: tuple[Chain, ...]
    """The chains among them, the worst first, those that are over last."""
    silenced: int
    """Lines of what goes on that are left out, or would be."""
    aside: tuple[AlertRow, ...] = ()
    """What is worth a line only where all is listed."""
    sorted_by: Mapping[str, float] = field(default_factory=dict)
    """By the id of each open chain, the loss that it is sorted by now, ms a second."""
    held: Mapping[str, tuple[Severity, float]] = field(default_factory=dict)
    """By the id of each open chain, how severe it is called and when it last was, Unix time in seconds."""

    @property
    def open(self) -> tuple[Chain, ...]:
        """The chains that still go on."""
        return tuple(chain for chain in self.chains if chain.open)


def steady_losses(chains: Iterable[Chain], before: Mapping[str, float] = _NOT_SHOWN) -> dict[str, float]:
    """The loss that each open chain is sorted by, by id: as ``before`` until it is clearly another one. So a
    loss at the edge of a step makes no line jump from window to window."""

    def kept(chain: Chain) -> float:
        now, then = chain.lost_ms_per_s, before.get(chain.id, chain.lost_ms_per_s)
        return then if then / CLEARLY <= now <= then * CLEARLY else now

    return {chain.id: kept(chain) for chain in chains if chain.open}


def steady_severities(
    chains: Iterable[Chain], now: float, before: Mapping[str, tuple[Severity, float]] = _NOT_HELD
) -> dict[str, tuple[Severity, float]]:
    """How severe each open chain is called at ``now`` and when it last was that (Unix seconds), by id: as
    ``before`` for some seconds after it became less. So what comes in bursts changes neither its colour nor
    its place with each of them."""

    def kept(chain: Chain) -> tuple[Severity, float]:
        severity, at = before.get(chain.id, (chain.severity, now))
        worse = SEVERITIES.index(severity) < SEVERITIES.index(chain.severity)
        held = worse and chain.severity != "info" and 0.0 <= now - at < HELD_SECONDS
        return (severity, at) if held else (chain.severity, now)

    return {chain.id: kept(chain) for chain in chains if chain.open}


def steady(chains: Iterable[Chain], losses: Mapping[str, float] = _NOT_SHOWN) -> tuple[Chain, ...]:
    """``chains``, the worst first, sorted by ``losses`` where they have them: see ``steady_losses``."""

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
    unicode: bool = True,
) -> Listed:
    """All that is wrong in ``window``. ``before``, ``held``: what the list before this one was sorted by, and
    how severe it called its chains; ``silenced``: keys of lines."""
    found = window.chains if window is not None else ()
    severities = steady_severities(found, window.end, held) if window is not None else {}
    found = tuple(replace(one, severity=severities[one.id][0]) if one.open else one for one in found)
    losses = steady_losses(found, before)
    chains = steady(found, losses)
    shown = [chain for chain in chains if show_silenced or chain.id not in silenced]
    ranked: list[tuple[float, AlertRow]] = []
    alike: dict[tuple[str, bool], list[tuple[Chain, AlertRow]]] = {}
    for chain in shown:
        assert window is not None
        row = alert_row(chain, window, silenced=chain.id in silenced, unicode=unicode)
        if chain.open and chain.severity != "info":
            ranked.append((SEVERITIES.index(chain.severity), row))
        else:
            alike.setdefault((row.title, chain.open), []).append((chain, row))
    ranked += [(_NO_FAULT if goes_on else _OVER, folded(of)) for (_, goes_on), of in alike.items()]
    standing_silenced = 0
    aside: list[AlertRow] = []
    keys: Counter[str] = Counter()
    for warn in warnings(window, notes, unicode=unicode):
        # Figures in it change; what it speaks of does not.
        about = warn.name or "".join(letter for letter in warn.text if not letter.isdigit())
        keys[about] += 1
        row = _sentence(warn, (STANDING if warn.standing else "warning", about, keys[about]))
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
    return Listed(
        rows=tuple(row for _, row in ranked),
        chains=tuple(shown),
        silenced=sum(chain.open and chain.id in silenced for chain in chains) + standing_silenced,
        aside=tuple(aside),
        sorted_by=losses,
        held=severities,
    )


def folded(alike: Sequence[tuple[Chain, AlertRow]]) -> AlertRow:
    """One line for all chains of one kind, with what they have in common; Enter leads to the newest one."""
    newest, row = max(alike, key=lambda pair: pair[0].seen)
    if len(alike) == 1:
        return row
    if newest.open:
        row = alike[0][1]  # all were seen just now: the worst

    def common(values: set[str], otherwise: str = "") -> str:
        return values.pop() if len(values) == 1 else otherwise

    return replace(
        row,
        title=f"{len(alike)}x {row.title}",
        who=common({one.who for _, one in alike}, _several([chain for chain, _ in alike])),
        lost="",
        where=common({one.where for _, one in alike}),
        culprit=common({one.culprit for _, one in alike}),
        since=common({one.since for _, one in alike}),
        fix="",
    )


def _sentence(warn: Warn, key: tuple[str, str, int]) -> AlertRow:
    mark = _WARNING_MARK[warn.level]
    return AlertRow(key=key, mark=mark, role=warn.level, text=warn.text, name=warn.name)


def alert_row(chain: Chain, window: Window, *, silenced: bool = False, unicode: bool = True) -> AlertRow:
    """A chain in one line."""
    return AlertRow(
        key=chain.id,
        mark=MARK[chain.severity],
        role=ROLE[chain.severity] if chain.open and not silenced else "dim",
        title=f"({chain.title})" if silenced else chain.title,
        who=name_of(chain.tenant, window) if chain.tenant else _devices(chain) or window.host,
        lost=loss(chain, unicode=unicode),
        where=chain.operation,
        culprit=culprit(chain, window),
        since=figures.clock(chain.since),
        fix=next((fix.command for fix in chain.fixes if fix.command and not fix.look), "")
        if chain.open
        else "",
        ended="" if chain.open else figures.clock(chain.seen),
    )


def _devices(chain: Chain) -> str:
    """The GPUs that a chain speaks of."""
    return ", ".join(sorted({link.device for link in chain.links if link.device.startswith("GPU")}))


def _several(chains: Sequence[Chain]) -> str:
    """How many chains of one kind speak of what: tenants, or GPUs where no tenant is hit."""
    tenants = {chain.tenant for chain in chains if chain.tenant}
    if len(tenants) > 1:
        return f"{len(tenants)} tenants"
    devices = {number for chain in chains for number in _device_numbers(chain)}
    return f"{len(devices)} GPUs" if len(devices) > 1 else "several"


def _device_numbers(chain: Chain) -> list[str]:
    """Their numbers, as text."""
    return sorted({link.device[4:] for link in chain.links if link.device.startswith("GPU ")})


def loss(chain: Chain, *, unicode: bool = True) -> str:
    """What a chain costs, time a second; empty where nothing was lost yet."""
    return rate(chain.lost_ms_per_s * 1e6, unicode=unicode) if chain.lost_ms_per_s > 0 else ""


def culprit(chain: Chain, window: Window) -> str:
    """Who is to blame most; where nobody is, what the loss goes to."""
    if chain.culprits:
        return subject(chain.culprits[0], chain.tenant, window) or chain.culprits[0].text
    roots = [link for link in chain.links if link.role in ("mechanism", "reason")]
    return roots[-1].text if roots else ""


def subject(link: Link, victim: str, window: Window) -> str:
    """Whom or what a step speaks of: the process, the tenant where that is another one, the device."""
    process = f"{link.process} {link.pid or ''}".strip()
    tenant = name_of(link.tenant, window) if link.tenant and link.tenant != victim else ""
    return ": ".join(part for part in (tenant, process or link.device) if part)


def counts(chains: Iterable[Chain]) -> tuple[tuple[Severity, int], ...]:
    """How many chains there are of each severity that is a fault and occurs, the worst first."""
    found = [chain.severity for chain in chains if chain.severity != "info"]
    return tuple((severity, found.count(severity)) for severity in SEVERITIES if severity in found)


# ---- rows and chains


def keys_of(chain: Chain, window: Window) -> tuple[RowKey, ...]:
    """The rows a chain speaks of; where it names none, the one that it loses its time in."""
    own = RowKey(window.host, chain.tenant, chain.pid, chain.process, chain.layer, chain.operation)
    return chain.rows or (own,)


def groups_of(chain: Chain, window: Window, view: View, level: int = 0) -> Iterator[tuple[str, ...]]:
    """Keys of the rows of a level of the tree of ``view`` that a chain speaks of."""
    dimensions = view.levels()[level].by
    naming = Naming(window)
    by_device = "device" in dimensions or any(step.dimension == "device" for step in view.path)
    if dimensions == ("device",) and not view.path and not chain.tenant:
        yield from ((f"{window.host}/{name}",) for name in _device_numbers(chain))
    for key in keys_of(chain, window):
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
            yield tuple(part(dimension) for dimension in dimensions)


def marks(chains: Iterable[Chain], window: Window, view: View) -> dict[tuple[str, ...], Cell]:
    """The mark of each row of the table of ``view`` that one of ``chains``, worst first, speaks of."""
    found: dict[tuple[str, ...], Cell] = {}
    levels = range(len(view.levels()) if view.is_tree else 1)
    for chain in chains:
        if chain.severity != "info":
            for level in levels:
                for key in groups_of(chain, window, view, level):
                    found.setdefault(key, Cell(MARK[chain.severity], ROLE[chain.severity]))
    return found


def chains_of(key: object, chains: Iterable[Chain], window: Window, view: View) -> list[Chain]:
    """Those of ``chains`` that speak of the row ``key`` of the table of ``view``."""
    level = view.level_of(key) if isinstance(key, tuple) else 0
    return [chain for chain in chains if key in set(groups_of(chain, window, view, level))]
