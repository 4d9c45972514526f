"""Every setting of the screen: type, default, allowed values and description.

The config file, its checks, the file with the settings at the end of a run, and docs/config.md are derived
from this table. It does not import Textual, because the command line needs the names before any screen.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from types import MappingProxyType
from typing import Any, Protocol

from stalltop.model.rows.dimensions import DIMENSIONS
from stalltop.tui.columns.catalogue import IDS, SORTS
from stalltop.tui.settings.palettes import THEME_NAMES
from stalltop.tui.views.orders import WORST

AUTO = "auto"
"""The value of a setting that leaves the choice to stalltop: of the theme, of the graphs, and of what graphs
are drawn with."""
LENGTHS: tuple[float | None, ...] = (1.0, 10.0, 60.0, 300.0, None)
"""The lengths of the window that a key selects, in seconds; None: since the start."""
SINCE_START = "start"
PANELS = ("host", "devices", "warnings", "table", "second", "keys")
"""The panels of the main screen from top to bottom, in the order of the keys 1 to 6."""
GRAPHS = (
    "problems",
    "p99",
    "calls",
    "gpu",
    "gpu_memory",
    "power",
    "clocks",
    "cpu",
    "run_queue",
    "disk",
    "disk_bytes",
    "late_rank",
    "network",
)
"""The figures that graphs can show, by the ids in ``tui.graphs.figures``."""
NONE = "none"
"""No graphs."""
NEEDED = ("table", "warnings")
"""At least one of these panels must be shown. Without the first table there is no second one."""
LEAST_INTERVAL, MOST_INTERVAL = 0.25, 60.0
"""Limits of the seconds between two samples."""
LEAST_SHARE, MOST_SHARE = 20, 80
"""Limits of the share of the room that the first of two tables gets, in percent."""


class SettingKind(Protocol):
    """The type of a setting: its allowed values, and how they are parsed."""

    @property
    def allowed(self) -> str:
        """Return the allowed values, as text after "allowed: "."""

    def read(self, value: object) -> Any:
        """Return the value as the program uses it. Raises ValueError if it is not allowed."""

    def plain(self, value: Any) -> object:
        """Return the value as the file contains it."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number from ``least`` to ``most``, both included. With ``whole`` it has no fraction."""

    least: float
    most: float
    whole: bool = False

    @property
    def allowed(self) -> str:
        """Return the bounds as text."""
        return f"{'a whole' if self.whole else 'a'} number from {self.least:g} to {self.most:g}"

    def read(self, value: object) -> float:
        """Return the number. Raises ValueError if not allowed."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError
        if not self.least <= value <= self.most or (self.whole and value != int(value)):
            raise ValueError
        return int(value) if self.whole else float(value)

    def plain(self, value: float) -> object:
        """Return the number as the file contains it."""
        return value


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of the given words."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """Return the allowed words as text."""
        return ", ".join(f'"{word}"' for word in self.words)

    def read(self, value: object) -> str:
        """Return the word. Raises ValueError if not allowed."""
        if not isinstance(value, str) or value not in self.words:
            raise ValueError
        return value

    def plain(self, value: str) -> object:
        """Return the word as the file contains it."""
        return value


class YesNo:
    """True or false."""

    allowed = "true, false"

    def read(self, value: object) -> bool:
        """Return the value. Raises ValueError if not allowed."""
        if not isinstance(value, bool):
            raise ValueError
        return value

    def plain(self, value: bool) -> object:
        """Return the value as the file contains it."""
        return value


class Length:
    """A length of the window."""

    allowed = ", ".join(f'"{SINCE_START}"' if one is None else f"{one:g}" for one in LENGTHS)

    def read(self, value: object) -> float | None:
        """Return the seconds; None: since the start. Raises ValueError if not allowed."""
        if value == SINCE_START:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value not in LENGTHS:
            raise ValueError
        return float(value)

    def plain(self, value: float | None) -> object:
        """Return the length as the file contains it: seconds, or a word for the whole time."""
        return SINCE_START if value is None else int(value)


@dataclass(frozen=True, slots=True)
class SeveralOf:
    """A list of words, each at most once. It contains at least one of ``needed``."""

    words: tuple[str, ...]
    needed: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """Return the allowed words as text."""
        text = "a list of " + ", ".join(f'"{word}"' for word in self.words)
        return text + (f"; it must contain {' or '.join(self.needed)}" if self.needed else "")

    def read(self, value: object) -> tuple[str, ...]:
        """Return the words. Raises ValueError if not allowed."""
        if not isinstance(value, list | tuple) or len(set(map(str, value))) != len(value):
            raise ValueError
        if any(not isinstance(word, str) or word not in self.words for word in value):
            raise ValueError
        if self.needed and not set(self.needed) & set(value):
            raise ValueError
        return tuple(value)

    def plain(self, value: Sequence[str]) -> object:
        """Return the words as the file contains them."""
        return list(value)


Chosen = tuple[tuple[str, tuple[str, ...]], ...]
"""The columns that were chosen for tables, by dimension."""


KeysChosen = tuple[tuple[str, tuple[str, ...]], ...]
"""Ids of actions, each with its keys."""


class Columns:
    """The columns of tables, by dimension."""

    allowed = f"for any of {', '.join(DIMENSIONS)} a list of some of {', '.join(IDS)}"

    def read(self, value: object) -> Chosen:
        """Return the columns of each table."""
        if not isinstance(value, dict) or not set(value) <= set(DIMENSIONS):
            raise ValueError
        names = SeveralOf(IDS, IDS)
        return tuple((by, names.read(value[by])) for by in DIMENSIONS if by in value)

    def plain(self, value: Chosen) -> object:
        """Return the columns of each table."""
        return {by: list(ids) for by, ids in value}


class Keys:
    """Keys that the user chose for some actions."""

    allowed = "for any action of docs/keys.md a key or a list of keys"

    def read(self, value: object) -> KeysChosen:
        """Return ids of actions, each with its keys."""
        if value == {}:
            return ()
        from stalltop.tui.keys.choice import keys_chosen

        return keys_chosen(value)

    def plain(self, value: KeysChosen) -> object:
        """Return the keys of each action."""
        return {name: list(keys) for name, keys in value}


def _setting(default: Any, kind: SettingKind, about: str, *, left: bool = False) -> Any:
    """Return a field of ``Settings``. ``left``: keys of the screen change the setting, and its last value is
    kept for the next run."""
    return field(default=default, metadata={"kind": kind, "about": about, "left": left})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the screen."""

    interval: float = _setting(
        1.0, Number(LEAST_INTERVAL, MOST_INTERVAL), "Seconds between two samples of the counters."
    )
    window: float | None = _setting(
        10.0,
        Length(),
        'Length of the window in seconds; "start": since stalltop started.',
        left=True,
    )
    theme: str = _setting(
        AUTO,
        OneOf((AUTO, *THEME_NAMES)),
        'Theme; "auto": dark, or the terminal\'s own colours if it has only 16.',
        left=True,
    )
    ascii: bool = _setting(False, YesNo(), "Draw with ASCII only, even if the locale is UTF-8.")
    mouse: bool = _setting(
        True, YesNo(), "Handle mouse clicks and scrolling; false: the terminal selects text instead."
    )
    low_bandwidth: bool = _setting(
        False, YesNo(), "Draw less, for slow connections: every 3 seconds, without bars, in 16 colours."
    )
    panels: tuple[str, ...] = _setting(
        PANELS,
        SeveralOf(PANELS, NEEDED),
        "Panels that are shown if there is room for them.",
        left=True,
    )
    plain: bool = _setting(False, YesNo(), "Draw no frames around the panels.")
    graphs: tuple[str, ...] = _setting(
        (AUTO,),
        SeveralOf((AUTO, NONE, *GRAPHS), (AUTO, NONE, *GRAPHS)),
        'Graphs of the past where there is room, at most three; "auto": why the worst problem happens, and '
        "graphs that fit it.",
        left=True,
    )
    graph_symbols: str = _setting(
        AUTO,
        OneOf((AUTO, "braille", "blocks")),
        'What graphs are drawn with; "auto": braille, or ASCII if that is all the terminal shows.',
    )
    share: int = _setting(
        50,
        Number(LEAST_SHARE, MOST_SHARE, whole=True),
        "Percent of the room that the first of two tables may take.",
        left=True,
    )
    sort: str = _setting(
        WORST,
        OneOf(SORTS),
        'Column by which rows are sorted; "worst": rows that lose time, or whose p99 is far above its'
        " baseline, come first.",
        left=True,
    )
    descending: bool = _setting(True, YesNo(), "Largest first; false: smallest first.", left=True)
    columns: tuple[tuple[str, tuple[str, ...]], ...] = _setting(
        (),
        Columns(),
        "Columns of tables besides the name, in order; a table that is not listed has the usual ones.",
        left=True,
    )
    tour: bool = _setting(
        True, YesNo(), "Show the most important keys at the first start; false after that.", left=True
    )
    keys: tuple[tuple[str, tuple[str, ...]], ...] = _setting(
        (), Keys(), "Keys for actions, in place of their usual keys."
    )


