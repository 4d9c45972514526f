"""The keys of the main screen for problems: open them, go to their rows, silence them, copy their fix."""

from __future__ import annotations

from collections.abc import Hashable

from stalltop.formats.text.chains import name_of
from stalltop.model.chain import Chain
from stalltop.model.text import figures
from stalltop.tui.main.selection import is_unmoved, row_chains, selected
from stalltop.tui.main.view import MainView
from stalltop.tui.main_keys.files import READ_SECONDS, FileKeys
from stalltop.tui.main_keys.panels import PanelKeys
from stalltop.tui.problems.alert_panel import COVERAGE_LINE, QUIET_LINE
from stalltop.tui.problems.chains import stands
from stalltop.tui.tables.steps import TableSteps
from stalltop.tui.views.path import Path, scope
from stalltop.tui.views.processes import processes_of
from stalltop.widgets.drawing.strips import printable


class ProblemKeys:
    """Handles the keys for problems on ``main``."""

    def __init__(self, main: MainView, steps: TableSteps, panels: PanelKeys, files: FileKeys) -> None:
        self._main = main
        self._say = main.speech.say
        self._steps = steps
        self._panels = panels
        self._files = files
        self._came_from = ""
        """Id of the chain from which the user last went to a row."""

    def warnings(self) -> None:
        """Focus the list of problems, or the tables again."""
        if self._main.panel.has_focus:
            self._panels.leave_warnings()
        else:
            self._panels.show("warnings")
            self._main.panel.display = True  # it may be hidden because it is empty
            # Set the focus now, not in the next message: Enter may follow at once.
            self._main.set_focus(self._main.panel)

    def open(self, line: Hashable) -> None:
        """Open the page of the problem in the line ``line`` of the list. On the line that says that no
        problem is open, open the page of the problem that ended last. On another line without a problem, open
        the page of all warnings."""
        chains = self._main.panel.found.chains
        at = next((at for at, chain in enumerate(chains) if chain.id == line), None)
        if line == QUIET_LINE:
            over = [at for at, chain in enumerate(chains) if not chain.open]
            at = max(over, key=lambda at: chains[at].seen, default=None)
        if at is None and isinstance(line, str) and line not in (QUIET_LINE, COVERAGE_LINE):
            self._say("this problem has ended and is no longer in the list", "label", READ_SECONDS)
        elif at is None:
            self._main.opens.warnings()
        else:
            self._main.opens.chains(chains, at)

    def open_answer(self) -> None:
        """Open the page of the problem that the first lines of the screen show."""
        told = self._main.panel.answering.chain
        if told is not None:
            self.open(told.id)

    def chains(self) -> None:
        """Go from a row to its problems, or from a problem to its row. If the user did not move the cursor,
        go to the problem that the first lines of the screen show."""
        told = self._unmoved()
        if told is not None:
            self.open(told.id)
            return
        chain = self._chain_here()
        if chain is not None and self._main.panel.has_focus:
            self.to_row(chain)
        elif chain is not None:
            self._main.opens.chains(self._row_chains())

    def to_row(self, chain: Chain) -> None:
        """Move the cursor to the row that loses time because of ``chain``. On that row the same key leads
        back to the problem."""
        self._came_from = chain.id
        self._steps.look_at(chain)

    def silence(self) -> None:
        """Hide the problem under the cursor, or the line about a gap in coverage, from now on; show it again
        if it is hidden."""
        panel = self._main.panel
        if panel.has_focus and stands(panel.cursor_key):
            self._changed(panel.silenced.toggle_line(panel.cursor_key))
            return
        chain = self._chain_here()
        if chain is not None:
            self.silence_chain(chain)

    def silence_chain(self, chain: Chain) -> None:
        """Hide the problem of ``chain`` from now on; show it again if it is hidden."""
        self._changed(self._main.panel.silenced.toggle(chain))

    def show_silenced(self) -> None:
        """Show silenced problems too, or hide them again."""
        self._changed(self._main.panel.silenced.toggle_shown())

    def copy_fix(self) -> None:
        """Copy the command that fixes the problem that the first lines of the screen show. If the user
        selected something else (``_told``), copy the command for the problem under the cursor. Shortly after
        a file was saved, copy the path of that file instead."""
        if self._files.copy_path():
            return
        chain = self._told() or self._chain_here()
        if chain is not None and not chain.open:
            self._say(
                f"nothing to copy: this problem ended {figures.clock(chain.seen)}", "label", READ_SECONDS
            )
        elif chain is not None:
            self.copy_fix_of(chain)

    def copy_fix_of(self, chain: Chain) -> None:
        """Copy a command of ``chain``: the first one that fixes the problem, or else the first one that shows
        more about the problem."""
        remedy = chain.remedy
        if remedy is None:
            said = f"no command to copy; {chain.fixes[0].text}" if chain.fixes else "no fix is known"
        else:
            # Without line breaks: a shell does not run the command when the user pastes it.
            command = printable(remedy.command)
            where = self._main.stalltop.copy(command)
            # The command comes first, because a narrow line cuts the end.
            said = f"{command} (only shows more): {where}" if remedy.look else f"{command}: {where}"
        self._say(said, "label", READ_SECONDS)

    def commands(self) -> None:
        """Open the commands for the problem under the cursor. In a table, open those for the worst problem of
        the row under the cursor or, if the row has no fault, those for the row. If the user did not move
        the cursor, open those for the problem that the first lines of the screen show."""
        panel, window = self._main.panel, self._main.shown
        told = self._unmoved()
        if told is not None and window is not None:
            self.commands_of(told, name_of(told.tenant, window) if told.tenant else "")
            return
        if panel.has_focus:
            chain = self._chain_here()
            if chain is not None:
                self.commands_of(chain)
            return
        path = self._main.tables.path_here()
        if window is None or not path:
            self._say("there is no row here", "dim")
        else:
            chain = next((one for one in self._row_chains() if one.severity != "info"), None)
            if chain is not None:
                self.commands_of(chain, path[-1].label)
            else:
                self.commands_of_row(path)

    def commands_of(self, chain: Chain, row: str = "") -> None:
        """Open the commands for the problem of ``chain``; ``row`` is the name of the row from which the user
        comes."""
        window = self._main.shown
        if window is not None:
            from stalltop.model.actions.offers import for_chain

            about = f"{row}: {chain.title}" if row else chain.title
            self._main.opens.commands(about, for_chain(window, chain), window, chain.id)

    def commands_of_row(self, path: Path) -> None:
        """Open the commands for the row at ``path``: for its tenants and processes, those with the most time
        first."""
        window = self._main.shown
        if window is None:
            return
        from stalltop.model.actions.offers import for_row

        uses = processes_of(window, path, scope(window, path))
        tenants = tuple(dict.fromkeys(use.tenant for use in uses))
        processes = [(use.tenant, use.pid, use.process) for use in uses]
        self._main.opens.commands(path[-1].label, for_row(window, tenants, processes), window)

    def _changed(self, said: str) -> None:
        self._main.drawing.everything()
        self._say(said, "label")

    def _unmoved(self) -> Chain | None:
        """Return the chain that the first lines of the screen show, while the first table has the focus and
        shows all rows of the host, and the user did not move its cursor."""
        panel = self._main.panel
        return panel.answering.chain if is_unmoved(panel, self._main.tables) else None

    def _told(self) -> Chain | None:
        """Return the chain that the first lines of the screen show. Returns None if the user selected
        something else: the list of problems has the focus, or the user moved the cursor to a row that only
        other chains name."""
        panel = self._main.panel
        told = panel.answering.chain
        if told is None or panel.has_focus:
            return None
        window = self._main.shown
        chosen = told if window is None else selected(panel, self._main.tables, window)
        return told if chosen is not None and chosen.id == told.id else None

    def _chain_here(self) -> Chain | None:
        """Return the chain under the cursor. If a row of a table is under the cursor, return the worst chain
        of that row. Shows a message if there is none."""
        panel = self._main.panel
        chain = (
            panel.found.chain(panel.cursor_key) if panel.has_focus else next(iter(self._row_chains()), None)
        )
        if chain is None:
            self._say("No problem involves this line", "dim")
        return chain

    def _row_chains(self) -> list[Chain]:
        """Return the chains of the row under the cursor, the worst first; if there are none, those that have
        the row as a culprit. The chain from which the user came to the row is before all others."""
        window = self._main.shown
        if window is None:
            return []
        found = row_chains(self._main.panel, self._main.tables, window)
        return sorted(found, key=lambda chain: chain.id != self._came_from)
