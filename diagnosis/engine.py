"""Follows causes over time: what rules find in the last seconds becomes chains that open, last and close."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from diagnosis.rules import RULES
from diagnosis.suspicion import Rule
from model.chain import Chain
from model.window import Window


class Diagnosis:
    """Used from one thread; windows of one host, one after the other."""

    def __init__(self, *, rules: Sequence[Rule] = RULES, own_pid: int = 0) -> None:
        self._rules = rules
        self._own_pid = own_pid

    def add(self, window: Window) -> Window:
        """``window``, the newest one, with the chains open at its end and those that closed before."""
        return replace(window, chains=())


def explain(window: Window, *, rules: Sequence[Rule] = RULES) -> tuple[Chain, ...]:
    """The chains of one window by itself, the worst first: what its own evidence says."""
    return ()
