"""The user's config file, and the file with the settings at the end of the last run."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import Field
from pathlib import Path
from typing import Any

from stalltop.files.owner import home
from stalltop.files.places import state_directory
from stalltop.files.private_file import UnsuitableFileError, read_regular, replace_file
from stalltop.model.errors import UsageError
from stalltop.tui.settings.settings import LEFT, SETTINGS, SettingFault, read, toml

MOST_BYTES = 64 << 10
"""The largest size of a file that is read, in bytes."""
LEFT_HEADER = (
    "# The settings at the end of the last run, written by stalltop. "
    "Settings in config.toml override these.\n"
)


def config_path() -> Path:
    """Return ``$XDG_CONFIG_HOME/stalltop/config.toml``; under ``~/.config`` if that is unset or not
    absolute. If stalltop runs by sudo, ``~`` is the home directory of the user who called sudo."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    own = home()
    base = Path(given) if os.path.isabs(given) else Path(own if os.path.isabs(own) else "/") / ".config"
    return base / "stalltop" / "config.toml"


def left_path() -> Path:
    """Return the path of the file with the settings at the end of the last run."""
    return state_directory() / "screen.toml"


def parsed(
    content: bytes, settings: Mapping[str, Field[Any]] = SETTINGS
) -> tuple[dict[str, Any], list[SettingFault]]:
    """Return the settings in a file, and its faults, with their lines as far as known. ``settings`` are the
    settings that the file may have."""
    try:
        text = content.decode("utf-8")
        table = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return {}, [SettingFault("not UTF-8 text", line=line)]
    except tomllib.TOMLDecodeError as error:
        reason, at = _told(str(error), text)
        return {}, [SettingFault(f"not valid TOML: {reason}", line=at)]
    except RecursionError:
        return {}, [SettingFault("not valid TOML: nested too deeply")]
    values, faults = read(table, settings)
    return values, [SettingFault(fault.text, fault.name, _line(fault.name, text)) for fault in faults]


def faults_of(path: Path) -> list[SettingFault]:
    """Return the faults of the file. Raises UsageError if it does not exist or cannot be read."""
    content = _content(path)
    if content is None:
        raise UsageError(f"{path} does not exist", "`stalltop config print` shows all settings")
    return parsed(content)[1]


def load(
    path: Path,
    settings: Mapping[str, Field[Any]] = SETTINGS,
    remedy: str = "correct it, or ignore it with --no-config",
) -> dict[str, Any]:
    """Return the settings in the file; empty if there is no file. Raises UsageError with all faults, and with
    ``remedy``."""
    content = _content(path, remedy)
    if content is None:
        return {}
    values, faults = parsed(content, settings)
    if faults:
        told = "\n  ".join(map(str, faults))
        raise UsageError(f"{path}:\n  {told}", remedy)
    return values


def _content(path: Path, remedy: str = "ignore it with --no-config") -> bytes | None:
    try:
        # a link is allowed: users keep all their settings in one place
        return read_regular(path, MOST_BYTES, follow=True)
    except (UnsuitableFileError, OSError) as error:
        reason = str(error) if isinstance(error, UnsuitableFileError) else error.strerror or str(error)
        raise UsageError(f"cannot read {path}: {reason}", remedy) from None


def load_left(path: Path) -> tuple[dict[str, Any], str]:
    """Return the settings at the end of the last run, and a message if the file has a fault and is not
    used."""
    try:
        content = read_regular(path, MOST_BYTES)
    except (UnsuitableFileError, OSError) as error:
        reason = str(error) if isinstance(error, UnsuitableFileError) else error.strerror or str(error)
        return {}, f"the settings of the last run are not used: cannot read {path}: {reason}"
    if content is None:
        return {}, ""
    values, faults = parsed(content)
    # A later version may have written settings that this one does not know.
    faults = [fault for fault in faults if not fault.name or fault.name in SETTINGS]
    if faults:
        return {}, f"the settings of the last run are not used: {path}, {faults[0]}"
    return {name: value for name, value in values.items() if name in LEFT}, ""


def save_left(path: Path, values: Mapping[str, Any]) -> None:
    """Write the settings at the end of a run. Raises OSError."""
    replace_file(path, (LEFT_HEADER + toml(values)).encode("utf-8"))


def _told(error: str, text: str) -> tuple[str, int | None]:
    """Return the message of the TOML parser, and the line that it named."""
    found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", error)
    if not found:
        return error, None
    return error[: found.start()], int(found[1]) if found[1] else text.count("\n") + 1


def _line(name: str, text: str) -> int | None:
    """Return the line that assigns ``name``; None if not found. The TOML parser reports
    lines only for text that is not valid TOML."""
    quoted = f"(?:{re.escape(name)}|\"{re.escape(name)}\"|'{re.escape(name)}')"
    pattern = re.compile(rf"\s*{quoted}\s*=|\s*\[+\s*{quoted}\s*[\].]")
    return next((at for at, line in enumerate(text.splitlines(), 1) if pattern.match(line)), None)
