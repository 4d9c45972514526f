"""Keeps limits and rates in the commands of fixes the same while a problem stands, so that a command does not
change while somebody types it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stalltop.model.actions.catalogue import figures_of
from stalltop.model.chain import Fix

CLEARLY: Final = 1.5
"""A command gets new figures if one of them is larger or smaller by at least this factor: "half of what it
uses" stays about true. In the first seconds of a problem, less than a tenant's use may be known."""


def steady(now: Sequence[Fix], before: Sequence[Fix], *, same: bool) -> tuple[Fix, ...]:
    """Returns the fixes ``now``. Each whose command differs from one of the fixes ``before`` only a little,
    and only in its figures, is replaced by that earlier fix. If the problem still has the ``same`` culprit, a
    limit that was the first fix stays first, so that it does not take turns with a move to a CPU that is idle
    now and then."""
    known = {figures_of(fix.command)[0]: fix for fix in before if fix.command}

    def kept(fix: Fix) -> Fix:
        shape, figures = figures_of(fix.command)
        then = known.get(shape)
        if then is None or not figures:
            return fix
        pairs = zip(figures, figures_of(then.command)[1], strict=True)
        close = all(old / CLEARLY < new < old * CLEARLY for new, old in pairs)
        return then if close else fix

    fixes = [kept(fix) for fix in now]
    if same and before and figures_of(before[0].command)[1]:
        fixes.sort(key=lambda fix: fix != before[0])
    return tuple(fixes)
