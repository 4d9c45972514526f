"""The small dialogue that saves what the screen shows: which format, and where to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from stalltop.formats.registry import SAVED, Format
from stalltop.model.text import figures
from stalltop.tui.saving.formats import SavePlace, Shown, place, problem, with_format
from stalltop.tui.screen_app import ScreenApp
from stalltop.widgets.choices import Choice, Choices, Note

FRAME_LINES = 14
"""Rows of the terminal from which the dialogue has a frame."""
SAVING_SECONDS = 60.0
"""How long it says that something is being saved, unless it is there before."""
LONGEST = 4096
"""Characters of a path (PATH_MAX)."""
HINT = "Enter saves  Up Down format  Tab path  Esc closes"
HINT_ELSEWHERE = HINT.replace("  Tab path", "")


class Looked(Message):
    """The file system has told where ``typed`` leads to."""

    def __init__(self, typed: str, found: SavePlace) -> None:
        super().__init__()
        self.typed, self.found = typed, found


class SaveScreen(ModalScreen[None]):
    """Saves ``shown``, which stays as it was while the dialogue is open."""

    ALLOW_SELECT = False
    AUTO_FOCUS = "#formats"
    BINDINGS = [
        Binding("enter", "save", "Save", show=False),
        Binding("escape,q,w", "close", "Close", show=False),
        Binding("up,k", "step(-1)", "Format before", show=False),
        Binding("down,j", "step(1)", "Format after", show=False),
        Binding("tab,shift+tab", "other", "Path", show=False),
        *(Binding(str(at + 1), f"choose({at})", one.label, show=False) for at, one in enumerate(SAVED)),
    ]

    def __init__(self, shown: Shown, tell: Callable[[str, str, float], None], *, still: bool) -> None:
        """``tell`` gets what is said on the main screen, its role and for how many seconds."""
        super().__init__()
        self._tell = tell
        self._shown = shown
        self._still = still
        # A window that came from a file is there already: somebody wants it in another format.
        self._at = 1 if still else 0
        self._ready = False
        """There are widgets: keys may come before them."""
        self._choices: list[Choice] = []
        self._asked: str | None = None
        """What the file system is being asked about."""

    @property
    def stalltop(self) -> ScreenApp:
        """The app, by its own type."""
        return cast("ScreenApp", self.app)

    @property
    def chosen(self) -> Format:
        """The format under the cursor."""
        return SAVED[self._at]

    def compose(self) -> ComposeResult:
        """Formats, path, and what is to be known of it."""
        unicode, window = self._shown.unicode, self._shown.window
        title = f"Save {window.seconds:.0f}s of {window.host}, up to {figures.clock(window.end)}"
        with Vertical(id="save", classes="" if unicode else "ascii"):
            yield Choices(title, "formats", unicode=unicode)
            with Horizontal(id="path-row") as row:
                row.display = not self.stalltop.saving.elsewhere
                yield Label("to ")
                path = Input(
                    str(self._shown.default(self.chosen)),
                    id="path",
                    compact=True,
                    select_on_focus=False,
                    max_length=LONGEST,
                )
                path.cursor_blink = False
                yield path
            yield Note("note", unicode=unicode)

    def on_resize(self, event: events.Resize) -> None:
        """On a low terminal lines matter more than a frame."""
        self.query_one("#save").set_class(event.size.height < FRAME_LINES, "low")

    def on_mount(self) -> None:
        """Show what was chosen so far."""
        self._ready = True
        self._choices = [Choice(one.label, one.saved, problem(one, still=self._still)) for one in SAVED]
        self._choose(self._at)

    # ---- where to

    @property
    def _typed(self) -> str:
        return self.query_one("#path", Input).value

    @on(Input.Changed, "#path")
    def _look(self) -> None:
        """Ask, in the background, where the path leads to: file systems of other hosts may not answer."""
        elsewhere = self.stalltop.saving.elsewhere
        if elsewhere:
            self.query_one(Note).show((elsewhere, "dim"), (HINT_ELSEWHERE, "label"))
            return
        if self._asked is not None:
            return  # its answer asks again
        typed = self._asked = self._typed
        default, post = self._shown.default(self.chosen), self.post_message

        def work() -> None:
            try:
                found = place(typed, default)
            except (OSError, ValueError) as error:
                found = SavePlace(default, str(error), good=False)
            post(Looked(typed, found))

        threading.Thread(target=work, name="stalltop-path", daemon=True).start()

    @on(Looked)
    def _looked(self, message: Looked) -> None:
        self._asked = None
        if message.typed != self._typed:
            self._look()
            return
        found = message.found
        self.query_one(Note).show((found.note, "dim" if found.good else "bad"), (HINT, "label"))

    # ---- keys

    def action_step(self, step: int) -> None:
        """The previous or next format."""
        self._choose(self._at + step)

    def action_choose(self, at: int) -> None:
        """That format."""
        self._choose(at)

    @on(Choices.Clicked)
    def _clicked(self, message: Choices.Clicked) -> None:
        self._choose(message.at)

    def _choose(self, at: int) -> None:
        self._at = min(max(at, 0), len(SAVED) - 1)
        if not self._ready:
            return
        self.query_one(Choices).show(self._choices, self._at)
        path = self.query_one("#path", Input)
        path.value = with_format(path.value, self.chosen)
        self._look()

    def action_other(self) -> None:
        """Keys go to the path, or back to the formats."""
        if not self._ready:
            return
        formats, path = self.query_one(Choices), self.query_one("#path", Input)
        if self.stalltop.saving.elsewhere:
            return
        if formats.has_focus:
            self.set_focus(path)
            path.cursor_position = len(path.value)
        else:
            self.set_focus(formats)

    def action_close(self) -> None:
        """Save nothing."""
        self.dismiss()

    @on(Input.Submitted)
    def action_save(self) -> None:
        """Save in the background and go back; where that format cannot be had, say why."""
        reason = problem(self.chosen, still=self._still)
        if reason:
            if self._ready:
                self.query_one(Note).show((reason, "bad"), (HINT, "label"))
            return
        typed = self._typed if self._ready else ""
        self.stalltop.saving.start(self._shown, self.chosen, typed)
        self._tell(f"saving as {self.chosen.label}", "label", SAVING_SECONDS)
        self.dismiss()
