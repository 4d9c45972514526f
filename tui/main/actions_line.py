"""The key for slow lines."""

from __future__ import annotations

from stalltop.tui.keys import key
from stalltop.tui.main.main_view import MainView
from stalltop.tui.main.slow_line import LOW_SECONDS


class LineActions(MainView):
    """Drawing less, and all of it again."""

    def action_draw_less(self) -> None:
        """Draw less, or all of it again."""
        self.slow_line.low = not self.slow_line.low
        self.stalltop.few_colours(self.slow_line.low)
        self._refresh()
        if self.slow_line.low:
            self.say(
                f"low bandwidth: a picture every {LOW_SECONDS:.0f}s, no bars, 16 colours; {key('less')}: all",
                "label",
            )
        else:
            self.say("everything is drawn again", "label")
