"""Puts lines of the list of problems together: several problems of one kind become one line. Pure
functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from stalltop.formats.text.chains import name_of, rate
from stalltop.model.chain import Chain
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.window import Window
from stalltop.widgets.alerts import AlertRow

_MOST_NAMED: Final = 3
"""The most tenants that a line for several problems names."""
_Line = tuple[Chain, AlertRow]


def together(
    lines: Iterable[tuple[Chain | None, AlertRow]], window: Window, glyphs: Glyphs = UNICODE
) -> list[AlertRow]:
    """Return ``lines``, those about open problems with the same title and culprit as one line: in place of
    the worst of them, with the sum of their losses. Lines without a chain stay as they are."""
    alike: dict[object, list[_Line]] = {}
    order: list[AlertRow | list[_Line]] = []
    for chain, row in lines:
        if chain is None or not chain.open or chain.severity == "info" or not row.culprit:
            order.append(row)
            continue
        of = alike.setdefault((row.title, row.culprit), [])
        if not of:
            order.append(of)
        of.append((chain, row))
    return [one if isinstance(one, AlertRow) else _summed(one, window, glyphs) for one in order]


def _summed(alike: Sequence[_Line], window: Window, glyphs: Glyphs) -> AlertRow:
    """Return one line for ``alike``, open problems with the same culprit, the worst first."""
    lost_ns = 1e6 * sum(chain.lost_ms_per_s for chain, _ in alike)
    row = folded(alike, window)
    if len(alike) == 1:
        return row
    victims = {chain.tenant for chain, _ in alike}
    who = f"{len(victims)} tenants" if len(victims) > 1 else row.who
    return replace(row, who=who, lost=rate(lost_ns, glyphs) if lost_ns else "")


def folded(alike: Sequence[_Line], window: Window) -> AlertRow:
    """Return one line for ``alike``, chains of one kind. If there are several, the loss and the fix are left
    out, and so is a column in which they differ. Only in place of different victims there is a text
    (``_several``). Enter opens the worst chain if the chains are open, else the chain that was seen last."""
    newest, row = max(alike, key=lambda pair: pair[0].seen)
    if len(alike) == 1:
        return row
    if newest.open:
        row = alike[0][1]  # all are in this window: take the worst

    def common(values: set[str], otherwise: str = "") -> str:
        return values.pop() if len(values) == 1 else otherwise

    return replace(
        row,
        title=f"{len(alike)}x {row.title}",
        who=common({one.who for _, one in alike}, _several([chain for chain, _ in alike], window)),
        lost="",
        where=common({one.where for _, one in alike}),
        culprit=common({one.culprit for _, one in alike}),
        since=common({one.since for _, one in alike}),
        fix="",
    )


def _several(chains: Sequence[Chain], window: Window) -> str:
    """Return, as text, which tenants lose time because of ``chains`` or, of more than ``_MOST_NAMED``, how
    many. If there are fewer than two, return how many GPUs the chains name. If there are fewer than two GPUs,
    return ``several``."""
    tenants = {chain.tenant for chain in chains if chain.tenant}
    if 1 < len(tenants) <= _MOST_NAMED:
        return ", ".join(sorted(name_of(tenant, window) for tenant in tenants))
    if len(tenants) > 1:
        return f"{len(tenants)} tenants"
    devices = {number for chain in chains for number in device_numbers(chain)}
    return f"{len(devices)} GPUs" if len(devices) > 1 else "several"


def device_numbers(chain: Chain) -> list[str]:
    """Return the numbers of the GPUs that a chain names."""
    return sorted({link.device[4:] for link in chain.links if link.device.startswith("GPU ")})
