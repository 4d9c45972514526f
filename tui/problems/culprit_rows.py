"""Finds the rows of culprits in tables: of processes that take time from callers and may make no calls
themselves. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from stalltop.formats.text.answer import fades
from stalltop.formats.text.chains import amount, name_of
from stalltop.model.chain import Chain, Link
from stalltop.model.row_key import RowKey
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.rows.filter import parse
from stalltop.model.rows.pivot import RowNaming
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.text.words import SEVERAL, numbered
from stalltop.model.window import Window
from stalltop.tui.problems.chains import ROLE
from stalltop.tui.problems.rows import LEAST_SHARE
from stalltop.tui.views.groups import AddedRow, Key, Process
from stalltop.tui.views.view import View

_LOUD: Final = ("critical", "high")
_BY_OWNER: Final[Collection[Dimension]] = ("container", "pod", "namespace")
"""Tables by these dimensions have a row for each owner of culprits, tables by process one for each culprit.
Tables by other dimensions have rows for calls alone."""


def culprit_rows(
    chains: Iterable[Chain], window: Window, view: View, glyphs: Glyphs = UNICODE
) -> dict[Key, AddedRow]:
    """Return the rows that the culprits of ``chains`` have in the table of ``view``, by their keys, in the
    order of ``chains``. Rows inside another row have none: their table shows what that row consists of.

    Beside problems of severity ``critical`` or ``high``, those of severity ``medium`` have none: the culprits
    of what hurts most are not to be missed."""
    if view.path or view.by not in (*_BY_OWNER, "process"):
        return {}
    dimensions = view.levels()[0].by
    naming, found = RowNaming(window), parse(view.filter)
    labels: dict[Key, tuple[str, ...]] = {}
    blames: dict[Key, list[_Blame]] = {}
    chains = tuple(chains)
    for chain in [one for one in chains if one.severity in _LOUD] or chains:
        for key, link in culprits_of(chain, window):
            tenant = window.tenants.get(key.tenant)
            if tenant is None and not {"pod", "namespace"}.isdisjoint(dimensions):
                continue
            if found and not found.matches(key, tenant):
                continue
            parts, labels[parts] = naming.parts(dimensions, key)
            blames.setdefault(parts, []).append(_Blame(chain, link, _processes(key, window)))
    return {parts: _row(labels[parts], blamed, window, glyphs) for parts, blamed in blames.items()}


class _Blame(NamedTuple):
    """That processes are a culprit of a chain, by one of its links."""

    chain: Chain
    link: Link
    processes: frozenset[Process]


def _row(labels: tuple[str, ...], blamed: Sequence[_Blame], window: Window, glyphs: Glyphs) -> AddedRow:
    """Return the row of the processes that chains ``blamed``, the worst chain first."""
    victims = dict.fromkeys(one.chain.tenant for one in blamed if one.chain.tenant)
    whom = name_of(next(iter(victims)), window) if len(victims) == 1 else numbered(len(victims), "container")
    lost_ns = sum(one.link.ns_per_s or 1e6 * one.chain.lost_ms_per_s for one in blamed)
    does = f"slows {whom}: {amount(lost_ns, glyphs)}/s" if victims and lost_ns else ""
    processes = frozenset[Process]().union(*(one.processes for one in blamed))
    worst = blamed[0].chain
    role = "dim" if fades(worst, window) else ROLE[worst.severity]
    # A row in the style of "critical", which has a background, would hide the victim's mark.
    return AddedRow(labels, processes, does, "bad" if role == "critical" else role)


def chains_by(key: object, chains: Iterable[Chain], window: Window, view: View) -> list[Chain]:
    """Return those of ``chains`` that have the row ``key`` of the table of ``view`` as a culprit."""
    return [chain for chain in chains if key in culprit_rows((chain,), window, view)]


def culprits_of(chain: Chain, window: Window) -> Iterator[tuple[RowKey, Link]]:
    """Yield the culprits of ``chain`` that took a large enough part of the loss, as keys without an
    operation, each with its link. The victim itself is left out. The PID of several processes of one name is
    0. A problem of severity ``low`` or ``info`` has none: it needs no row of its own."""
    if chain.severity in ("info", "low"):
        return
    for number, link in enumerate(chain.culprits):
        if link.of_others or not link.tenant or not (link.pid or link.process):
            continue
        if (link.tenant, link.pid) == (chain.tenant, chain.pid):
            continue
        if (link.share or 0.0) >= LEAST_SHARE or (not number and link.share is None):
            process = SEVERAL.sub("", link.process)
            yield RowKey(window.host, link.tenant, link.pid, process, "", ""), link


def _processes(key: RowKey, window: Window) -> frozenset[Process]:
    """Return the processes that ``key`` stands for."""
    if key.pid:
        return frozenset({(key.tenant, key.pid)})
    uses = window.evidence.processes
    return frozenset(
        (use.tenant, use.pid) for use in uses if (use.tenant, use.process) == (key.tenant, key.process)
    )
