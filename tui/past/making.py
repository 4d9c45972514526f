"""Computes pictures of the past in the background, because that may take seconds."""

from __future__ import annotations

from collections.abc import Callable

from stalltop.tui.past.moments import Asked, Picture
from stalltop.tui.reading.latest import Latest


class PictureMaker:
    """Computes the pictures that are asked for, one at a time. Of the requests that wait, only the newest is
    kept."""

    def __init__(self, made: Callable[[int, Picture], object], failed: Callable[[Exception], object]) -> None:
        """Both functions are called in the computing thread: ``made`` with the turn of the request
        (``Asked.turn``) and the picture, ``failed`` with the error if a picture cannot be computed."""
        self._made = made
        self._latest = Latest("stalltop-past", failed)

    def make(self, asked: Asked) -> None:
        """Compute what the screen shows of the moment that ``asked`` describes, as soon as the current
        computation has ended."""

        def work(stale: Callable[[], bool]) -> None:
            for picture in asked.make(stale):
                self._made(asked.turn, picture)

        self._latest.ask(work)
