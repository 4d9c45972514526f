"""What the most important keys do: three steps at the first start, and a line for a recording."""

from __future__ import annotations

from stalltop.model.window_times import WindowTimes
from stalltop.tui.keys.actions import key
from stalltop.tui.main.speech import Speech
from stalltop.tui.past.times import ago_text
from stalltop.widgets.timeline import span_text

NEWCOMER_SECONDS = 30.0
"""Seconds for which the line is shown at the first start."""
_TO_THE_SECOND = 600.0
"""If a recording is shorter than this many seconds, the line shows its length to the second."""
FILE_SECONDS = 12.0
"""Seconds for which the line is shown when a recording is opened."""


def for_newcomers(width: int) -> str:
    """Return the three lines for the first start, for ``width`` cells."""
    inside, out, wrong, all_keys = (key(name) for name in ("in", "out", "warnings", "help"))
    copy, save, find = key("copy"), key("save"), key("palette")
    steps = (
        (
            f"press {wrong} to list problems",
            f"press {wrong}: problems",
            f"{inside} shows cause and fix, {copy} copies the fix",
        ),
        (
            f"{inside} looks into a row",
            f"{inside} into a row",
            f"{out} goes back, {save} saves what is shown",
        ),
        (
            f"{all_keys} explains all signs and keys",
            f"{all_keys} all keys",
            f"{find} finds an action by any word",
        ),
    )
    long = [f"First start, step {at}: {first}; {then}" for at, (first, _, then) in enumerate(steps, 1)]
    short = [f"{at}. {first}; {then}" for at, (_, first, then) in enumerate(steps, 1)]
    return "\n".join(long if width > max(map(len, long)) + 2 else short)


def of_file(past: WindowTimes, width: int) -> str:
    """Return the line for a recording with the windows ``past``, for ``width`` cells."""
    seconds = float(past.end[-1] - past.start[0])
    length = (ago_text if seconds < _TO_THE_SECOND else span_text)(seconds)[1:]
    steps, faults = (
        f"{key(one)} {key(other)}" for one, other in (("back", "onward"), ("fault_back", "fault_on"))
    )
    when, play, all_keys = key("when"), key("play"), key("help")
    long = (
        f"a recording of {length}: {steps} step, {faults} go to problems, {when} to a moment, {play} plays, "
        f"{all_keys} all keys"
    )
    short = (
        f"recorded {length}: {steps} step  {faults} problems  {when} go to  {play} play  {all_keys} all keys"
    )
    return long if width > len(long) + 2 else short


class Tour:
    """Shows the most important keys once, until another message replaces them, their time is over, or a
    key is pressed."""

    def __init__(self, speech: Speech, *, file: bool) -> None:
        self._speech = speech
        self._file = file
        self.shown = False
        """Whether the line was shown, or must not be shown any more."""
        self._message: int | None = None
        """The number of the message with the line."""

    def wanted(self, *, newcomer: bool) -> bool:
        """Return whether the line is to be shown. Without a recording it is only for a ``newcomer``."""
        return not self.shown and (self._file or newcomer)

    def begin(self, past: WindowTimes, width: int) -> None:
        """Show the line, once, on a terminal of ``width`` cells. A recording, with the windows ``past``, has
        a line of its own."""
        self.shown = True
        if self._file:
            self._speech.say(of_file(past, width), "accent", FILE_SECONDS)
        else:
            self._speech.say(for_newcomers(width), "accent", NEWCOMER_SECONDS)
        self._message = self._speech.count

    def end(self) -> None:
        """Remove the line, unless another message has replaced it: a user who presses keys no longer needs
        the line."""
        self.shown |= self._file  # a key pressed before the line appeared: do not show it
        if self._message == self._speech.count:
            self._speech.say("")
        self._message = None
