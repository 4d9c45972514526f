"""The app that shows a fleet. It ends when the user leaves it, or opens a host."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar, cast

from textual import on
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Input

from stalltop.formats.text.fleet import fleet_sentence, fleet_state_text, job_line, job_parts, unlike_text
from stalltop.model.errors import StalltopError
from stalltop.model.fleet.fleet_digest import FleetDigest
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.text import figures
from stalltop.model.text.glyphs import ASCII, UNICODE
from stalltop.model.text.words import numbered
from stalltop.tui.fleet.fleet_help import FleetHelp
from stalltop.tui.fleet.fleet_keys import fleet_bindings, key_line
from stalltop.tui.fleet.fleet_tables import FleetChoice, FleetPage, fleet_table, hosts_of, job_of
from stalltop.tui.keys.actions import bindings, choose, keymap
from stalltop.tui.screens.bases import AppScreen
from stalltop.tui.settings.colours import Colours
from stalltop.tui.settings.settings import Settings
from stalltop.tui.terminal.abilities import require_screen, speaks_unicode
from stalltop.tui.terminal.app import TerminalApp
from stalltop.tui.terminal.clipboard import Copied, into_file
from stalltop.tui.terminal.interrupts import INTERRUPTED
from stalltop.tui.terminal.last_words import explain
from stalltop.tui.terminal.leaving import Leaving
from stalltop.widgets.answer import AnswerLines, AnswerState
from stalltop.widgets.footer import KeyLine
from stalltop.widgets.table import Table

T = TypeVar("T")

SECONDS: Final = 1.0
"""Seconds between two drawings."""
SAID_SECONDS: Final = 4.0
ANSWER_LINES: Final = 2
"""Lines of the worst problem: the sentence, and what helps."""


@dataclass(frozen=True, slots=True)
class FleetSource:
    """Where the screen gets from what it shows. The last two may take seconds, and are called in threads."""

    digest: Callable[[], FleetDigest]
    tenant_hosts: Callable[[str, str], tuple[HostAddress, ...]]
    """Returns the hosts that have the tenant of a namespace and name, the worst first."""
    save: Callable[[], str] | None = None
    """Saves the past, and returns a line about that."""


class FleetTable(Table, can_focus=True):
    """The table of the fleet."""

    BINDINGS = bindings("table")


class FleetScreen(AppScreen):
    """The worst problem as a sentence, a table, and the keys."""

    BINDINGS = fleet_bindings()
    AUTO_FOCUS = "#main"

    def compose(self) -> ComposeResult:
        """Yield the widgets."""
        answer = AnswerLines("answer")
        answer.styles.height = ANSWER_LINES
        yield answer
        yield FleetTable("main")
        entry = Input(placeholder="part of a name", id="filter")
        entry.display = False
        yield entry
        yield KeyLine("keys")

    def on_mount(self) -> None:
        """Let the app draw, now that the widgets exist."""
        cast("FleetApp", self.app).begin()


class FleetApp(TerminalApp):
    """Draws what ``view`` returns once a second."""

    CSS_PATH = Path(__file__).parent.parent / "stalltop.tcss"
    TITLE = "stalltop fleet"
    ALLOW_SELECT = False
    pictures = True

    def __init__(self, source: FleetSource, settings: Settings, begin: FleetChoice | None = None) -> None:
        """``begin``: what to show first."""
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        self.animation_level = "none"
        self.glyphs = ASCII if settings.ascii or not speaks_unicode() else UNICODE
        self.colours = Colours(self, settings.theme)
        self.choice = begin or FleetChoice()
        self.chosen: HostAddress | None = None
        """The host to open when the app has ended; None: the user has left."""
        self.failure: Exception | None = None
        self.past = False
        """Whether to show the past when the app has ended."""
        choose(settings.keys)
        self._source = source
        self._shown = FleetDigest(0.0)
        self._frozen = False
        self._before: list[FleetChoice] = []
        """What was shown before, for the way back."""
        self._top = FleetScreen()

    def get_default_screen(self) -> Screen[None]:
        """Return the one screen."""
        return self._top

    def on_mount(self) -> None:
        """Begin to draw. Called when the screen is set up."""
        self.set_keymap(keymap())
        self.watch_terminal()
        if self.interrupted:
            self.exit(return_code=INTERRUPTED)
            return

    def begin(self) -> None:
        """Draw from now on."""
        self._top.query_one("#keys", KeyLine).show(key_line())
        self.set_interval(SECONDS, self.refresh_view)
        self.refresh_view()

    def refresh_view(self) -> None:
        """Take the fleet as it is now, and draw it. While the screen is frozen, nothing changes."""
        if self.line_is_behind or self._frozen:
            return
        try:
            self._shown = self._source.digest()
        except Exception as error:
            self.failure = error
            self.exit(return_code=1)
            return
        self.draw()

    def draw(self) -> None:
        """Draw the fleet as it was last taken."""
        view = self._shown
        self._top.query_one("#answer", AnswerLines).show(self._answer(view))
        table = self._top.query_one("#main", FleetTable)
        table.badge = "frozen " + figures.clock(view.now) if self._frozen else ""
        data = fleet_table(view, self.choice, self.glyphs, self.size.width)
        whole = self.choice.page == "hosts" and self.choice.hosts is None and not self.choice.filter
        state = f"{fleet_state_text(view, hosts=not whole)}  " + ("FROZEN " if self._frozen else "LIVE ")
        table.show(replace(data, legend=((state + figures.clock(view.now), "dim"),)))

    def _answer(self, view: FleetDigest) -> AnswerState:
        if self.choice.page == "ranks":
            return self._answer_of_job(view)
        standing = [line for job in view.jobs if (line := job_line(job, self.glyphs))]
        others = tuple(
            f"{one.culprit}: {one.title}" if one.culprit else one.title for one in view.problems[1:]
        )
        if standing:
            return AnswerState("C", "critical", "critical", text=standing[0], about="; ".join(standing[1:]))
        if view.problems:
            worst = view.problems[0]
            role = {"critical": "critical", "high": "bad", "medium": "warn"}.get(worst.severity, "text")
            said = replace(fleet_sentence(worst, self.glyphs), command=worst.fix)
            mark = worst.severity[0].upper()
            return AnswerState(mark, worst.severity, role, said, more=others, copy_key="y")
        text = f"No problems on {numbered(view.count('live'), 'host')}" if view.hosts else "Waiting for hosts"
        return AnswerState(role="good" if view.hosts else "text", text=text)

    def _answer_of_job(self, view: FleetDigest) -> AnswerState:
        job = job_of(view, self.choice)
        if job is None:
            text = "This job has ended, or its hosts are not there any more"
            if view.jobs_left_out:
                text += f", or it is one of {numbered(view.jobs_left_out, 'job')} that are not listed"
            return AnswerState(text=text)
        name, (what, why) = job.tenant or job.communicator, job_parts(job, self.glyphs)
        hints = "; ".join(map(unlike_text, job.unlike))
        about = f"by likeness only: {hints}" if hints else ""
        if what:
            return AnswerState("C", "critical", "critical", text=what, slowest=why, about=about)
        if not job.compared:
            text = f"{name} runs; when its ranks enter collectives cannot be compared"
            return AnswerState(text=text, about=about)
        text = f"{name} runs, and waits for no rank in particular"
        return AnswerState(role="good", text=text, about=about)

    # ---- keys

    @on(Table.RowChosen)
    def _opened(self, message: Table.RowChosen) -> None:
        """Open the host of the row, or show the hosts or the ranks of another row."""
        key: Hashable = message.key
        if self.choice.page == "ranks":
            key, _ = cast("tuple[HostAddress, int]", key)
        if isinstance(key, HostAddress):
            self.chosen = key
            self.exit()
            return
        label = next((row.label for row in message.table.data.rows if row.key == key), "")
        if self.choice.page == "tenants":
            namespace, name = cast("tuple[str, str]", key)
            self._meanwhile(
                f"looking for the hosts of {label}",
                lambda: FleetChoice("hosts", self._source.tenant_hosts(namespace, name), label),
                self._go,
            )
            return
        if self.choice.page == "jobs":
            self._go(FleetChoice("ranks", of=label, job=cast("str", key)))
            return
        self._go(FleetChoice("hosts", hosts_of(self._shown, key), label))

    def _meanwhile(self, said: str, work: Callable[[], T], then: Callable[[T], object]) -> None:
        """Does ``work`` in a thread, and calls ``then`` with its result. Says an error."""

        def whole() -> None:
            try:
                found = work()
            except StalltopError as error:
                self.call_from_thread(self.say, "; ".join(map(str.strip, str(error).splitlines())))
            else:
                self.call_from_thread(then, found)

        self.say(said)
        self.run_worker(whole, thread=True, exclusive=True, exit_on_error=False)

    def _go(self, choice: FleetChoice) -> None:
        self._before.append(self.choice)
        self.choice = choice
        self._top.query_one("#main", FleetTable).put_cursor(None)
        self.draw()

    def action_page(self, page: FleetPage) -> None:
        """Show another table."""
        if page != self.choice.page or self.choice.hosts is not None:
            self._go(FleetChoice(page))

    def action_way_back(self) -> None:
        """Go back to what was shown before; close the filter."""
        entry = self._top.query_one("#filter", Input)
        if entry.display:
            entry.display = False
            self._top.query_one("#main", FleetTable).focus()
        elif self.choice.filter:
            self.choice = replace(self.choice, filter="")
        elif self._before:
            self.choice = self._before.pop()
        self.draw()

    def action_filter(self) -> None:
        """Let the user type a part of a name."""
        entry = self._top.query_one("#filter", Input)
        entry.value = self.choice.filter
        entry.display = True
        entry.focus()

    @on(Input.Changed)
    def _typed(self, message: Input.Changed) -> None:
        self.choice = replace(self.choice, filter=message.value.strip())
        self.draw()

    @on(Input.Submitted)
    def _entered(self) -> None:
        self._top.query_one("#filter", Input).display = False
        self._top.query_one("#main", FleetTable).focus()

    def action_freeze(self) -> None:
        """Stop to draw new data, or begin again."""
        self._frozen = not self._frozen
        self.draw()
        self.refresh_view()

    def action_copy_fix(self) -> None:
        """Copy what helps against the worst problem, to the terminal's clipboard and to a file."""
        fix = next((one.fix for one in self._shown.problems if one.fix), "")
        if fix:
            self.copy_to_clipboard(fix)
            where = Copied(asked="the terminal", file=into_file(fix)).said
            self.say(f"{fix}: {where}")

    def action_save(self) -> None:
        """Save the past of the fleet."""
        if self._source.save is not None:
            self._meanwhile("saving the merged windows of the last hour", self._source.save, self.say)

    def action_past(self) -> None:
        """Show the past of the fleet: the app ends, and its caller shows it."""
        self.past = True
        self.exit()

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(FleetHelp())

    def action_theme(self) -> None:
        """Use the next theme."""
        self.say(f"theme {self.colours.next()}")

    def action_leave(self) -> None:
        """Leave the program."""
        self.exit()

    def say(self, text: str) -> None:
        """Show a message for some seconds. Called in the thread of the screen."""
        keys = self._top.query_one("#keys", KeyLine)
        keys.say(text)
        self.set_timer(SAID_SECONDS, lambda: keys.say(""))