SETTINGS: Mapping[str, Field[Any]] = MappingProxyType({one.name: one for one in fields(Settings)})
"""All settings by name, in the order of the documentation."""
LEFT = tuple(name for name, one in SETTINGS.items() if one.metadata["left"])
"""The settings that keys change and whose last values are kept."""


@dataclass(frozen=True, slots=True)
class SettingFault:
    """A fault in a config file."""

    text: str
    name: str = ""
    """The name of the setting; empty if the fault concerns the whole file."""
    line: int | None = None
    """The line in the file, from 1; None if not known."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


def read(
    table: Mapping[str, object], settings: Mapping[str, Field[Any]] = SETTINGS
) -> tuple[dict[str, Any], list[SettingFault]]:
    """Return the settings in ``table``, a parsed file, and its faults. ``settings`` are the settings that the
    file may have."""
    values: dict[str, Any] = {}
    faults = []
    for name, value in table.items():
        known = settings.get(name)
        if known is None:
            near = difflib.get_close_matches(name, settings, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(settings)}"
            faults.append(SettingFault(f"{_quoted(name)} is no setting; {hint}", name))
            continue
        kind: SettingKind = known.metadata["kind"]
        try:
            values[name] = kind.read(value)
        except ValueError as error:
            if str(error):
                faults.append(SettingFault(f"{name}: {error}", name))
                continue
            faults.append(
                SettingFault(f"{name} = {_quoted(value)} is not allowed; allowed: {kind.allowed}", name)
            )
    return values, faults


def toml(values: Mapping[str, Any], *, about: bool = False) -> str:
    """Return ``values`` as a TOML file. With ``about`` a comment before each value describes the setting."""
    lines = []
    for name, known in SETTINGS.items():
        if name not in values:
            continue
        kind: SettingKind = known.metadata["kind"]
        if about:
            lines += [f"# {known.metadata['about']}", f"# Allowed: {kind.allowed}"]
        lines.append(f"{name} = {toml_value(kind.plain(values[name]))}")
        if about:
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def toml_value(value: object) -> str:
    """Return a value of a setting in TOML: a boolean, a number, an ASCII string, or a list or table of
    these."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, dict):
        inside = ", ".join(f"{name} = {toml_value(one)}" for name, one in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    assert isinstance(value, list)
    return "[" + ", ".join(toml_value(one) for one in value) + "]"


def markdown(settings: Mapping[str, Field[Any]] = SETTINGS) -> str:
    """Return ``settings`` as a Markdown table, for docs/config.md."""
    lines = ["| setting | default | allowed | what it does |", "|---|---|---|---|"]
    for name, known in settings.items():
        kind: SettingKind = known.metadata["kind"]
        default = toml_value(kind.plain(known.default))
        kept = " Kept for the next run." if known.metadata["left"] else ""
        lines.append(f"| `{name}` | `{default}` | {kind.allowed} | {known.metadata['about']}{kept} |")
    return "\n".join(lines)


def _quoted(value: object) -> str:
    """Return ``value`` for use in a message: printable and not too long."""
    text = ascii(value) if not isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
