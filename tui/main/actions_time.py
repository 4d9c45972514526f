"""Keys of time: the length of the window, moments that are over, and the mark to compare with."""

from __future__ import annotations

from textual import on

from stalltop.model.text import figures
from stalltop.tui.keys import key
from stalltop.tui.main.main_view import MainView
from stalltop.tui.main.status import length_text
from stalltop.widgets.timeline import Timeline

MUCH = 1_000
"""Windows of a recording that take more than a moment to add up."""
ONE_MOMENT = "a saved window is one moment: there is no other to go to, nor to compare with"


class TimeActions(MainView):
    """The keys of time."""

    def action_freeze(self) -> str:
        """Hold the picture, or let it go; gives what is to be said about it."""
        if not self._has_past():
            return ONE_MOMENT
        if self.file and not self.moments.frozen:
            self.say(self.moments.words.here, "label")
            return self.moments.words.here
        if self.moments.frozen:
            self.moments.release()
        else:
            self.moments.freeze()
        self.show_moment()
        return "frozen" if self.moments.frozen else self.moments.words.now

    def action_window(self, step: int) -> None:
        """A longer (1) or shorter (-1) window."""
        if self.stalltop.options.still:
            self.say("a saved window has the one length that it was saved with", "label")
            return
        if self.moments.choose(step):
            self._length_chosen()
        else:
            self.say(
                f"window: {length_text(self.moments.length)}, the {'long' if step > 0 else 'short'}est",
                "label",
            )

    def action_choose_window(self, length: float | None) -> None:
        """A window of this length, seconds; None: since the start."""
        if self.stalltop.options.still:
            self.action_window(0)  # says why there is no other
            return
        self.moments.length = length
        self._length_chosen()

    def _length_chosen(self) -> None:
        self.stalltop.choose_length(self.moments.length)
        self.say(f"window: {length_text(self.moments.length)}{self._much()}", "label")
        self.show_moment()

    def _much(self) -> str:
        """What is said where all of a long recording is to be added up."""
        newest = self.moments.newest
        if self.moments.length is not None or not self.file or newest is None:
            return ""
        windows = len(newest.kept.stretch.end)
        return (
            f": {windows:,} windows to add up, which takes a while; {key('shorter')} for less"
            if windows > MUCH
            else ""
        )

    def action_step(self, steps: int) -> None:
        """Look at the window before (-1) or after (1) the one that is shown."""
        if self._has_past():
            self._went(self.moments.step(steps))

    def action_minutes(self, minutes: int) -> None:
        """Look at what was so many minutes after, or if negative before."""
        if self._has_past():
            self._went(self.moments.move(60.0 * minutes))

    @on(Timeline.Chosen)
    def _time_chosen(self, message: Timeline.Chosen) -> None:
        if self._has_past():
            self._went(self.moments.go_to(message.at))

    def action_mark(self) -> None:
        """Mark the moment that is shown."""
        if not self._has_past():
            return
        self.moments.mark = picture = self.moments.picture
        if picture is None:
            self.say("there is nothing to mark yet", "dim")
            return
        self.say(
            f"marked {figures.clock(picture.at)}; {key('compare')} shows what changes from here on", "label"
        )
        self.show_moment()

    def action_compare(self) -> None:
        """Show what changed since the mark, or everything again."""
        if not self._has_past():
            return
        if self.moments.mark is None:
            mark, compare = key("mark"), key("compare")
            self.say(
                f"nothing is marked: {mark} marks the moment shown, {compare} then compares with it", "label"
            )
            return
        self.moments.comparing = not self.moments.comparing
        self.show_moment()

    def stop_comparing(self) -> bool:
        """Show everything again; False where nothing was compared."""
        was = self.moments.comparing
        self.moments.comparing = False
        if was:
            self.show_moment()
        return was

    def _has_past(self) -> bool:
        if self.stalltop.options.still:
            self.say(ONE_MOMENT, "label")
        return not self.stalltop.options.still

    def _went(self, said: str) -> None:
        if said:
            self.say(said, "label")
        self.show_moment()
