"""Makes the manual page and docs/commands.md from the described commands (``described``) and, for the manual
page, the help of the screen."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from stalltop.cli.manual.described import Argument, DescribedCommand
from stalltop.tui.keys.actions import groups
from stalltop.tui.keys.page_keys import PAGES
from stalltop.tui.pages.filter_help import TERMS

_WIDTH: Final = 100
"""Maximum width of the texts in docs/commands.md, in characters."""
_INDENT: Final = 24
"""Column at which the descriptions of arguments begin in docs/commands.md."""

FILES: Final = (
    ("~/.config/stalltop/config.toml", "Settings of the screen; stalltop config print shows all of them."),
    ("~/.local/state/stalltop/screen.toml", "The settings at the end of the last run."),
    ("~/.local/state/stalltop/", "Saved windows, recordings, and the baseline of the host."),
)
"""The files in the manual page: path and purpose of each."""
ENVIRONMENT: Final = (
    ("NO_COLOR", "If set, the screen uses no colours."),
    ("SUDO_UID, SUDO_GID", "The user who called sudo: files that stalltop makes belong to this user."),
    ("XDG_CONFIG_HOME", "Folder for settings, instead of ~/.config."),
    ("XDG_STATE_HOME", "Folder for saved files, instead of ~/.local/state."),
)
EXIT_STATUS: Final = (
    ("0", "Success."),
    ("1", "An error, which stderr describes, or a condition of --fail-if is met."),
    ("2", "Invalid usage."),
    ("3", "This host cannot be traced."),
    ("130", "Interrupted."),
)

# ---- docs/commands.md


def markdown(commands: Sequence[DescribedCommand]) -> str:
    """Return docs/commands.md. While a checkout has no virtual environment, its script ``./stalltop`` prints
    the code blocks of this file as help."""
    parts = [
        "# Commands\n\n"
        "Every command with its options, as `stalltop COMMAND --help` prints them. "
        "`python scripts/write_manual.py`\nwrites this file and the manual page, "
        "[stalltop.1](stalltop.1) (`man -l docs/stalltop.1`).\n"
        "`stalltop completion bash`, `zsh` or `fish` prints a script for completion; "
        "`stalltop completion --help` says where to put it.\n"
    ]
    for one in commands:
        text = _usage(one) + "\n\n" + _filled(_paragraphs(one.about if one.name else one.summary)) + "\n"
        if not one.name:
            text += "\n" + "".join(_row(sub.name, sub.summary) for sub in commands if sub.name)
            text += "\n" + _filled(_paragraphs(one.about)) + "\n"
        for title, arguments in _groups(one):
            text += f"\n{title}:\n" + "".join(
                _row(_named(argument), argument.about) for argument in arguments
            )
        parts.append(f"## {one.title}\n\n```text\n{text}```\n")
    return "\n".join(parts)


def _usage(command: DescribedCommand) -> str:
    if not command.name:
        return "usage: stalltop [COMMAND] [OPTIONS]"
    start = f"usage: {command.title} "
    pieces = [one.usage for one in (*command.options, *command.positional)]
    lines, line = [], start
    for piece in pieces:
        if len(line) + len(piece) > _WIDTH and line.strip():
            lines.append(line.rstrip())
            line = " " * len(start)
        line += piece + " "
    return "\n".join([*lines, line.rstrip()])


def _paragraphs(text: str) -> list[str]:
    return [" ".join(one.split()) for one in text.split("\n\n") if one.strip()]


def _filled(paragraphs: Sequence[str]) -> str:
    return "\n\n".join(textwrap.fill(one, _WIDTH, break_on_hyphens=False) for one in paragraphs)


def _row(name: str, about: str) -> str:
    lines = textwrap.wrap(about, _WIDTH - _INDENT, break_on_hyphens=False) or [""]
    start = f"  {name}".ljust(_INDENT)
    if len(start) > _INDENT or not start.endswith(" "):
        lines.insert(0, "")
    pad = " " * _INDENT
    return "\n".join([(start + lines[0]).rstrip(), *(pad + line for line in lines[1:])]) + "\n"


def _named(one: Argument) -> str:
    return ", ".join(one.flags) + one.valued if one.flags else one.value


def _groups(command: DescribedCommand) -> list[tuple[str, list[Argument]]]:
    found: dict[str, list[Argument]] = {}
    for one in command.arguments:
        found.setdefault(one.group or ("options" if one.flags else "arguments"), []).append(one)
    return list(found.items())


# ---- the manual page


def manual(commands: Sequence[DescribedCommand], version: str) -> str:
    """Return the manual page in the language of man(7). ``version`` is that of the program."""
    top, *named = commands
    lines = [
        '.\\" Written by scripts/write_manual.py',
        f'.TH STALLTOP 1 "" "stalltop {version}" "User Commands"',
        ".SH NAME",
        _escaped(f"stalltop - {top.summary[:1].lower()}{top.summary[1:].rstrip('.')}"),
        ".SH SYNOPSIS",
        ".B stalltop",
        "[\\fICOMMAND\\fR] [\\fIOPTIONS\\fR]",
        ".SH DESCRIPTION",
        *_roff_paragraphs(top.about),
        ".SH OPTIONS",
        *(line for one in top.options for line in _roff_argument(one)),
        ".SH COMMANDS",
    ]
    common: dict[str, dict[Argument, list[str]]] = {}
    for command in named:
        for one in command.options:
            if one.group:
                common.setdefault(one.group, {}).setdefault(one, []).append(command.name)
    for command in named:
        lines += _roff_command(command, common)
    lines.append(".SH OPTIONS OF SEVERAL COMMANDS")
    for group, options in common.items():
        shared = [one for one, names in options.items() if len(names) > 1]
        if shared:
            lines.append(f".SS {_escaped(_capital(group))}")
            for one in shared:
                lines += _roff_argument(one)
    lines.append(".SH KEYS")
    for heading, actions in groups().items():
        lines.append(f".SS {_escaped(heading)}")
        for action in actions:
            lines += _tagged(action.key, action.help)
    for page in PAGES:
        lines.append(f".SS {_escaped(page.heading)}")
        for keys, help_ in page.lines():
            lines += _tagged(keys, help_)
    for title, entries in (
        ("FILTERS", TERMS),
        ("FILES", FILES),
        ("ENVIRONMENT", ENVIRONMENT),
        ("EXIT STATUS", EXIT_STATUS),
    ):
        lines.append(f".SH {title}")
        for name, about in entries:
            lines += _tagged(name, about)
    lines += [".SH SEE ALSO", ".BR htop (1),", ".BR perf (1),", ".BR bpftrace (8)"]
    return "\n".join(lines) + "\n"


def _roff_command(command: DescribedCommand, common: dict[str, dict[Argument, list[str]]]) -> list[str]:
    lines = [f".SS {_escaped(command.title)}", *_roff_paragraphs(command.about)]
    also: dict[str, None] = {}
    for one in command.arguments:
        if one.flags == ("-h", "--help"):
            continue
        if one.group and len(common[one.group][one]) > 1:
            also.setdefault(one.group.partition(" (")[0])
        else:
            lines += _roff_argument(one)
    if also:
        lines += [".PP", _escaped(f"More, under OPTIONS OF SEVERAL COMMANDS: {' and '.join(also)}.")]
    return lines


def _roff_argument(one: Argument) -> list[str]:
    flags = ", ".join(f"\\fB{_escaped(flag)}\\fR" for flag in one.flags)
    value = f"\\fI{_escaped(one.value)}\\fR" if one.value else ""
    if one.flags and value:
        value = f" [{value}]" if one.optional else f" {value}"
    return [".TP", flags + value, _escaped(one.about)]


def _tagged(name: str, about: str) -> list[str]:
    return [".TP", f"\\fB{_escaped(name)}\\fR", _escaped(about)]


def _roff_paragraphs(text: str) -> list[str]:
    lines: list[str] = []
    for one in _paragraphs(text):
        lines += [".PP", _escaped(one)]
    return lines


_ROFF: Final = str.maketrans(
    {"\\": "\\e", "-": "\\-", "~": "\\(ti", "^": "\\(ha", "`": "\\(ga", "'": "\\(aq", '"': "\\(dq"}
)
"""Characters that groff would replace by typographic ones, or interpret as commands."""
_SIGNS: Final = str.maketrans({"µ": "\\(mc", "…": "...", "–": "\\(en", "×": "\\(mu", "Δ": "\\(*D"})


def _escaped(text: str) -> str:
    """Return ``text``, escaped so that groff prints it unchanged."""
    shown = text.translate(_ROFF).translate(_SIGNS)
    return f"\\&{shown}" if shown.startswith(".") else shown


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
