"""The keys that play the past as it was recorded, and pause it."""

from __future__ import annotations

from typing import Final

from textual.timer import Timer

from stalltop.tui.keys.actions import key
from stalltop.tui.main.view import MainView
from stalltop.tui.main_keys.time_keys import TimeKeys
from stalltop.tui.past.when import when

SPEEDS: Final = (1.0, 10.0, 60.0, 600.0)
"""Recorded seconds that pass in one second, in the order in which the key selects them."""
FRAME_SECONDS: Final = 0.5
"""The least number of seconds between two changes of the screen while the past plays."""


class Playing:
    """Plays the past on ``main``."""

    def __init__(self, main: MainView, time: TimeKeys) -> None:
        self._main = main
        self._say = main.speech.say
        self._moments = main.moments
        self._time = time
        self._timer: Timer | None = None
        self._clock = 0.0
        """Unix time up to which the past was played. The screen changes only when a window ends."""
        self._shown_at: float | None = None
        """The moment that was shown last while playing, Unix time. If another moment is shown now, the user
        went there with a key."""

    def play(self) -> None:
        """Play the past from the moment that is shown. If the past is already playing, play faster; after the
        highest speed continue with the lowest."""
        if not self._time.has_past():
            return
        if self._timer is None:
            at = self._moments.at
            if at is None:
                self._say(f"{self._moments.words.here}: go back in time, then play", "label")
                return
            self._clock, self._shown_at = at, at
            self._timer = self._main.set_interval(FRAME_SECONDS, self._play_on)
            self._moments.playing = SPEEDS[0]
        else:
            at_speed = SPEEDS.index(self._moments.playing) if self._moments.playing in SPEEDS else 0
            self._moments.playing = SPEEDS[(at_speed + 1) % len(SPEEDS)]
        faster, pauses = key("play"), key("freeze")
        self._say(f"playing, {self._moments.playing:g}x; {faster} faster, {pauses} pauses", "label")
        self._main.updates.show_moment()

    def freeze(self) -> None:
        """Pause if the past plays. Otherwise freeze the screen, or return to the newest moment if it is
        frozen."""
        if not self._moments.playing:
            self._time.freeze()
            return
        self._pause()
        self._main.updates.show_moment()
        self._main.speech.say_above("paused")

    def _pause(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer, self._moments.playing = None, 0.0

    def _play_on(self) -> None:
        moments = self._moments
        if moments.at is None:  # a key returned to the newest moment
            self._pause()
            self._main.updates.show_moment()
            return
        if moments.wanted is not None or self._main.stalltop.line_is_behind:
            return  # the screen cannot be drawn that fast: wait
        if moments.at != self._shown_at:
            self._clock = moments.at  # a key went to another moment: continue from there
        clock = moments.play(self._clock + self._moments.playing * FRAME_SECONDS)
        self._shown_at = moments.at
        if clock is None:
            self._pause()
            self._say(moments.words.now, "label")
        elif clock > self._clock + self._moments.playing * FRAME_SECONDS:
            self._say(f"gap skipped: no window is kept until {when(clock, clock)}", "dim")
        self._clock = clock or 0.0
        self._main.updates.show_moment()
