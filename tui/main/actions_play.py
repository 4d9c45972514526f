"""Keys that go through the past: play it, jump between faults, go to a moment that is typed."""

from __future__ import annotations

from typing import Final

from textual.timer import Timer

from stalltop.tui.keys import key
from stalltop.tui.main.actions_time import TimeActions
from stalltop.tui.past.when import when
from stalltop.tui.past.when_screen import WhenScreen
from stalltop.widgets.timeline import span_text

SPEEDS: Final = (1.0, 10.0, 60.0, 600.0)
"""Recorded seconds that pass in one, in the order in which the key goes through them."""
FRAME_SECONDS: Final = 0.5
"""How often there is another picture, at most, while the past plays."""


class PlayActions(TimeActions):
    """Playing, jumps between faults and to a moment, and how much of the past the line of time shows."""

    _timer: Timer | None = None
    _clock = 0.0
    """The moment that is played, Unix time: pictures change where a window ends."""
    _shown_at: float | None = None
    """The moment that playing has shown last."""

    # ---- play

    def action_play(self) -> None:
        """Let the past pass from the moment shown on; again: faster; after the fastest, as fast as it was."""
        if not self._has_past():
            return
        if self._timer is None:
            at = self.moments.at
            if at is None:
                self.say(f"{self.moments.words.here}: go back in time, then play", "label")
                return
            self._clock, self._shown_at = at, at
            self._timer = self.set_interval(FRAME_SECONDS, self._play_on)
            self.playing = SPEEDS[0]
        else:
            at_speed = SPEEDS.index(self.playing) if self.playing in SPEEDS else 0
            self.playing = SPEEDS[(at_speed + 1) % len(SPEEDS)]
        faster, pauses = key("play"), key("freeze")
        self.say(f"playing, {self.playing:g}x; {faster} faster, {pauses} pauses", "label")
        self.show_moment()

    def action_freeze(self) -> str:
        """Hold the picture, or let it go; while the past plays: pause."""
        if not self.playing:
            return super().action_freeze()
        self._pause()
        self.show_moment()
        return "paused"

    def _pause(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer, self.playing = None, 0.0

    def _play_on(self) -> None:
        moments = self.moments
        if moments.at is None:  # a key went back to now
            self._pause()
            self.show_moment()
            return
        if moments.wanted is not None or self.stalltop.line_is_behind:
            return  # no faster than it can be shown
        if moments.at != self._shown_at:
            self._clock = moments.at  # a key went elsewhere: on from there
        clock = moments.play(self._clock + self.playing * FRAME_SECONDS)
        self._shown_at = moments.at
        if clock is None:
            self._pause()
            self.say(moments.words.now, "label")
        elif clock > self._clock + self.playing * FRAME_SECONDS:
            self.say(f"nothing is kept before {when(clock, clock)}", "dim")
        self._clock = clock or 0.0
        self.show_moment()

    # ---- jumps

    def action_fault(self, step: int) -> None:
        """Look at the next (1) or previous (-1) moment at which a chain began."""
        if self._has_past():
            self._went(self.moments.to_fault(step))

    def action_when(self) -> None:
        """Ask for a moment, and look at it."""
        if not self._has_past():
            return
        newest = self.moments.newest
        if newest is None:
            self.say("there is no past yet", "label")
            return

        def went(at: float | None) -> None:
            if at is not None:
                self._went(self.moments.go_to(at))

        start, end, at = float(newest.kept.stretch.start[0]), newest.kept.end, self.moments.at
        self.app.push_screen(WhenScreen(start, end, end if at is None else at), went)

    def action_span(self) -> None:
        """A shorter line of time around the moment shown; after the shortest, the usual one."""
        if not self._has_past():
            return
        before, span = self.moments.span, self.moments.zoom()
        usual = "as usual" if before else "too little is kept for a shorter one"
        self.say(f"line of time: {span_text(span)[1:] if span else usual}", "label")
        self.show_moment()
