"""Runs the Alertmanager that ``scripts/fetch-receivers`` fetched, and asks it."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kernel.harness import wait_until
from tests.kernel.receivers.prometheus import ROOT, free_port

_FETCHED = ROOT / ".vendor" / "prometheus-alertmanager" / "usr"
ALERTMANAGER = _FETCHED / "bin" / "prometheus-alertmanager"
_WITH_TEMPLATES = f'mount -t overlay overlay -o lowerdir={_FETCHED}/share:/usr/share /usr/share && exec "$@"'
"""Debian's Alertmanager reads its templates in /usr/share, and is not installed: it sees them there in a
mount namespace of its own, which needs root."""
FETCHED = ALERTMANAGER.is_file()


class AlertmanagerServer:
    """A running Alertmanager, which passes every alert on at once to a webhook."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._port = port

    def alerts(self) -> list[dict[str, Any]]:
        """Returns the alerts that it has as open."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)) as line:
            line.request("GET", "/api/v2/alerts")
            answer = line.getresponse()
            content = answer.read()
        assert answer.status == 200, content
        found: list[dict[str, Any]] = json.loads(content)
        return found

    def is_ready(self) -> bool:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)) as line:
            try:
                line.request("GET", "/-/ready")
                return line.getresponse().status == 200
            except OSError:
                return False


@contextlib.contextmanager
def alertmanager(folder: Path, webhook: int) -> Iterator[AlertmanagerServer]:
    """Runs Alertmanager. ``webhook``: the port on the loopback to which it posts."""
    settings = folder / "alertmanager.yml"
    settings.write_text(
        "route: {receiver: hook, group_by: [alertname, subject], group_wait: 0s, group_interval: 1s}\n"
        f"receivers: [{{name: hook, webhook_configs: [{{url: 'http://127.0.0.1:{webhook}/hook'}}]}}]\n"
    )
    port = free_port()
    command = ["unshare", "--mount", "sh", "-c", _WITH_TEMPLATES, "sh"]
    command += [str(ALERTMANAGER), f"--config.file={settings}", f"--storage.path={folder / 'alerts'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=", "--log.level=warn"]
    log = folder / "alertmanager.log"
    with log.open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said, cwd=folder) as process:
        try:
            server = AlertmanagerServer(port)
            wait_until(lambda: server.is_ready() or process.poll() is not None, what="Alertmanager")
            assert process.poll() is None, log.read_text()
            yield server
        finally:
            process.terminate()
