"""Every setting of the screen: its type, default, allowed values and what it means.

The config file, its checks, the file of what keys chose, and docs/config.md come from this one table.
Textual is not loaded here: the command line needs these names before any screen.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from types import MappingProxyType
from typing import Any, Protocol

THEMES = ("dark", "light", "contrast", "colour-blind", "terminal", "mono")
"""The names in ``settings.theme``, repeated here because importing that takes long."""
AUTO = "auto"
"""The theme that suits the terminal."""
LENGTHS: tuple[float | None, ...] = (1.0, 10.0, 60.0, 300.0, None)
"""Lengths of the window that can be chosen, seconds; None: since the start."""
SINCE_START = "start"
PANELS = ("host", "devices", "warnings", "table", "second", "keys")
"""Parts of the main screen from top to bottom, in the order of the keys 1 to 6."""
NEEDED = ("table", "warnings")
"""Of these, one has to be shown; without the first table there is no second one."""
TABLES_BY = ("container", "namespace", "pod", "process", "operation", "layer", "device", "host")
"""What the rows of a table are."""
# fmt: off
COLUMNS = (
    "beside", "calls", "p50", "p95", "p99", "max", "total", "share", "bar", "split", "open", "errors",
    "bytes", "n", "trend", "change", "normal", "procs", "device",
)
"""Columns that a table may have beside the name."""
SORTS = (
    "name", "calls", "p50", "p95", "p99", "max", "total", "open", "errors", "bytes", "change", "normal",
    "procs", "device",
)
"""Columns that rows can be sorted by. These three are named here for the same reason as the themes."""
# fmt: on
LEAST_INTERVAL, MOST_INTERVAL = 0.25, 60.0
"""Seconds between two looks."""
LEAST_SHARE, MOST_SHARE = 20, 80
"""Part of the room that the first of two tables gets, percent."""


class SettingKind(Protocol):
    """What values a setting may have."""

    @property
    def allowed(self) -> str:
        """For a person, after "allowed: "."""

    def read(self, value: object) -> Any:
        """The value as the program uses it. Raises ValueError where it is not allowed."""

    def plain(self, value: Any) -> object:
        """The value as it stands in the file."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number within bounds, both included; ``whole``: without a fraction."""

    least: float
    most: float
    whole: bool = False

    @property
    def allowed(self) -> str:
        """The bounds."""
        return f"{'a whole' if self.whole else 'a'} number from {self.least:g} to {self.most:g}"

    def read(self, value: object) -> float:
        """The number."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError
        if not self.least <= value <= self.most or (self.whole and value != int(value)):
            raise ValueError
        return int(value) if self.whole else float(value)

    def plain(self, value: float) -> object:
        """The number."""
        return value


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some words."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """The words."""
        return ", ".join(f'"{word}"' for word in self.words)

    def read(self, value: object) -> str:
        """The word."""
        if not isinstance(value, str) or value not in self.words:
            raise ValueError
        return value

    def plain(self, value: str) -> object:
        """The word."""
        return value


class YesNo:
    """True or false."""

    allowed = "true, false"

    def read(self, value: object) -> bool:
        """The value."""
        if not isinstance(value, bool):
            raise ValueError
        return value

    def plain(self, value: bool) -> object:
        """The value."""
        return value


class Length:
    """A length of the window."""

    allowed = ", ".join(f'"{SINCE_START}"' if one is None else f"{one:g}" for one in LENGTHS)

    def read(self, value: object) -> float | None:
        """Seconds, or None since the start."""
        if value == SINCE_START:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value not in LENGTHS:
            raise ValueError
        return float(value)

    def plain(self, value: float | None) -> object:
        """Seconds, or a word."""
        return SINCE_START if value is None else int(value)


@dataclass(frozen=True, slots=True)
class SeveralOf:
    """A list of different words; of ``needed`` at least one."""

    words: tuple[str, ...]
    needed: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """The words."""
        text = "a list of " + ", ".join(f'"{word}"' for word in self.words)
        return text + (f"; {' or '.join(self.needed)} among them" if self.needed else "")

    def read(self, value: object) -> tuple[str, ...]:
        """The words."""
        if not isinstance(value, list | tuple) or len(set(map(str, value))) != len(value):
            raise ValueError
        if any(not isinstance(word, str) or word not in self.words for word in value):
            raise ValueError
        if self.needed and not set(self.needed) & set(value):
            raise ValueError
        return tuple(value)

    def plain(self, value: Sequence[str]) -> object:
        """The words."""
        return list(value)


Chosen = tuple[tuple[str, tuple[str, ...]], ...]
"""For tables by something, the columns that were chosen."""


KeysChosen = tuple[tuple[str, tuple[str, ...]], ...]
"""Ids of actions, each with its keys."""


class Columns:
    """Columns of tables, each by what its rows are."""

    allowed = f"for any of {', '.join(TABLES_BY)} a list of some of {', '.join(COLUMNS)}"

    def read(self, value: object) -> Chosen:
        """The columns of each table."""
        if not isinstance(value, dict) or not set(value) <= set(TABLES_BY):
            raise ValueError
        names = SeveralOf(COLUMNS, COLUMNS)
        return tuple((by, names.read(value[by])) for by in TABLES_BY if by in value)

    def plain(self, value: Chosen) -> object:
        """The columns of each table."""
        return {by: list(ids) for by, ids in value}


class Keys:
    """Other keys for some actions."""

    allowed = "for any action of docs/keys.md a key or a list of keys"

    def read(self, value: object) -> KeysChosen:
        """The actions by id, each with its keys."""
        if value == {}:
            return ()
        from stalltop.tui.settings.key_choice import keys_chosen

        return keys_chosen(value)

    def plain(self, value: KeysChosen) -> object:
        """The keys of each action."""
        return {name: list(keys) for name, keys in value}


def _setting(default: Any, kind: SettingKind, about: str, *, left: bool = False) -> Any:
    """A field of ``Settings``; ``left``: keys change it, and it is kept on leaving."""
    return field(default=default, metadata={"kind": kind, "about": about, "left": left})


@dataclass(frozen=True, slots=True)
class Settings:
    """How the screen is set."""

    interval: float = _setting(
        1.0, Number(LEAST_INTERVAL, MOST_INTERVAL), "Seconds between two looks at the counters."
    )
    window: float | None = _setting(
        10.0,
        Length(),
        'Seconds that the figures stand for; "start": since stalltop started.',
        left=True,
    )
    theme: str = _setting(
        AUTO,
        OneOf((AUTO, *THEMES)),
        'Colours; "auto": dark, or the terminal\'s own where it has no more than 16.',
        left=True,
    )
    ascii: bool = _setting(False, YesNo(), "Draw with ASCII only, also where the locale is UTF-8.")
    mouse: bool = _setting(
        True, YesNo(), "Let the mouse click and scroll; false leaves it to the terminal, to select text."
    )
    low_bandwidth: bool = _setting(
        False, YesNo(), "Draw less, for slow lines: every 3 seconds, without bars, in 16 colours."
    )
    panels: tuple[str, ...] = _setting(
        PANELS,
        SeveralOf(PANELS, NEEDED),
        "Parts of the screen that are shown where there is room for them.",
        left=True,
    )
    share: int = _setting(
        50,
        Number(LEAST_SHARE, MOST_SHARE, whole=True),
        "Part of the room that the first of two tables may take, percent.",
        left=True,
    )
    sort: str = _setting(
        "total",
        OneOf(SORTS),
        "Column that the rows are sorted by.",
        left=True,
    )
    descending: bool = _setting(True, YesNo(), "Largest first; false: smallest first.", left=True)
    columns: tuple[tuple[str, tuple[str, ...]], ...] = _setting(
        (),
        Columns(),
        "Columns of a table beside the name, in their order; the usual ones where it is not named.",
        left=True,
    )
    tour: bool = _setting(
        True, YesNo(), "Name the first few keys at the start; false once that was shown.", left=True
    )
    keys: tuple[tuple[str, tuple[str, ...]], ...] = _setting(
        (), Keys(), "Other keys for actions, in place of the usual ones."
    )


SETTINGS: Mapping[str, Field[Any]] = MappingProxyType({one.name: one for one in fields(Settings)})
"""All settings by name, in the order of the documentation."""
LEFT = tuple(name for name, one in SETTINGS.items() if one.metadata["left"])
"""What keys change, and what is kept of it on leaving."""


@dataclass(frozen=True, slots=True)
class SettingFault:
    """What is wrong in a file of settings."""

    text: str
    name: str = ""
    """The setting; empty where it is about the whole file."""
    line: int | None = None
    """Line of the file, from 1, where it is known."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


def read(table: Mapping[str, object]) -> tuple[dict[str, Any], list[SettingFault]]:
    """The settings that ``table`` (a parsed file) names, and what is wrong with it."""
    values: dict[str, Any] = {}
    faults = []
    for name, value in table.items():
        known = SETTINGS.get(name)
        if known is None:
            near = difflib.get_close_matches(name, SETTINGS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(SETTINGS)}"
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
    """``values`` of settings as a file; ``about``: with what each means before it."""
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
    """A value of our settings in TOML: a truth, a number, a word of ASCII, or some of them."""
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


def markdown() -> str:
    """All settings as a Markdown table, for docs/config.md."""
    lines = ["| setting | default | allowed | what it does |", "|---|---|---|---|"]
    for name, known in SETTINGS.items():
        kind: SettingKind = known.metadata["kind"]
        default = toml_value(kind.plain(known.default))
        kept = " Kept on leaving." if known.metadata["left"] else ""
        lines.append(f"| `{name}` | `{default}` | {kind.allowed} | {known.metadata['about']}{kept} |")
    return "\n".join(lines)


def _quoted(value: object) -> str:
    """``value`` as it may stand in a message: printable, and not too long."""
    text = ascii(value) if not isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
