"""Draws new data when it arrives, and another moment when its figures are computed."""

from __future__ import annotations

from stalltop.model.errors import described
from stalltop.tui.main.drawing import Drawing
from stalltop.tui.main.speech import Speech
from stalltop.tui.main.tour import Tour
from stalltop.tui.past.making import PictureMaker
from stalltop.tui.past.moments import Moments, Picture
from stalltop.tui.reading.collector import Snapshot
from stalltop.tui.screens.bases import AppScreen
from stalltop.tui.terminal.slow_line import offer

OFFER_SECONDS = 8.0
"""Seconds for which the offer to draw less is shown. The time is long, because a slow connection shows the
offer late."""
NEWS_SECONDS = 6.0
"""Seconds for which a message about the running recording is shown."""


class Updates:
    """Decides when ``screen`` is drawn again: not while it is frozen, and seldom on a slow connection."""

    def __init__(
        self, screen: AppScreen, moments: Moments, drawing: Drawing, speech: Speech, *, file: bool
    ) -> None:
        """``file``: a recording is shown."""
        self._screen = screen
        self._moments = moments
        self._drawing = drawing
        self._speech = speech
        self.tour = Tour(speech, file=file)
        # Pictures of a moment are computed in another thread. ``call_later`` passes them to the screen's
        # thread.
        self._pictures = PictureMaker(
            lambda turn, picture: screen.call_later(self._made, turn, picture),
            lambda error: screen.call_later(self._not_made, error),
        )
        self._late = False
        """Whether the newest data was not drawn, because the connection was too slow."""

    # ---- new data

    def take(self, snapshot: Snapshot) -> None:
        """Show new data, unless the screen is frozen."""
        first = self._moments.newest is None
        self._moments.newest = snapshot
        if first:
            self._begin()
        behind, slow = self._screen.stalltop.line_is_behind, self._screen.stalltop.slow_line
        if behind and slow.left_out():
            self._speech.say(offer(), "warn", OFFER_SECONDS)
        self._late = behind or not slow.due
        if self._late:
            return
        if self._moments.frozen:
            self._drawing.time()
        else:
            self._drawing.everything()
        self.begin_tour()

    def _begin(self) -> None:
        """Handle the first data. If the options name a moment, go to that moment."""
        at = self._screen.stalltop.options.at
        if at is not None:
            self._moments.go_to(at)
        if self._moments.wanted is not None:
            self.show_moment()

    def begin_tour(self) -> None:
        """Show the line with the most important keys, if there is data and the line is wanted (``Tour``)."""
        options, newest = self._screen.stalltop.options, self._moments.newest
        if newest is not None and self._drawing.whole:
            newcomer = options.tour and options.keep is not None
            if self.tour.wanted(newcomer=newcomer):  # the times of all windows take long to collect
                self.tour.begin(newest.kept.stretch, self._screen.app.size.width)

    def every_second(self) -> None:
        """Draw the first line, which shows how old the data is. If the newest data was not drawn in time,
        draw everything."""
        if not self._drawing.whole:
            return
        app = self._screen.stalltop
        recorded = app.options.recorded
        news = recorded.news() if recorded is not None else []
        if news:
            self._speech.say("; ".join(news), "label", NEWS_SECONDS)
        if app.line_is_behind:
            return
        if self._late and app.slow_line.due:
            self._late = False
            self._drawing.everything()
        else:
            self._drawing.header()

    # ---- another moment

    def show_moment(self) -> None:
        """Show the chosen moment. If its figures must still be computed, they are drawn later."""
        asked = self._moments.ask()
        if asked is not None:
            self._pictures.make(asked)
        self._drawing.everything()

    def _made(self, turn: int, picture: Picture) -> None:
        """Show the figures of the chosen moment, now that they are computed; not if another moment was
        chosen meanwhile."""
        if self._moments.made(turn, picture):
            self._drawing.everything()

    def _not_made(self, error: Exception) -> None:
        self._speech.say(f"cannot show that moment: {described(error)}", "bad")
