"""Holds the moment that is shown, now or in the past, and the mark to compare with. Uses no widget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from stalltop.model.merge.packing import Packed
from stalltop.model.text import figures
from stalltop.model.window import Window
from stalltop.recordings.past.kept import NEAR, Stale
from stalltop.tui.past.recall import Wanted, hole_at, moved, named, next_fault, next_span, played, stepped
from stalltop.tui.reading.collector import Snapshot
from stalltop.tui.settings.settings import LENGTHS

NO_PAST = "there is no past yet"


@dataclass(frozen=True, slots=True)
class Words:
    """Messages that name the newest moment."""

    here: str
    """The message if a key has no effect because the newest moment is shown already."""
    now: str
    """The message after going to the newest moment."""


LIVE = Words("this is the newest moment", "live")
OF_FILE = Words("this is the end of the recording", "the end of the recording")


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """What the screen shows of one moment: a window, and the windows before it."""

    window: Window
    at: float
    """The moment: Unix time of the end of the newest data in the window."""
    length: float | None
    """The chosen length in seconds; None: since the start."""
    before: Sequence[Packed] | None = None
    """Earlier windows, oldest first, if they were fetched for this picture."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a picture, to be computed in the background. ``turn`` is the value of ``Moments._turn``
    at the request."""

    turn: int
    make: Callable[[Stale], Iterator[Picture]]
    """Computes the picture, which may take seconds, and yields it. If more of the earlier
    windows must be read, yields the picture first with those at hand, then again with all of them. Its
    argument is a function that returns True as soon as the picture is no longer wanted: the computation then
    ends early."""


class Moments:
    """Selects the moment that is shown. While the screen is frozen, that moment stays, but new data is still
    read."""

    def __init__(self, length: float | None, words: Words = LIVE) -> None:
        self.words = words
        self.length = length
        """The chosen length of the window in seconds; None: since the start."""
        self.newest: Snapshot | None = None
        """The newest data."""
        self.mark: Picture | None = None
        """The picture at the mark, to compare with; None if no mark is set."""
        self.comparing = False
        """Whether the difference from the mark is shown."""
        self.playing = 0.0
        """Seconds of the past that pass in one second; 0: the past is not playing."""
        self.span: float | None = None
        """Length of the time line in seconds; None: the usual one."""
        self._held: Picture | None = None
        self._at = 0.0
        """The moment that is wanted while frozen. Its picture may arrive later."""
        self._turn = 0
        """Changes with each freeze and release, so that pictures that were asked for before the change are
        discarded."""

    # ---- what is shown

    @property
    def frozen(self) -> bool:
        """Return whether the screen is frozen."""
        return self._held is not None

    @property
    def picture(self) -> Picture | None:
        """Return the picture on the screen; None if there is no data yet."""
        if self._held is not None:
            return self._held
        now = self.newest
        return None if now is None else Picture(now.window, now.kept.end, now.length)

    @property
    def past(self) -> Sequence[Packed]:
        """Return the windows in memory, oldest first. They reach at least to the window on the screen, and
        may include later windows."""
        if self.newest is None:
            return ()
        before = None if self._held is None else self._held.before
        return self.newest.kept.parts if before is None else before

    @property
    def window(self) -> Window | None:
        """Return the window on the screen."""
        picture = self.picture
        return None if picture is None else picture.window

    @property
    def present(self) -> Window | None:
        """Return the newest part of the window on the screen; None if that is not known."""
        if self._held is None:
            return None if self.newest is None else self.newest.newest
        at = next((part for part in reversed(self.past) if part.window.end <= self._held.at + 1e-3), None)
        return None if at is None else at.unpack()

    @property
    def against(self) -> Picture | None:
        """Return the picture to compare with; None if nothing is compared."""
        return self.mark if self.comparing else None

    @property
    def at(self) -> float | None:
        """Return the chosen moment, Unix time; None: now. Its picture may arrive later."""
        return self._at if self._held is not None else None

    @property
    def age(self) -> float:
        """Return the seconds from the chosen moment to the newest data."""
        return 0.0 if self._held is None or self.newest is None else max(self._now - self._at, 0.0)

    @property
    def wanted(self) -> Wanted | None:
        """Return which window must be computed; None if the screen shows it already."""
        picture = self.picture
        if picture is None or (picture.length == self.length and self.at in (None, picture.at)):
            return None
        return Wanted(self.at, self.length)

    @property
    def _now(self) -> float:
        assert self.newest is not None
        return self.newest.kept.end

    # ---- what changes it

    def freeze(self) -> None:
        """Freeze the current picture."""
        self._turn += 1
        self._held = self.picture
        if self._held is not None:
            self._at = self._held.at

    def release(self) -> None:
        """Show the newest data again."""
        self._turn += 1
        self._held = None

    def step(self, steps: int) -> str:
        """Go back (-1) or forward (1) by one window. Returns a message for the user."""
        if self.newest is None:
            return NO_PAST
        return self._go(stepped(self.newest.kept.stretch, self._here, steps), steps)

    def move(self, seconds: float) -> str:
        """Go forward by about this many seconds; back if negative. Returns a message for the user."""
        if self.newest is None:
            return NO_PAST
        past = self.newest.kept.stretch
        at = moved(past, self._here, seconds)
        if at is None and seconds < 0:
            at = float(past.end[0])  # nothing older is kept: stay at the oldest window, or go to it
        return self._go(at, seconds)

    def go_to(self, at: float) -> str:
        """Go to the moment ``at``, Unix time, or to the nearest moment that is kept. If ``at`` is
        a whole second, this is the moment whose time the screen shows as that second (``recall.named``).
        Returns a message for the user."""
        if self.newest is None:
            return NO_PAST
        past = self.newest.kept.stretch
        hole = hole_at(past, at)
        self._go(named(past, at), 0)
        return f"nothing is kept from {figures.clock(hole[0])} to {figures.clock(hole[1])}" if hole else ""

    def to_fault(self, step: int) -> str:
        """Go to the next (1) or previous (-1) moment at which a problem began. Returns a message for the
        user."""
        if self.newest is None:
            return NO_PAST
        found = next_fault(self.newest.kept.stretch, self._here, step)
        if found is None:
            return f"no problem begins {'after' if step > 0 else 'before'} this moment"
        return self._go(found[0], -1) or f"a problem begins here: {found[1]}"

    def play(self, clock: float) -> float | None:
        """Show the window that was the newest one at ``clock``, Unix time.

        Returns ``clock``, or the end of the next window if ``clock`` is in a gap without windows. Returns
        None at the end of the past, where the newest data is shown again.
        """
        if self.newest is None:
            return None
        found = played(self.newest.kept.stretch, self._here, clock)
        if found is None:
            self.release()
            return None
        if not self.frozen:
            self.freeze()
        self._at = found[0]
        return found[1]

    def zoom(self) -> float | None:
        """Choose the next length of the time line. Returns it in seconds; None: the usual one."""
        if self.newest is not None:
            self.span = next_span(self.newest.kept.stretch, self.span)
        return self.span

    @property
    def _here(self) -> float:
        return self._at if self.frozen else self._now

    def _go(self, at: float | None, direction: float) -> str:
        if at is None and direction > 0:
            if not self.frozen:
                return self.words.here
            self.release()
            return self.words.now
        if at is None or (self.frozen and abs(at - self._at) < NEAR and direction < 0):
            return "nothing older is kept"
        if not self.frozen:
            self.freeze()
        self._at = at
        return ""

    def choose(self, step: int) -> bool:
        """Choose the next longer (1) or shorter (-1) window. Returns False if there is none."""
        at = LENGTHS.index(self.length) if self.length in LENGTHS else 1
        length = LENGTHS[min(max(at + step, 0), len(LENGTHS) - 1)]
        if length == self.length:
            return False
        self.length = length
        return True

    # ---- windows that were requested

    def ask(self) -> Asked | None:
        """Return the request for the picture that is wanted; None if the screen shows that picture
        already."""
        wanted, now = self.wanted, self.newest
        if wanted is None or now is None:
            return None
        length, at, kept = wanted.length, wanted.at, now.kept

        def make(stale: Stale) -> Iterator[Picture]:
            if at is None or abs(at - kept.end) < NEAR:
                window, end = now.of_length(length, stale), kept.end
            else:
                window, end = kept.window_at(at, length, stale), at
            if window is None:
                return
            at_hand = None if at is None else kept.at_hand(at)
            picture = Picture(window, end, length, at_hand)
            yield picture
            before = None if at is None else kept.before(at, stale)
            if before is not None and at_hand is not None and len(before) > len(at_hand):
                # A copy of the window, because pages are drawn again only for another window object.
                yield replace(picture, window=replace(window), before=before)

        return Asked(self._turn, make)

    def made(self, turn: int, picture: Picture) -> bool:
        """Show ``picture`` unless it is out of date. ``turn`` is the turn of its request. Returns whether the
        picture is shown."""
        if turn != self._turn or picture.length != self.length:
            return False
        if self._held is not None:
            # The picture is shown even if another moment is wanted by now: while a key is held down, an
            # intermediate picture is better than none.
            self._held = picture
            return True
        if self.newest is None or abs(picture.at - self._now) >= NEAR:
            return False
        self.newest = replace(self.newest, window=picture.window, length=picture.length)
        return True
