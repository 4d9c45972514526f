"""The file with what receivers were told, so that a restart repeats nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from stalltop.files.private_file import UnsuitableFileError, read_regular, replace_file
from stalltop.model.chain import SEVERITIES
from stalltop.serving.notify.ledger import ToldAlert

_MOST_BYTES: Final = 8 << 20
_KINDS: Final = {"severity": str, "lost_ms_per_s": float, "since": float, "at": float, "sentence": str}


class ToldFile:
    """What was delivered, by receiver and alert. Any thread may use it."""

    def __init__(self, path: Path | None, tell: Callable[[str], object]) -> None:
        """``path``: None: nothing is kept. ``tell`` is called with a line if the file cannot be read or
        written; then messages may be repeated after a restart."""
        self._path = path
        self._tell = tell
        self._lock = threading.Lock()
        self._complained = False
        self._told = self._read()

    def told(self, receiver: str) -> Mapping[str, ToldAlert]:
        """Returns what ``receiver`` was told."""
        return self._told.get(receiver, {})

    def save(self, receiver: str, told: Mapping[str, ToldAlert]) -> None:
        """Writes what ``receiver`` was told."""
        with self._lock:
            self._told = {**self._told, receiver: dict(told)}
            if self._path is None:
                return
            plain = {
                name: {key: asdict(one) for key, one in alerts.items()} for name, alerts in self._told.items()
            }
            try:
                replace_file(self._path, json.dumps(plain, indent=1).encode())
            except OSError as error:
                self._complain(f"cannot write {self._path}: {error.strerror or error}")

    def _read(self) -> dict[str, dict[str, ToldAlert]]:
        if self._path is None:
            return {}
        try:
            content = read_regular(self._path, _MOST_BYTES)
            plain = {} if content is None else json.loads(content)
            return {
                str(name): {str(key): _alert(one) for key, one in alerts.items()}
                for name, alerts in plain.items()
            }
        except (OSError, UnsuitableFileError, ValueError, AttributeError, TypeError, RecursionError) as error:
            self._complain(f"cannot read {self._path}: {error}")
            return {}

    def _complain(self, what: str) -> None:
        if not self._complained:
            self._complained = True
            self._tell(f"{what}; after a restart, messages may be repeated")


def _alert(plain: Any) -> ToldAlert:
    """Returns an entry of the file. Raises ValueError or TypeError if it is none."""
    if plain.keys() != _KINDS.keys() or plain["severity"] not in SEVERITIES:
        raise ValueError("it has an invalid entry")
    return ToldAlert(**{name: kind(plain[name]) for name, kind in _KINDS.items()})
