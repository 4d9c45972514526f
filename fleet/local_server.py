"""Starts a NATS server on this host, with a store that is removed afterwards: for the demo and for tests."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from stalltop.fleet.with_parent import ending_with_parent
from stalltop.model.errors import StalltopError

START_SECONDS: Final = 15.0
_PLACES: Final = ("/usr/sbin", "/usr/local/bin", "/usr/bin")
"""Where distributions put ``nats-server``, also for users whose PATH has no ``sbin``."""


def server_program() -> str | None:
    """Returns the path of ``nats-server``; None if it is not installed."""
    return shutil.which("nats-server") or shutil.which("nats-server", path=":".join(_PLACES))


def installed_server() -> str:
    """Returns the path of ``nats-server``; as root on Debian and Ubuntu, installs it if it is missing. Raises
    StalltopError if that is not possible."""
    found = server_program()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["apt-get", "update"], ["apt-get", "install", "-y", "nats-server"]):
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        found = server_program()
        if found is None:
            last = (done.stderr.decode(errors="replace").strip().splitlines() or [""])[-1]
            raise StalltopError(f"cannot install nats-server: {last}", "install it: https://nats.io/download")
    if found is None:
        raise StalltopError(
            "nats-server is not installed", "install it, on Debian: apt-get install nats-server"
        )
    return found


class LocalServer:
    """A ``nats-server`` with JetStream that listens on the loopback address. Ends with this process."""

    def __init__(
        self, *, port: int = 0, configuration: str = "", scheme: str = "nats", jetstream: bool = True
    ) -> None:
        """``port`` 0: a free one. ``configuration`` is added to the server's configuration file. Raises
        StalltopError if the server does not start."""
        self._program = installed_server()
        self._folder = Path(tempfile.mkdtemp(prefix="stalltop-nats-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port or _free_port()
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._file = self._folder / "server.conf"
        self._jetstream = jetstream
        self._write(configuration)
        self._arguments = ["-c", str(self._file), "-l", str(self._folder / "log")]
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Its process id; 0 if it does not run."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        """Starts the server, again after `kill`. Its store is still there. Raises StalltopError."""
        self._process = subprocess.Popen(
            ending_with_parent([self._program, *self._arguments]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until = time.monotonic() + START_SECONDS
        while not _answers(self.port):
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise StalltopError(f"nats-server did not start: {self._last_line()}")
            time.sleep(0.02)

    def reload(self, configuration: str) -> None:
        """Lets the server that runs follow another ``configuration``."""
        self._write(configuration)
        os.kill(self.pid, signal.SIGHUP)

    def _write(self, configuration: str) -> None:
        store = f'jetstream {{ store_dir: "{self._folder / "store"}" }}' if self._jetstream else ""
        self._file.write_text(
            f'listen: "127.0.0.1:{self.port}"\nmax_payload: 1MB\nmax_pending: 64MB\n{store}\n'
            f"{configuration}\n",
            encoding="utf-8",
        )

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Ends the server by a signal, and waits for its end. Its store is kept."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
            process.wait()

    def close(self) -> None:
        """Ends the server and removes its store. May be called twice."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _last_line(self) -> str:
        with contextlib.suppress(OSError):
            lines = (self._folder / "log").read_text(errors="replace").splitlines()
            return lines[-1] if lines else ""
        return ""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def _answers(port: int) -> bool:
    """Returns whether a NATS server answers: it speaks first."""
    try:
        with socket.create_connection(("127.0.0.1", port), 0.5) as link:
            link.settimeout(0.5)
            return link.recv(5).startswith(b"INFO")
    except OSError:
        return False
