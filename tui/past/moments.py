"""Which moment is looked at, now or one that is over, and the mark to compare with. Knows no widget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from stalltop.model.merge.packing import Packed
from stalltop.model.text import figures
from stalltop.model.window import Window
from stalltop.recordings.past.kept import NEAR, Stale
from stalltop.tui.collector import Snapshot
from stalltop.tui.past.recall import Wanted, hole_at, moved, named, next_fault, next_span, played, stepped
from stalltop.tui.settings.settings import LENGTHS

NO_PAST = "there is no past yet"


@dataclass(frozen=True, slots=True)
class Words:
    """What the newest moment is called."""

    here: str
    """Said of who is there already."""
    now: str
    """Said of who came there."""


LIVE = Words("this is now", "live")
OF_FILE = Words("this is the end of the recording", "the end of the recording")


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A window of one moment."""

    window: Window
    at: float
    """The moment: Unix time at which the newest of what it was made of ended."""
    length: float | None
    """The length that was chosen, seconds; None: since the start."""
    before: Sequence[Packed] | None = None
    """The windows that lead to it, oldest first, where they were fetched for it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A picture that is to be made beside the screen."""

    turn: int
    make: Callable[[Stale], Iterator[Picture]]
    """Makes it, which may take seconds, then once more with what led to it, where that takes time of its own.
    Ends early where what it is given says that it may stop."""


class Moments:
    """What is shown of what is known. Frozen, it stays; what is read goes on beside it."""

    def __init__(self, length: float | None, words: Words = LIVE) -> None:
        self.words = words
        self.length = length
        """The length of the window that is wanted, seconds; None: since the start."""
        self.newest: Snapshot | None = None
        """What was read last."""
        self.mark: Picture | None = None
        """What other moments are compared with."""
        self.comparing = False
        """The difference to the mark is shown."""
        self.playing = 0.0
        """Seconds of the past that pass in one; 0: it stands still."""
        self.span: float | None = None
        """Seconds of the line of time; None: the usual ones."""
        self._held: Picture | None = None
        self._at = 0.0
        """The moment that is wanted, while frozen; the held picture follows."""
        self._turn = 0
        """Changes with every freeze and release: what was asked for before is of no use after."""

    # ---- what is shown

    @property
    def frozen(self) -> bool:
        """Whether the picture is held."""
        return self._held is not None

    @property
    def picture(self) -> Picture | None:
        """What is on the screen; None before there is any data."""
        if self._held is not None:
            return self._held
        now = self.newest
        return None if now is None else Picture(now.window, now.kept.end, now.length)

    @property
    def past(self) -> Sequence[Packed]:
        """The windows that lead to the picture, oldest first, as far as they are at hand; there may be later
        ones among them."""
        if self.newest is None:
            return ()
        before = None if self._held is None else self._held.before
        return self.newest.kept.parts if before is None else before

    @property
    def window(self) -> Window | None:
        """The window on the screen."""
        picture = self.picture
        return None if picture is None else picture.window

    @property
    def against(self) -> Picture | None:
        """What the picture on the screen is compared with."""
        return self.mark if self.comparing else None

    @property
    def at(self) -> float | None:
        """The moment that was asked for, Unix time; None: now. The picture of it may be on its way."""
        return self._at if self._held is not None else None

    @property
    def age(self) -> float:
        """Seconds from the moment that was asked for to what was read last."""
        return 0.0 if self._held is None or self.newest is None else max(self._now - self._at, 0.0)

    @property
    def wanted(self) -> Wanted | None:
        """The window that is to be made because it is not the one that is shown; None where it is."""
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
        """Hold the picture of now."""
        self._turn += 1
        self._held = self.picture
        if self._held is not None:
            self._at = self._held.at

    def release(self) -> None:
        """Follow what is read again."""
        self._turn += 1
        self._held = None

    def step(self, steps: int) -> str:
        """Go back (-1) or forward (1) by one window of the past; gives what is to be said about it."""
        if self.newest is None:
            return NO_PAST
        return self._go(stepped(self.newest.kept.stretch, self._here, steps), steps)

    def move(self, seconds: float) -> str:
        """Go back (below 0) or forward by about so many seconds; gives what is to be said about it."""
        if self.newest is None:
            return NO_PAST
        past = self.newest.kept.stretch
        at = moved(past, self._here, seconds)
        if at is None and seconds < 0:
            at = float(past.end[0])  # there is less of the past than that
        return self._go(at, seconds)

    def go_to(self, at: float) -> str:
        """Look at the moment ``at``, Unix time, or the nearest to it that is kept; see ``recall.named``."""
        if self.newest is None:
            return NO_PAST
        past = self.newest.kept.stretch
        hole = hole_at(past, at)
        self._go(named(past, at), 0)
        return f"nothing is kept from {figures.clock(hole[0])} to {figures.clock(hole[1])}" if hole else ""

    def to_fault(self, step: int) -> str:
        """Look at the next (1) or previous (-1) moment at which a chain began; gives what is to be said."""
        if self.newest is None:
            return NO_PAST
        found = next_fault(self.newest.kept.stretch, self._here, step)
        if found is None:
            return f"no chain begins {'after' if step > 0 else 'before'} this moment"
        return self._go(found[0], -1) or f"here a chain begins: {found[1]}"

    def play(self, clock: float) -> float | None:
        """Look at what was newest at ``clock``, Unix time; gives the clock then, which is ahead where nothing
        was kept for a while. None at the end of what is kept: then the newest is followed."""
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
        """The next length of the line of time, seconds; None: back to the usual one."""
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
        """Take a longer (1) or shorter (-1) window; False where there is none."""
        at = LENGTHS.index(self.length) if self.length in LENGTHS else 1
        length = LENGTHS[min(max(at + step, 0), len(LENGTHS) - 1)]
        if length == self.length:
            return False
        self.length = length
        return True

    # ---- windows that were asked for

    def ask(self) -> Asked | None:
        """What makes the picture that is wanted; None where it is there already."""
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
                # As another window: pages draw again only for another one.
                yield replace(picture, window=replace(window), before=before)

        return Asked(self._turn, make)

    def made(self, turn: int, picture: Picture) -> bool:
        """``picture``, asked for at ``turn``, is there: show it if it is of use; gives whether it is."""
        if turn != self._turn or picture.length != self.length:
            return False
        if self._held is not None:
            # Of another moment too: while a key is held down, what was passed is better than nothing.
            self._held = picture
            return True
        if self.newest is None or abs(picture.at - self._now) >= NEAR:
            return False
        self.newest = replace(self.newest, window=picture.window, length=picture.length)
        return True
