"""Keeps limits and rates in the commands of fixes the same while a problem stands, so that a command does not
change while somebody types it."""

from __future__ import annotations

from collections.abc import Sequence

from stalltop.diagnosis.held import CLEARLY
from stalltop.model.actions.catalogue import figures_of
from stalltop.model.chain import Fix


def steady(now: Sequence[Fix], before: Sequence[Fix], *, same: bool) -> tuple[Fix, ...]:
    """Returns the fixes ``now``. Each whose command differs from one of the fixes ``before`` only a little,
    and only in its figures, is replaced by that earlier fix. If the problem still has the ``same`` culprit, a
    limit that was the first fix stays first, so that it takes turns neither with a move to a CPU that is idle
    now and then, nor with nothing, if the culprit's use is about the least that is limited."""
    known = {figures_of(fix.command)[0]: fix for fix in before if fix.command}

    def kept(fix: Fix) -> Fix:
        shape, figures = figures_of(fix.command)
        then = known.get(shape)
        if then is None or not figures:
            return fix
        pairs = zip(figures, figures_of(then.command)[1], strict=True)
        if then.command == fix.command:
            return fix
        close = all(old / CLEARLY < new < old * CLEARLY for new, old in pairs)
        return then if close else fix

    fixes = [kept(fix) for fix in now]
    if same and before and figures_of(before[0].command)[1]:
        limit = before[0]
        if not any(figures_of(fix.command)[0] == figures_of(limit.command)[0] for fix in fixes):
            fixes.append(limit)
        fixes.sort(key=lambda fix: figures_of(fix.command)[0] != figures_of(limit.command)[0])
    return tuple(fixes)
