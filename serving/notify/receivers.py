"""The receivers of alerts: a webhook, Alertmanager, Slack and what understands its messages, and a
command."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from stalltop.serving.notify.wording import WordedMessage, culprit, joined, victims
from stalltop.serving.web_post import DeliveryError, post

COMMAND_SECONDS: Final = 30.0
"""Longest time that a command may run."""
REFRESH_SECONDS: Final = 60.0
"""How often Alertmanager gets an open alert again, as from Prometheus. It takes an alert as over after
``_EXPIRES_SECONDS`` without one: if stalltop ends, its alerts end."""
_EXPIRES_SECONDS: Final = 4 * REFRESH_SECONDS
_PLAIN: Final = str.maketrans("*`", "∗'")
"""Replaces what would end the bold title, or begin code in it."""
_MOST_CHARACTERS: Final = 3000
"""Slack shows the first 4,000 characters of a text, and escaping makes it longer."""


class Receiver(Protocol):
    """Takes messages. Used by one thread at a time."""

    @property
    def name(self) -> str:
        """The name of its setting."""

    @property
    def refresh_seconds(self) -> float | None:
        """After how many seconds it must be told again that a problem is open; None: never."""

    def deliver(self, message: WordedMessage) -> None:
        """Delivers ``message``. Raises DeliveryError."""


class Webhook:
    """Gets the JSON object of each alert by POST."""

    name = "webhook"
    refresh_seconds: float | None = None

    def __init__(self, url: str) -> None:
        self._url = url

    def deliver(self, message: WordedMessage) -> None:
        """Posts the JSON object."""
        _post(self._url, message.document())


class SlackWebhook:
    """Gets ``{"text": …}`` by POST: an incoming webhook of Slack, Mattermost and others."""

    name = "slack"
    refresh_seconds: float | None = None

    def __init__(self, url: str) -> None:
        self._url = url

    def deliver(self, message: WordedMessage) -> None:
        """Posts the text. Names in it can make neither links nor mentions."""
        title, *rest = message.lines()
        body = joined(rest, _MOST_CHARACTERS).strip("\n").replace("```", "'''")
        bold = escaped(title).translate(_PLAIN)
        text = f"*{bold}*" + (f"\n```\n{escaped(body)}\n```" if body else "")
        _post(self._url, {"text": text})


def escaped(text: str) -> str:
    """Returns ``text`` with &, < and > escaped, so that nothing in it is a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Alertmanager:
    """Gets alerts through version 2 of its API. Groups, silences and routes them itself."""

    name = "alertmanager"
    refresh_seconds: float | None = REFRESH_SECONDS

    def __init__(self, url: str) -> None:
        """``url``: where Alertmanager is, such as ``http://127.0.0.1:9093``."""
        self._url = url.rstrip("/") + "/api/v2/alerts"
        self._labels: dict[str, dict[str, str]] = {}
        """The labels with which each open alert was sent: Alertmanager knows alerts by them."""

    def deliver(self, message: WordedMessage) -> None:
        """Posts the alert. If its labels have changed, also posts that the alert with the old ones is
        over."""
        key = message.message.id
        labels = self._labels_of(message)
        before = self._labels.get(key)
        sent = []
        if before is not None and before != labels:
            sent.append({"labels": before, "endsAt": _time(0.0)})
        sent.append(self._alert(message, labels))
        _post(self._url, sent)
        if message.message.alert is None:
            self._labels.pop(key, None)
        else:
            self._labels[key] = labels

    def _labels_of(self, message: WordedMessage) -> dict[str, str]:
        alert, told = message.message.alert, message.message.told
        cause = message.message.id.partition("/")[0]
        severity = alert.severity if alert is not None else told.severity if told is not None else ""
        return {
            "alertname": "Stalltop" + "".join(part.capitalize() for part in cause.split("_")),
            "cause": cause,
            "severity": severity,
            "instance": message.host,
            # Distinguishes the alerts of one cause: the culprit, or the victim if there is none.
            "subject": message.message.id.partition("/")[2] or message.host,
            **({"test": "true"} if message.test else {}),
        }

    def _alert(self, message: WordedMessage, labels: dict[str, str]) -> dict[str, Any]:
        alert, told = message.message.alert, message.message.told
        since = alert.since if alert is not None else told.since if told is not None else 0.0
        annotations = {"summary": message.title}
        if alert is not None:
            annotations |= {
                "description": message.text,
                "victims": ", ".join(victims(alert)),
                "culprit": culprit(alert),
                "fix": message.fix,
                "look": message.look,
                "runbook": f"docs/runbook.md#{labels['cause']}" if labels["cause"] else "",
            }
        return {
            "labels": labels,
            "annotations": {name: text for name, text in annotations.items() if text},
            "startsAt": datetime.fromtimestamp(since, UTC).isoformat(),
            "endsAt": _time(0.0 if alert is None else _EXPIRES_SECONDS),
        }


def _time(seconds: float) -> str:
    """Returns the time in ``seconds`` from now, as RFC 3339."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


class CommandReceiver:
    """Runs a command for each alert, with the JSON object on its stdin. No shell reads the command."""

    name = "command"
    refresh_seconds: float | None = None

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)

    def deliver(self, message: WordedMessage) -> None:
        """Runs the command, which must end with 0."""
        try:
            done = subprocess.run(
                self._command,
                input=json.dumps(message.document()).encode(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=COMMAND_SECONDS,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DeliveryError(f"{self._command[0]} did not end within {COMMAND_SECONDS:g} s") from None
        except OSError as error:
            raise DeliveryError(f"cannot run {self._command[0]}: {error.strerror or error}") from error
        if done.returncode:
            raise DeliveryError(f"{self._command[0]} ended with {done.returncode}")


def _post(url: str, content: Any) -> None:
    """Posts ``content`` as JSON. Raises DeliveryError unless the answer is a success."""
    post(url, json.dumps(content).encode(), "application/json")
