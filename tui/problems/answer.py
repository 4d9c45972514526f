"""Decides which problem the first lines of the screen show, and for how long. Uses no widget."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

from stalltop.formats.text.answer import busy_percent, fades, healthy, sentence_now, slowest
from stalltop.formats.text.chains import name_of
from stalltop.model.chain import SEVERITIES, Chain
from stalltop.model.row_key import RowKey
from stalltop.model.telling import NO_TELLINGS, Tellings
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.window import Window
from stalltop.tui.keys.actions import key
from stalltop.tui.problems.chains import MARK, ROLE, Listed, warns
from stalltop.widgets.answer import AnswerState

STANDS_SECONDS = 5.0
"""Seconds for which a sentence stays before another problem of the same severity may replace it: as long as
it takes to read the sentence and to type its command."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The problem that is shown, and since when."""

    shown: str = ""
    """Id of the chain; empty if none is shown."""
    since: float = 0.0
    """Unix time in seconds at which it was first shown."""


def stand(before: Standing, faults: Sequence[Chain], now: float) -> Standing:
    """Return which of ``faults``, the open problems with the worst first, is shown at ``now``.

    The problem that is shown already stays for ``STANDS_SECONDS``, unless it ended or one of a worse severity
    came. If ``now`` is before that problem was first shown, as after a step into the past, the worst problem
    is shown.
    """
    if not faults:
        return Standing("", now) if before.shown else before
    best, shown = faults[0], next((one for one in faults if one.id == before.shown), None)
    if shown is not None:
        worse = SEVERITIES.index(best.severity) < SEVERITIES.index(shown.severity)
        if best is shown or (not worse and 0.0 <= now - before.since < STANDS_SECONDS):
            return before
    return Standing(best.id, now)


class Answering:
    """Makes the first lines of the screen from consecutive windows."""

    def __init__(self) -> None:
        self._standing = Standing()
        self._slowest: tuple[RowKey | None, float] = (None, 0.0)
        """The row that is named while there is no problem, and since when (Unix seconds)."""
        self.chain: Chain | None = None
        """The problem that is shown; None if none is."""
        self.warned: Hashable = None
        """The key of the warning that is shown in place of a problem; None if none is."""

    def update(
        self,
        window: Window | None,
        found: Listed,
        *,
        silenced: Collection[Hashable] = (),
        tellings: Tellings = NO_TELLINGS,
        still: bool = False,
        verdict_in: float = 0.0,
        starting: str = "",
        glyphs: Glyphs = UNICODE,
    ) -> AnswerState:
        """Return what to show of ``window``, whose list of problems is ``found``.

        ``silenced`` has ids of chains that are not shown. ``still``: the window is a moment of the past; its
        worst problem is always shown. ``verdict_in``: seconds until it may be said that there is none.
        ``starting`` is shown while there is no window.
        """
        self.chain = self.warned = None
        if window is None:
            return AnswerState(text=starting)
        faults = [one for one in found.open if one.severity != "info" and one.id not in silenced]
        faults.sort(key=lambda one: fades(one, window))
        before = Standing() if still else self._standing
        told = next((one for one in faults if one.id == before.shown), None)
        if told is not None and fades(told, window) and not fades(faults[0], window):
            before = Standing()  # what is present now is told at once
        self._standing = stand(before, faults, window.end)
        self.chain = next((one for one in faults if one.id == self._standing.shown), None)
        if self.chain is None:
            return self._healthy(window, found, silenced, glyphs, verdict_in=verdict_in)
        shown = self.chain
        return AnswerState(
            mark=MARK[shown.severity],
            severity=shown.severity,
            role=ROLE[shown.severity],
            sentence=sentence_now(shown, window, tellings, glyphs),
            more=tuple(_named(one, window) for one in faults if one is not shown),
            copy_key=key("copy"),
            list_key=key("warnings"),
        )

    def _healthy(
        self,
        window: Window,
        found: Listed,
        silenced: Collection[Hashable],
        glyphs: Glyphs,
        *,
        verdict_in: float,
    ) -> AnswerState:
        row, since = self._slowest
        if row is None or not 0.0 <= window.end - since < STANDS_SECONDS:
            known = slowest(window)
            row, since = known[0] if known is not None else None, window.end
        self._slowest = row, since
        text, last_part = healthy(window, glyphs, row, verdict_in=verdict_in)
        bad = bool(window.coverage.tracing)
        warned = [one for one in found.rows if one.role in ("warn", "bad") and warns(one.key)]
        ended = [one for one in found.chains if not one.open]
        told = [f"{found.silenced} silenced"] if found.silenced else []
        if warned and not bad and verdict_in <= 0:
            # What is wrong comes first, although its cause is not known.
            self.warned = warned[0].key
            counted = text.replace("No problems", "No other problem", 1)
            return AnswerState(
                mark=warned[0].mark,
                role=warned[0].role,
                text=warned[0].text,
                about=", ".join(part for part in (*told, counted, last_part) if part),
                list_key=key("warnings"),
            )
        if ended:
            last = max(ended, key=lambda one: one.seen)
            told.append(f"{_told(last, window)} ended {figures.clock(last.seen)}")
        elif verdict_in <= 0:
            facts = [one for one in found.open if one.severity == "info" and one.id not in silenced]
            told += [_fact(facts[0], facts, window)] if facts else []
        about = ", ".join(told)
        return AnswerState(
            role="bad" if bad else "text" if verdict_in > 0 or busy_percent(window) else "good",
            text=text,
            slowest=last_part,
            about=about,
            list_key=key("warnings") if about or bad else "",
        )


def _fact(chain: Chain, facts: Sequence[Chain], window: Window) -> str:
    """Return the title of ``chain`` after its subject. If others of ``facts`` have the same title, return it
    after the number of their tenants."""
    alike = {one.tenant for one in facts if one.title == chain.title}
    return f"{len(alike)} tenants: {chain.title}" if len(alike) > 1 else _told(chain, window)


def _told(chain: Chain, window: Window) -> str:
    """Return the title of ``chain`` after its subject (`_subject`), as one text."""
    subject = _subject(chain, window)
    if subject.startswith("GPU"):
        return subject + chain.title.removeprefix("GPU ")
    return subject + chain.title


def _subject(chain: Chain, window: Window) -> str:
    """Return the tenant that loses time because of ``chain``, else the first GPU that it names, as text
    before its title; empty if it names neither."""
    if chain.tenant:
        return f"{name_of(chain.tenant, window)}: "
    devices = sorted({link.device for link in chain.links if link.device.startswith("GPU")})
    return f"{devices[0]} " if devices else ""


def _named(chain: Chain, window: Window) -> str:
    """Return ``chain`` in a few words: who loses, the title and the letter of the severity."""
    return f"{_told(chain, window)} ({MARK[chain.severity]})"
