"""Tell webhooks, Alertmanager, Slack or a command about problems of this host: when they begin, get worse,
and end (docs/alerts.md).

The table [notify] in /etc/stalltop/config.toml says who is told. Takes the windows of the tracer of this
host, or traces by itself if there is none. Runs until a signal ends it, with exit code 0.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stalltop.cli.host import PAST_BYTES, HostWindows, host_settings
from stalltop.cli.tracing import add_state_options, add_tracing_options, diagnosed, say
from stalltop.model.errors import StalltopError, UsageError

if TYPE_CHECKING:
    from stalltop.serving.notify.receivers import Receiver
    from stalltop.tui.settings.notify import NotifySettings

STOP_SECONDS: Final = 5.0
"""Longest wait at exit for messages that are being delivered."""
TOLD: Final = "notified.json"
"""Name of the file in the state directory that lists the problems that receivers were told about."""
_MOST_BYTES: Final = 4096


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument(
        "--test",
        action="store_true",
        help="send a sample alert, marked as a test, to everyone in the settings, and exit: with 0 if all "
        "took it",
    )
    parser.add_argument(
        "--simulated",
        action="store_true",
        help="tell about problems of simulated tenants instead of this host",
    )
    add_tracing_options(parser)
    add_state_options(parser)


def run(options: argparse.Namespace) -> int:
    """Tells about problems until a signal ends it, and returns 0; with ``--test`` 1 if a receiver did not
    take the sample. Raises UsageError if the settings name nobody, and TracingError if this host cannot be
    traced."""
    from stalltop.tui.settings.host import HOST_CONFIG

    settings = host_settings().notify
    receivers = receivers_of(settings)
    if not receivers:
        raise UsageError(
            f"{HOST_CONFIG} names nobody who is to be told about problems",
            "add a table [notify] with webhook, slack, alertmanager or command (docs/alerts.md)",
        )
    if options.test:
        return tested(receivers, settings)
    from stalltop.cli.ending import read_until, requests
    from stalltop.cli.tellings import tellings
    from stalltop.demo.simulated.windows import SimulatedSource
    from stalltop.files.places import state_directory
    from stalltop.model.merge.history import History
    from stalltop.serving.notify.ledger import Ledger
    from stalltop.serving.notify.notifier import Notifier
    from stalltop.serving.notify.told_file import ToldFile

    told = ToldFile(state_directory() / TOLD if options.state else None, say)
    ledgers = [
        (
            one,
            Ledger(
                told.told(one.name),
                severity=settings.severity,
                seconds=settings.seconds,
                refresh_seconds=one.refresh_seconds,
            ),
        )
        for one in receivers
    ]
    notifier = Notifier(ledgers, told, tellings(), settings.recording, say)
    host = None if options.simulated else HostWindows(options, keeps=History(PAST_BYTES), patient=True)
    source = diagnosed(SimulatedSource()) if host is None else host.source()
    try:
        if host is not None and host.cannot_trace is not None:
            raise host.cannot_trace
        if host is not None and host.link is not None:
            say(f"windows of the tracer of this host: {host.link.tracer.text}")
        with requests(bool if host is None else host.leave) as ended:
            say(f"telling {', '.join(one.name for one in receivers)}; press Ctrl-C to stop")
            notifier.start()
            try:
                read_until(source, notifier.take, ended)
            finally:
                notifier.stop(STOP_SECONDS)
    finally:
        source.close()
    return 0


def receivers_of(settings: NotifySettings) -> list[Receiver]:
    """Returns the receivers in the settings. Raises UsageError if a file with a URL cannot be used."""
    from stalltop.serving.notify.receivers import Alertmanager, CommandReceiver, SlackWebhook, Webhook

    found: list[Receiver] = []
    if settings.webhook:
        found.append(Webhook(_url("webhook", settings.webhook)))
    if settings.slack:
        found.append(SlackWebhook(_url("slack", settings.slack)))
    if settings.alertmanager:
        found.append(Alertmanager(_url("alertmanager", settings.alertmanager)))
    if settings.command:
        found.append(CommandReceiver(settings.command))
    return found


def _url(name: str, value: str) -> str:
    """Returns the URL in a setting, or in the file that it names."""
    from stalltop.files.private_file import UnsuitableFileError, read_regular
    from stalltop.tui.settings.host_kinds import is_web_address

    if not os.path.isabs(value):
        return value
    try:
        content = read_regular(Path(value), _MOST_BYTES, follow=True)
    except (OSError, UnsuitableFileError) as error:
        raise UsageError(
            f"{name}: cannot read {value}: {getattr(error, 'strerror', None) or error}"
        ) from None
    url = (content or b"").decode("utf-8", "replace").strip()
    if not is_web_address(url):
        raise UsageError(f"{name}: {value} {'is missing' if content is None else 'contains no URL'}")
    return url


def tested(receivers: list[Receiver], settings: NotifySettings) -> int:
    """Sends a sample to all ``receivers``, says what each answered, and returns 0 if all took it, else 1."""
    from stalltop.cli.tellings import tellings
    from stalltop.serving.notify.sample import sample_window, sampled

    failed = 0
    said = sampled(sample_window(time.time()), tellings(), settings.recording)
    for receiver in receivers:
        try:
            for message in said:
                receiver.deliver(message)
        except StalltopError as error:
            failed = 1
            say(f"{receiver.name}: {error}")
        else:
            say(f"{receiver.name}: took the sample")
    return failed
