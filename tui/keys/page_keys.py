"""What keys do on the screens that cover the main screen, for the help and the documentation.

The screens themselves contain the bindings; a test compares both.
"""

from __future__ import annotations

from dataclasses import dataclass

from stalltop.tui.keys.actions import printed


@dataclass(frozen=True, slots=True)
class PageKeys:
    """The keys that have a meaning of their own on a screen. Any other key does the same as on the
    main screen, or nothing."""

    heading: str
    screens: tuple[str, ...]
    """Names of the screen classes with these bindings."""
    keys: tuple[tuple[tuple[str, ...], str], ...]
    """Keys by Textual's names, and what they do."""

    def lines(self) -> list[tuple[str, str]]:
        """Return (names of the keys, such as ``Space``; what they do) for each entry."""
        return [(" ".join(printed(key) for key in keys), help_) for keys, help_ in self.keys]


_CLOSE = "Close the page, as does the key that opened it"

# fmt: off
PAGES = (
    PageKeys("Pages", ("LivePage", "HelpScreen", "WarningsScreen"), (
        (("escape", "q"), _CLOSE),
    )),
    PageKeys("Page of a problem", ("ChainScreen",), (
        (("left", "right"), "Go to the previous or next problem"),
    )),
    PageKeys("Page of a row", ("RowScreen",), (
        (("enter",), "Go to the problem that involves the row"),
    )),
    PageKeys("Lines of code", ("StacksScreen",), (
        (("enter",), "Show or hide what the line called"),
    )),
    PageKeys("Commands", ("CommandsScreen",), (
        (("enter",), "Copy the selected command"),
    )),
    PageKeys("Devices", ("DeviceScreen", "DevicesScreen"), (
        (("left", "right"), "On the page of one device: go to the previous or next one"),
    )),
    PageKeys("Columns", ("ColumnScreen",), (
        (("space",), "Show or hide the column"),
        (("less_than_sign", "K"), "Move the column to the left"),
        (("greater_than_sign", "J"), "Move the column to the right"),
        (("u",), "Reset to the usual columns"),
    )),
    PageKeys("Fleet", ("FleetScreen",), (
        (("enter",), "Open the live screen of a host; q returns; of a job: show its ranks; else: its hosts"),
        (("1",), "Show the hosts, the worst first"),
        (("2",), "Show the problems of all hosts by culprit"),
        (("3",), "Show the tenants of all hosts"),
        (("4",), "Show the NCCL jobs across hosts"),
        (("slash",), "Show only rows whose text contains what you type"),
        (("left_square_bracket",), "Show the past: the merged windows of all hosts"),
        (("w",), "Save the past of the last hour as a recording"),
        (("q",), "Quit"),
    )),
    PageKeys("Save", ("SaveScreen",), (
        (("enter",), "Save"),
        (("up", "down"), "Choose the format (also k, j and 1 to 7)"),
        (("tab",), "Go to the path, to type another one; again: back to the formats"),
    )),
)
# fmt: on


def markdown() -> str:
    """Return all entries as Markdown tables with headings, for docs/keys.md."""
    parts = []
    for page in PAGES:
        lines = [f"## {page.heading}", "", "| key | what it does |", "|---|---|"]
        parts.append("\n".join([*lines, *(f"| `{keys}` | {help_} |" for keys, help_ in page.lines())]))
    return "\n\n".join(parts)
