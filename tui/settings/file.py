"""The user's config file, and the file that keeps how the screen was left."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stalltop.files.places import state_directory
from stalltop.files.private_file import UnsuitableFileError, read_regular, replace_file
from stalltop.model.errors import UsageError
from stalltop.tui.settings.settings import LEFT, SETTINGS, SettingFault, read, toml

MOST_BYTES = 64 << 10
"""Largest file that is read."""
LEFT_HEADER = (
    "# How the screen was left; written by stalltop. What config.toml sets is set so at every start.\n"
)


def config_path() -> Path:
    """``$XDG_CONFIG_HOME/stalltop/config.toml``, in ``~/.config`` where that is unset or not absolute."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    home = os.path.expanduser("~")
    base = Path(given) if os.path.isabs(given) else Path(home if os.path.isabs(home) else "/") / ".config"
    return base / "stalltop" / "config.toml"


def left_path() -> Path:
    """Where it is kept how the screen was left."""
    return state_directory() / "screen.toml"


def parsed(content: bytes) -> tuple[dict[str, Any], list[SettingFault]]:
    """The settings in a file, and what is wrong with it, each with its line where that is known."""
    try:
        text = content.decode("utf-8")
        table = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return {}, [SettingFault("it is no UTF-8 text", line=line)]
    except tomllib.TOMLDecodeError as error:
        reason, at = _told(str(error), text)
        return {}, [SettingFault(f"it is no TOML: {reason}", line=at)]
    except RecursionError:
        return {}, [SettingFault("it is no TOML: nested too deep")]
    values, faults = read(table)
    return values, [SettingFault(fault.text, fault.name, _line(fault.name, text)) for fault in faults]


def faults_of(path: Path) -> list[SettingFault]:
    """What is wrong with the file. Raises UsageError where it cannot be read, or is not there."""
    content = _content(path)
    if content is None:
        raise UsageError(f"{path}: there is no such file", "stalltop config print shows what it may hold")
    return parsed(content)[1]


def load(path: Path) -> dict[str, Any]:
    """The settings that the file names; none where there is no file. Raises UsageError with all its
    faults."""
    content = _content(path)
    if content is None:
        return {}
    values, faults = parsed(content)
    if faults:
        told = "\n  ".join(map(str, faults))
        raise UsageError(f"{path}:\n  {told}", "mend it, or start with --no-config, which leaves it aside")
    return values


def _content(path: Path) -> bytes | None:
    try:
        return read_regular(path, MOST_BYTES, follow=True)  # it may be a link to where all settings are kept
    except (UnsuitableFileError, OSError) as error:
        reason = str(error) if isinstance(error, UnsuitableFileError) else error.strerror or str(error)
        raise UsageError(
            f"{path} cannot be read: {reason}", "start with --no-config, which leaves it aside"
        ) from None


def load_left(path: Path) -> tuple[dict[str, Any], str]:
    """How the screen was left, and a line on what is wrong with the file, which is then not used."""
    try:
        content = read_regular(path, MOST_BYTES)
    except (UnsuitableFileError, OSError) as error:
        reason = str(error) if isinstance(error, UnsuitableFileError) else error.strerror or str(error)
        return {}, f"how the screen was left is not known: {path} cannot be read: {reason}"
    if content is None:
        return {}, ""
    values, faults = parsed(content)
    faults = [
        fault for fault in faults if not fault.name or fault.name in SETTINGS
    ]  # a later one may know more
    if faults:
        return {}, f"how the screen was left is not known: {path}, {faults[0]}"
    return {name: value for name, value in values.items() if name in LEFT}, ""


def save_left(path: Path, values: Mapping[str, Any]) -> None:
    """Keep how the screen was left. Raises OSError where that fails."""
    replace_file(path, (LEFT_HEADER + toml(values)).encode("utf-8"))


def _told(error: str, text: str) -> tuple[str, int | None]:
    """What the parser of TOML said, and the line it named."""
    found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", error)
    if not found:
        return error, None
    return error[: found.start()], int(found[1]) if found[1] else text.count("\n") + 1


def _line(name: str, text: str) -> int | None:
    """The line in which ``name`` gets a value: the parser does not tell. None where it is not found."""
    quoted = f"(?:{re.escape(name)}|\"{re.escape(name)}\"|'{re.escape(name)}')"
    pattern = re.compile(rf"\s*{quoted}\s*=|\s*\[+\s*{quoted}\s*[\].]")
    return next((at for at, line in enumerate(text.splitlines(), 1) if pattern.match(line)), None)
