"""Alerts in words and as JSON: who, why, whose fault, how sure, what to do, and how to look."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stalltop.formats.documents.window import chain_document
from stalltop.formats.text.answer import sentence_of
from stalltop.formats.text.chains import explained, name_of
from stalltop.model.telling import Tellings
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE
from stalltop.model.text.style import Style
from stalltop.serving.notify.alerts import ProblemAlert
from stalltop.serving.notify.ledger import Change, DueMessage

SCHEMA: Final = "stalltop.alert/1"
"""Name and version of the JSON object for webhooks and commands."""
_STYLE: Final = Style(100, colour=False, glyphs=UNICODE)
_SAID: Final[dict[Change, str]] = {
    "opened": "",
    "worse": "worse: ",
    "still": "",
    "closed": "ended: ",
}
"""What stands before the sentence."""


@dataclass(frozen=True, slots=True)
class WordedMessage:
    """A message in words."""

    message: DueMessage
    host: str
    sentence: str
    """The problem in one sentence, without a word about the change."""
    text: str
    """The problem in full, as `stalltop explain` prints it; '' if it is over."""
    fix: str = ""
    """The command against it; '' if there is none."""
    look: str = ""
    """The command that shows the moment; '' if the problem is over."""
    test: bool = False

    @property
    def title(self) -> str:
        """The sentence with host, severity and change."""
        alert, told = self.message.alert, self.message.told
        severity = alert.severity if alert is not None else told.severity if told is not None else ""
        mark = f"[{severity.upper()}] " if self.message.change != "closed" else ""
        test = "TEST: " if self.test else ""
        return f"{test}{mark}{self.host}: {_SAID[self.message.change]}{self.sentence}"

    def lines(self) -> list[str]:
        """Returns the whole message for a person."""
        lines = [self.title]
        if self.text:
            lines += ["", *self.text.splitlines()]
        if self.look:
            lines += ["", f"Look: {self.look}"]
        if self.message.waiting:
            lines += [
                "",
                f"{self.message.waiting} more problems are open; too many messages were sent already.",
            ]
        return lines

    def document(self) -> dict[str, Any]:
        """Returns the JSON object for webhooks and commands."""
        alert, told = self.message.alert, self.message.told
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "change": self.message.change,
            "test": self.test,
            "host": self.host,
            "id": self.message.id,
            "title": self.title,
            "sentence": self.sentence,
            "text": "\n".join(self.lines()),
        }
        if alert is None:
            assert told is not None
            return {**document, "severity": told.severity, "since": told.since}
        worst = alert.worst
        return {
            **document,
            "severity": alert.severity,
            "since": alert.since,
            "cause": worst.cause,
            "confidence": worst.confidence,
            "lost_ms_per_s": alert.lost_ms_per_s,
            "victims": victims(alert),
            "culprit": culprit(alert),
            "fix": self.fix,
            "look": self.look,
            "chains": [chain_document(chain) for chain in alert.chains],
        }


def worded(message: DueMessage, host: str, tellings: Tellings, recording: Path | None) -> WordedMessage:
    """Returns ``message`` in words. ``recording``: the recording of this host; None if there is none."""
    alert = message.alert
    if alert is None:
        assert message.told is not None
        return WordedMessage(message, host, message.told.sentence, "")
    said = sentence_of(alert.worst, alert.window, tellings)
    sentence = "".join(text for text, _ in said.parts())
    lines = explained(alert.worst, alert.window, _STYLE)
    others = victims(alert)[1:]
    if others:
        lines += _STYLE.folded("  also: ", ", ".join(others))
    return WordedMessage(
        message,
        host,
        sentence,
        "\n".join(lines),
        said.command,
        look(alert, recording),
        alert.window.simulated,
    )


def look(alert: ProblemAlert, recording: Path | None) -> str:
    """Returns the command that shows the problem: the screen of this moment in the recording, or the live
    one."""
    if recording is None:
        return "stalltop"
    return f"stalltop open {shlex.quote(str(recording))} --at '{figures.moment(alert.window.end)[:19]}'"


def victims(alert: ProblemAlert) -> list[str]:
    """Returns the names of all who lose time."""
    return [name_of(tenant, alert.window) for tenant in alert.victims]


def culprit(alert: ProblemAlert) -> str:
    """Returns the name of the culprit: a tenant, else a process, else a device; '' if none is known."""
    first = next(iter(alert.worst.culprits), None)
    if first is None or first.of_others:
        return ""
    return name_of(first.tenant, alert.window) if first.tenant else first.process or first.device


def joined(lines: Sequence[str], most: int) -> str:
    """Returns ``lines`` as one text of at most ``most`` characters."""
    text = "\n".join(lines)
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
