"""The dialogue that saves what the screen shows. The user chooses a format and a path."""

from __future__ import annotations

import threading
from collections.abc import Callable

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from stalltop.formats.registry import SAVED, Format
from stalltop.model.text import figures
from stalltop.model.text.glyphs import ASCII
from stalltop.tui.saving.formats import SavePlace, ShownScreen, place, problem, with_format
from stalltop.tui.saving.saving import Saving
from stalltop.tui.screens.bases import TopScreen
from stalltop.widgets.choices import Choice, Choices, Note

LIST_LINES = 1 + len(SAVED)
"""Number of lines that the title and the formats take."""
FRAME_LINES = LIST_LINES + 7
"""Least number of terminal lines at which the dialogue has a border."""
NOTE_LINES = LIST_LINES + 3
"""Least number of terminal lines at which there is room for the note about the path and for the hint."""
SAVING_SECONDS = 60.0
"""Seconds that the message about a running save stays, unless the save ends before."""
LONGEST = 4096
"""The most characters of a path (PATH_MAX)."""
HINT = "Enter saves  Up Down format  Tab path  Esc closes"
HINT_ELSEWHERE = HINT.replace("  Tab path", "")


class PlaceFound(Message):
    """Reports where a file would be saved for the typed path ``typed``, and whether that is possible."""

    def __init__(self, typed: str, found: SavePlace) -> None:
        super().__init__()
        self.typed, self.found = typed, found


class SaveScreen(ModalScreen[None], TopScreen[None]):
    """Saves ``shown``, which does not change while the dialogue is open."""

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

    def __init__(
        self, shown: ShownScreen, saving: Saving, tell: Callable[[str, str, float], None], *, still: bool
    ) -> None:
        """``saving`` writes the file. ``tell`` is called with a message for the main screen, the name of the
        message's style in the palette, and the seconds for which it is shown."""
        super().__init__()
        self._tell = tell
        self._saving = saving
        self._shown = shown
        self._still = still
        # A saved window exists as a file of the first format already: begin with the second format.
        self._at = 1 if still else 0
        self._ready = False
        """Whether the widgets exist. Keys may arrive before they exist."""
        self._choices: list[Choice] = []
        self._note: tuple[str, str] = ("", "dim")
        """The note about the path, with its role."""
        self._asked: str | None = None
        """The typed path that is being looked up in the file system; None if no look-up runs."""

    @property
    def chosen(self) -> Format:
        """Return the format under the cursor."""
        return SAVED[self._at]

    def compose(self) -> ComposeResult:
        """Yield the formats, the path, and a note about the path."""
        glyphs, window = self._shown.glyphs, self._shown.window
        title = f"Save {window.seconds:.0f}s of {window.host}, up to {figures.clock(window.end)}"
        with Vertical(id="save", classes="ascii" if glyphs is ASCII else ""):
            yield Choices(title, "formats")
            with Horizontal(id="path-row") as row:
                row.display = not self._saving.elsewhere
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
            yield Note("note")

    def on_resize(self, event: events.Resize) -> None:
        """Remove the border on a low terminal, and the second line of the note on a still lower one."""
        self.query_one("#save").set_class(event.size.height < FRAME_LINES, "low")
        self.query_one(Note).styles.height = 2 if event.size.height >= NOTE_LINES else 1
        self._show_note()

    def on_mount(self) -> None:
        """Show the formats, and the default path."""
        self._ready = True
        self.query_one(Choices).styles.height = LIST_LINES
        self._choices = [Choice(one.label, one.saved, problem(one, still=self._still)) for one in SAVED]
        self._choose(self._at)

    # ---- where to

    @property
    def _typed(self) -> str:
        return self.query_one("#path", Input).value

    @on(Input.Changed, "#path")
    def _look(self) -> None:
        """Find out in the background where a file would be saved for the typed path: a network file system
        may not answer."""
        elsewhere = self._saving.elsewhere
        if elsewhere:
            self._note = (elsewhere, "dim")
            self._show_note()
            return
        if self._asked is not None:
            return  # when the running look-up has ended, it starts the next one
        typed = self._asked = self._typed
        default, post = self._shown.default(self.chosen), self.post_message

        def work() -> None:
            try:
                found = place(typed, default)
            except (OSError, ValueError) as error:
                found = SavePlace(default, str(error), good=False)
            post(PlaceFound(typed, found))

        threading.Thread(target=work, name="stalltop-path", daemon=True).start()

    @on(PlaceFound)
    def _looked(self, message: PlaceFound) -> None:
        self._asked = None
        if message.typed != self._typed:
            self._look()
            return
        found = message.found
        self._note = (found.note, "dim" if found.good else "bad")
        self._show_note()

    @property
    def _hint(self) -> str:
        return HINT_ELSEWHERE if self._saving.elsewhere else HINT

    def _show_note(self) -> None:
        """Show the note and the hint. If there is only one line, show the note if something is wrong, else
        the hint."""
        lines = [self._note, (self._hint, "label")]
        if self.app.size.height < NOTE_LINES:
            lines = [line for line in lines if (line[1] == "bad") == (self._note[1] == "bad")][-1:]
        self.query_one(Note).show(*lines)

    # ---- keys

    def action_step(self, step: int) -> None:
        """Select the previous (-1) or next (1) format."""
        self._choose(self._at + step)

    def action_choose(self, at: int) -> None:
        """Select the format number ``at``."""
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
        """Focus the path, or the formats again."""
        if not self._ready:
            return
        formats, path = self.query_one(Choices), self.query_one("#path", Input)
        if self._saving.elsewhere:
            return
        if formats.has_focus:
            self.set_focus(path)
            path.cursor_position = len(path.value)
        else:
            self.set_focus(formats)

    def action_close(self) -> None:
        """Close without saving."""
        self.dismiss()

    @on(Input.Submitted)
    def action_save(self) -> None:
        """Save in the background and close; or show why this format is not available."""
        reason = problem(self.chosen, still=self._still)
        if reason:
            if self._ready:
                self.query_one(Note).show((reason, "bad"), (self._hint, "label"))
            return
        typed = self._typed if self._ready else ""
        self._saving.start(self._shown, self.chosen, typed)
        self._tell(f"saving as {self.chosen.label}", "label", SAVING_SECONDS)
        self.dismiss()
