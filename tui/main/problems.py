"""Keys of the main screen for what is wrong: to chains and back, silence, and what helps."""

from __future__ import annotations

from collections.abc import Hashable

from stalltop.model.chain import Chain
from stalltop.tui.chain.chains import chains_of
from stalltop.tui.main.files import READ_SECONDS, FileKeys
from stalltop.tui.main.panels import PanelKeys
from stalltop.tui.main.view import MainView
from stalltop.widgets.strips import printable


class ProblemKeys:
    """The keys for chains on ``main``."""

    def __init__(self, main: MainView, panels: PanelKeys, files: FileKeys) -> None:
        self._main = main
        self._say = main.speech.say
        self._panels = panels
        self._files = files
        self._came_from = ""
        """Id of the chain that led to a row last."""

    def warnings(self) -> None:
        """The keys go to the list of what is wrong, or back to the tables."""
        if self._main.panel.has_focus:
            self._panels.leave_warnings()
        else:
            self._panels.show("warnings")
            # Now, not with the next message: Enter may follow at once.
            self._main.set_focus(self._main.panel)

    def open(self, line: Hashable) -> None:
        """Open the page of the chain in that line of the list; of other lines, that of all warnings."""
        chains = self._main.panel.found.chains
        at = next((at for at, chain in enumerate(chains) if chain.id == line), None)
        if at is None:
            self._main.stalltop.opens.warnings()
        else:
            self._main.stalltop.opens.chains(chains, at)

    def chains(self) -> None:
        """From a row to its chains, from a chain to its row."""
        chain = self._chain_here()
        if chain is not None and self._main.panel.has_focus:
            self.to_row(chain)
        elif chain is not None:
            self._main.stalltop.opens.chains(self._row_chains())

    def to_row(self, chain: Chain) -> None:
        """Put the cursor on the row that ``chain`` loses its time in, from where the same key leads back."""
        self._came_from = chain.id
        self._main.tables.look_at(chain)

    def silence(self) -> None:
        """Hide the chain here, or show it again; so too a line of what is not traced."""
        panel = self._main.panel
        if panel.has_focus and panel.stands_here:
            self._changed(panel.silence_here())
            return
        chain = self._chain_here()
        if chain is not None:
            self.silence_chain(chain)

    def silence_chain(self, chain: Chain) -> None:
        """Hide ``chain``, or show it again."""
        self._changed(self._main.panel.silence(chain))

    def show_silenced(self) -> None:
        """Show chains that were hidden too, or hide them again."""
        self._changed(self._main.panel.show_silenced())

    def copy_fix(self) -> None:
        """Copy the command that helps against the chain here; just after a file was saved, its path."""
        if self._files.copy_path():
            return
        chain = self._chain_here()
        if chain is not None:
            self.copy_fix_of(chain)

    def copy_fix_of(self, chain: Chain) -> None:
        """Put the first command that helps against ``chain``, or else one that shows more about it, into the
        terminal's clipboard (OSC 52). Says the command too: not every terminal takes it."""
        typed = sorted((fix for fix in chain.fixes if fix.command), key=lambda fix: fix.look)
        if not typed:
            said = f"no command to copy; {chain.fixes[0].text}" if chain.fixes else "no fix is known"
        else:
            command = printable(typed[0].command)  # one line: nothing is run by pasting it
            self._main.app.copy_to_clipboard(command)
            said = f"copied, only to look: {command}" if typed[0].look else f"copied: {command}"
        self._say(said, "label", READ_SECONDS)

    def _changed(self, said: str) -> None:
        self._main.drawing.everything()
        self._say(said, "label")

    def _chain_here(self) -> Chain | None:
        """The chain under the cursor: of the list, or the worst one of a row. Says where there is none."""
        panel = self._main.panel
        chain = panel.chain_here if panel.has_focus else next(iter(self._row_chains()), None)
        if chain is None:
            self._say("no chain speaks of this line", "dim")
        return chain

    def _row_chains(self) -> list[Chain]:
        """The chains of the row under the cursor: the one that led to it, then the worst one first."""
        window = self._main.shown
        if window is None:
            return []
        widget, view = self._main.tables.here
        found = chains_of(widget.cursor_key, self._main.panel.found.open, window, view)
        return sorted(found, key=lambda chain: chain.id != self._came_from)