@dataclass(frozen=True, slots=True)
class FleetEnd:
    """Why the fleet's screen ended, and what to show next."""

    exit_code: int
    opened: HostAddress | None
    """The host to open; None: none."""
    past: bool
    """Whether to show the past."""
    choice: FleetChoice
    """What was shown last, to go back to."""


def run(source: FleetSource, settings: Settings, begin: FleetChoice | None = None) -> FleetEnd:
    """Show the fleet until the user leaves or opens a host. Raises UsageError if the terminal cannot show a
    screen."""
    require_screen()
    app = FleetApp(source, settings, begin)
    with Leaving(app.interrupt) as leaving:
        try:
            app.run(mouse=settings.mouse)
        except OSError:
            if not leaving.lost():
                raise
        finally:
            signal.signal(signal.SIGCONT, signal.SIG_DFL)
        leaving.screen_ended()
        asked = leaving.exit_code
        if leaving.lost():
            return FleetEnd(asked or INTERRUPTED, None, False, app.choice)
    if app.failure is not None:
        return FleetEnd(explain("the screen", app.failure), None, False, app.choice)
    if app.interrupted:
        return FleetEnd(asked or INTERRUPTED, None, False, app.choice)
    return FleetEnd(int(app.return_code or 0), app.chosen, app.past, app.choice)
