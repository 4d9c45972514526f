"""The keys for time: the length of the window, moments of the past, and the mark to compare with."""

from __future__ import annotations

from stalltop.model.text import figures
from stalltop.model.text.words import numbered
from stalltop.tui.keys.actions import key
from stalltop.tui.main.view import MainView
from stalltop.tui.past.times import length_text
from stalltop.widgets.timeline import span_text

MUCH = 1_000
"""If all windows of a recording must be added up and there are more than this, a message warns that it takes
a while."""
ONE_MOMENT = "a saved window is one moment: there is no other to go to, nor to compare with"


class TimeKeys:
    """Handles the keys for time on ``main``."""

    def __init__(self, main: MainView) -> None:
        self._main = main
        self._say = main.speech.say
        self._moments = main.moments

    def freeze(self) -> None:
        """Freeze the screen, or return to the newest moment if it is frozen."""
        if not self.has_past():
            return
        if self._main.file and not self._moments.frozen:
            self._say(self._moments.words.here, "label")
            return
        if self._moments.frozen:
            self._moments.release()
        else:
            self._moments.freeze()
        self._main.updates.show_moment()
        self._main.speech.say_above("frozen" if self._moments.frozen else self._moments.words.now)

    def window(self, step: int) -> None:
        """Choose the next longer (1) or shorter (-1) window."""
        if self._main.stalltop.options.still:
            self._say("a saved window has the one length that it was saved with", "label")
            return
        if self._moments.choose(step):
            self._length_chosen()
        else:
            self._say(
                f"window: {length_text(self._moments.length)}, the {'long' if step > 0 else 'short'}est",
                "label",
            )

    def choose_window(self, length: float | None) -> None:
        """Choose a window of ``length`` seconds; None: since the start."""
        if self._main.stalltop.options.still:
            self.window(0)  # shows a message: there is no other length
            return
        self._moments.length = length
        self._length_chosen()

    def _length_chosen(self) -> None:
        self._main.stalltop.collector.choose(self._moments.length)
        self._say(f"window: {length_text(self._moments.length)}{self._much()}", "label")
        self._main.updates.show_moment()

    def _much(self) -> str:
        """Return a warning if so many windows of a recording must be added up that it takes a while; else an
        empty string."""
        newest = self._moments.newest
        if self._moments.length is not None or not self._main.file or newest is None:
            return ""
        windows = len(newest.kept.stretch.end)
        return (
            f": {numbered(windows, 'window')} to add up, which takes a while; press {key('shorter')} for less"
            if windows > MUCH
            else ""
        )

    def step(self, steps: int) -> None:
        """Show the window before (-1) or after (1) the current one."""
        if self.has_past():
            self._went(self._moments.step(steps))

    def minutes(self, minutes: int) -> None:
        """Show the moment ``minutes`` later; earlier if negative."""
        if self.has_past():
            self._went(self._moments.move(60.0 * minutes))

    def go_to(self, at: float) -> None:
        """Show the moment ``at``, Unix time."""
        if self.has_past():
            self._went(self._moments.go_to(at))

    def fault(self, step: int) -> None:
        """Show the next (1) or previous (-1) moment at which a problem began."""
        if self.has_past():
            self._went(self._moments.to_fault(step))

    def when(self) -> None:
        """Ask the user for a moment, and show it."""
        if not self.has_past():
            return
        newest = self._moments.newest
        if newest is None:
            self._say("there is no past yet", "label")
            return

        def went(at: float | None) -> None:
            if at is not None:
                self._went(self._moments.go_to(at))

        start, end, at = float(newest.kept.stretch.start[0]), newest.kept.end, self._moments.at
        self._main.opens.moment(start, end, end if at is None else at, went)

    def span(self) -> None:
        """Shorten the time line around the moment that is shown; after the shortest, restore the usual
        length."""
        if not self.has_past():
            return
        before, span = self._moments.span, self._moments.zoom()
        usual = "as usual" if before else "too short to be shortened: too little of the past is kept"
        self._say(f"timeline: {span_text(span)[1:] if span else usual}", "label")
        self._main.updates.show_moment()

    def mark(self) -> None:
        """Mark the moment that is shown."""
        if not self.has_past():
            return
        self._moments.mark = picture = self._moments.picture
        if picture is None:
            self._say("there is nothing to mark yet", "dim")
            return
        self._say(
            f"marked {figures.clock(picture.at)}; {key('compare')} shows what changes from here on", "label"
        )
        self._main.updates.show_moment()

    def compare(self) -> None:
        """Show what changed since the mark, or the plain figures again."""
        if not self.has_past():
            return
        if self._moments.mark is None:
            mark, compare = key("mark"), key("compare")
            self._say(
                f"nothing is marked: {mark} marks the moment shown, {compare} then compares with it", "label"
            )
            return
        self._moments.comparing = not self._moments.comparing
        self._main.updates.show_moment()

    def stop_comparing(self) -> bool:
        """Show the plain figures again. Returns False if nothing was compared."""
        was = self._moments.comparing
        self._moments.comparing = False
        if was:
            self._main.updates.show_moment()
        return was

    def has_past(self) -> bool:
        """Return whether there is more than one moment. Shows a message if there is not."""
        if self._main.stalltop.options.still:
            self._say(ONE_MOMENT, "label")
        return not self._main.stalltop.options.still

    def _went(self, said: str) -> None:
        if said:
            self._say(said, "label")
        self._main.updates.show_moment()
