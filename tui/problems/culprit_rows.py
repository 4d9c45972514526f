"""Finds the rows of culprits in tables: of processes that take time from callers and may make no calls
themselves. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from stalltop.model.chain import Chain
from stalltop.model.row_key import RowKey
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.rows.filter import parse
from stalltop.model.rows.pivot import RowNaming
from stalltop.model.text.words import SEVERAL
from stalltop.model.window import Window
from stalltop.tui.problems.rows import LEAST_SHARE
from stalltop.tui.views.groups import AddedRow, Key, Process
from stalltop.tui.views.view import View

_LOUD: Final = ("critical", "high")
_BY_OWNER: Final[Collection[Dimension]] = ("container", "pod", "namespace")
"""Tables by these dimensions have a row for each owner of culprits, tables by process one for each culprit.
Tables by other dimensions have rows for calls alone."""


def culprit_rows(chains: Iterable[Chain], window: Window, view: View) -> dict[Key, AddedRow]:
    """Return the rows that the culprits of ``chains`` have in the table of ``view``, by their keys, in the
    order of ``chains``. Rows inside another row have none: their table shows what that row consists of.

    Beside problems of severity ``critical`` or ``high``, those of severity ``medium`` have none: the culprits
    of what hurts most are not to be missed."""
    if view.path or view.by not in (*_BY_OWNER, "process"):
        return {}
    dimensions = view.levels()[0].by
    naming, found = RowNaming(window), parse(view.filter)
    rows: dict[Key, AddedRow] = {}
    chains = tuple(chains)
    for chain in [one for one in chains if one.severity in _LOUD] or chains:
        for key in culprits_of(chain, window):
            tenant = window.tenants.get(key.tenant)
            if tenant is None and not {"pod", "namespace"}.isdisjoint(dimensions):
                continue
            if found and not found.matches(key, tenant):
                continue
            parts, labels = naming.parts(dimensions, key)
            before = rows[parts].processes if parts in rows else frozenset[Process]()
            rows[parts] = AddedRow(labels, before | _processes(key, window))
    return rows


def chains_by(key: object, chains: Iterable[Chain], window: Window, view: View) -> list[Chain]:
    """Return those of ``chains`` that have the row ``key`` of the table of ``view`` as a culprit."""
    return [chain for chain in chains if key in culprit_rows((chain,), window, view)]


def culprits_of(chain: Chain, window: Window) -> Iterator[RowKey]:
    """Yield the culprits of ``chain`` that took a large enough part of the loss, as keys without an
    operation. The victim itself is left out. The PID of several processes of one name is 0. A problem of
    severity ``low`` or ``info`` has none: it needs no row of its own."""
    if chain.severity in ("info", "low"):
        return
    for number, link in enumerate(chain.culprits):
        if link.of_others or not link.tenant or not (link.pid or link.process):
            continue
        if (link.tenant, link.pid) == (chain.tenant, chain.pid):
            continue
        if (link.share or 0.0) >= LEAST_SHARE or (not number and link.share is None):
            yield RowKey(window.host, link.tenant, link.pid, SEVERAL.sub("", link.process), "", "")


def _processes(key: RowKey, window: Window) -> frozenset[Process]:
    """Return the processes that ``key`` stands for."""
    if key.pid:
        return frozenset({(key.tenant, key.pid)})
    uses = window.evidence.processes
    return frozenset(
        (use.tenant, use.pid) for use in uses if (use.tenant, use.process) == (key.tenant, key.process)
    )
