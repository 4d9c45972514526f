"""Describes the commands and their options as data, from the parsers of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

Word = tuple[str, str]
"""A word that completion offers, and its description; '' if the word needs none."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An option, or a positional argument."""

    flags: tuple[str, ...]
    """Names of the option, such as ``--window``; empty for a positional argument."""
    value: str
    """Name of the value in help, such as FILE; '' if the option takes no value."""
    about: str
    group: str
    """Title of the group of options; empty for a command's own arguments."""
    optional: bool = False
    """Whether the value may be left out; for a positional argument, whether the argument may be left out."""
    repeated: bool = False
    words: tuple[Word, ...] = ()
    """The values that completion offers."""
    path: bool = False
    """Whether the value is the path of a file or folder."""

    @property
    def usage(self) -> str:
        """Return the argument as a usage line shows it, such as ``[--window LENGTH]``."""
        if not self.flags:
            shown = f"{self.value}..." if self.repeated else self.value
            return f"[{shown}]" if self.optional else shown
        return f"[{self.flags[0]}{self.valued}]"

    @property
    def valued(self) -> str:
        """Return the value as usage shows it after the name of the option: with a leading blank; '' if there
        is no value."""
        return "" if not self.value else f" [{self.value}]" if self.optional else f" {self.value}"


@dataclass(frozen=True, slots=True)
class DescribedCommand:
    """A command of the program; if ``name`` is '', the program itself."""

    name: str
    summary: str
    about: str
    """Description of the command; blank lines separate its paragraphs."""
    arguments: tuple[Argument, ...] = field(default=())

    @property
    def title(self) -> str:
        """Return the command as the user types it, such as ``stalltop record``."""
        return f"stalltop {self.name}".rstrip()

    @property
    def options(self) -> tuple[Argument, ...]:
        """Return the arguments that have flags."""
        return tuple(one for one in self.arguments if one.flags)

    @property
    def positional(self) -> tuple[Argument, ...]:
        """Return the arguments without flags, in order."""
        return tuple(one for one in self.arguments if not one.flags)


def _scenarios() -> tuple[Word, ...]:
    from stalltop.demo.scenario import load_scenario, scenario_names

    return tuple((name, load_scenario(name).about) for name in scenario_names())


def _queries() -> tuple[Word, ...]:
    from stalltop.recordings.query import ready

    return tuple((name, one.about) for name, one in ready.queries().items())


def _themes() -> tuple[Word, ...]:
    from stalltop.tui.settings.palettes import THEME_NAMES
    from stalltop.tui.settings.settings import AUTO

    return tuple((name, "") for name in (AUTO, *THEME_NAMES))


def _lengths() -> tuple[Word, ...]:
    from stalltop.tui.settings.settings import LENGTHS, SINCE_START

    return tuple((SINCE_START if one is None else f"{one:g}", "") for one in LENGTHS)


def _dimensions() -> tuple[Word, ...]:
    from stalltop.model.rows.dimensions import COMPARED_BY

    return tuple((name, "") for name in COMPARED_BY)


def _columns() -> tuple[Word, ...]:
    from stalltop.model.comparing.condition import FIGURES

    return tuple((name, "") for name in FIGURES)


WORDS: Final[dict[str, Callable[[], tuple[Word, ...]]]] = {
    "SCENARIO": _scenarios,
    "--named": _queries,
    "--theme": _themes,
    "--window": _lengths,
    "--by": _dimensions,
    "--fail-if": _columns,
}
"""By flag of an option, or by name of a value in help: a function that returns the values that completion
offers."""
_PATHS: Final = ("FILE", "PATH", "A", "B")
"""Names in help of the values that are paths."""
_NO_GROUP: Final = ("positional arguments", "options")


def described(parser: argparse.ArgumentParser) -> tuple[DescribedCommand, ...]:
    """Return the program itself, then its commands, from the ``parser`` of the command line."""
    found = [DescribedCommand("", parser.description or "", parser.epilog or "", _arguments(parser))]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            about = {one.dest: one.help or "" for one in action._choices_actions}
            for name, sub in action.choices.items():
                found.append(DescribedCommand(name, about[name], sub.description or "", _arguments(sub)))
    return tuple(found)


def _arguments(parser: argparse.ArgumentParser) -> tuple[Argument, ...]:
    found = []
    for group in parser._action_groups:
        title = "" if group.title in _NO_GROUP else group.title or ""
        found += [
            _argument(action, title, parser.prog)
            for action in group._group_actions
            if not isinstance(action, argparse._SubParsersAction) and action.help != argparse.SUPPRESS
        ]
    return tuple(found)


def _argument(action: argparse.Action, group: str, program: str) -> Argument:
    takes = action.nargs != 0
    choices = tuple(str(one) for one in action.choices or ())
    value = ""
    if takes:
        value = str(action.metavar) if action.metavar else "|".join(choices) or action.dest.upper()
    words: tuple[Word, ...] = tuple((one, "") for one in choices)
    for name in (*action.option_strings, str(action.metavar)):
        if name in WORDS:
            words = WORDS[name]()
    return Argument(
        flags=tuple(action.option_strings),
        value=value,
        about=" ".join(((action.help or "") % {**vars(action), "prog": program}).split()),
        group=group,
        optional=action.nargs in ("?", "*"),
        repeated=action.nargs in ("*", "+"),
        words=words,
        path=value in _PATHS,
    )
