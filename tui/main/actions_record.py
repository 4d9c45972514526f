"""The key that records what is read."""

from __future__ import annotations

from stalltop.tui.main.actions_save import READ_SECONDS
from stalltop.tui.main.main_view import MainView


class RecordActions(MainView):
    """The key for recording."""

    def action_record(self) -> None:
        """Record what is read from now on, or no longer."""
        recorded = self.stalltop.options.recorded
        if recorded is None:
            self.say("only what is read on this host, on a screen of its own, can be recorded", "label")
        elif recorded.state is None:
            recorded.begin_beside()
        else:
            state = recorded.end()
            if state is not None:
                self.say(f"recorded to {state.path}", "good", READ_SECONDS)
        self._refresh_header()
