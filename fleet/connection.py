"""Connections to the NATS server: who connects, and an event loop in a thread of its own for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import nats.errors
from nats.aio.client import Client

from stalltop.fleet.lasting_client import LastingClient
from stalltop.model.errors import StalltopError, UsageError, described

T = TypeVar("T")

CONNECT_SECONDS: Final = 5
"""Longest wait for a server."""
RECONNECT_SECONDS: Final = 1
"""Pause between two attempts to reach a server again. There is no end to the attempts."""
PENDING_BYTES: Final = 8 << 20
"""Bytes that may wait to be written to the server."""


class FleetError(StalltopError):
    """The NATS server cannot be reached, or refuses what it was asked."""


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """Where the server is, and who connects to it."""

    urls: tuple[str, ...]
    """Such as ``nats://nats.example:4222`` or ``tls://…``."""
    creds: Path | None = None
    """File with a user's JWT and seed."""
    nkey: Path | None = None
    """File with a user's seed."""
    user: str = ""
    password: str = ""
    ca: Path | None = None
    """Certificates of authorities (PEM) that signed the server's; None: those of the system."""
    cert: Path | None = None
    key: Path | None = None
    """Certificate and key of this client (PEM)."""

    @property
    def shown(self) -> str:
        """The servers without passwords in their URLs."""
        return ", ".join(_without_password(url) for url in self.urls)

    def tls(self) -> ssl.SSLContext | None:
        """Returns the TLS context; None if no file is given and no URL asks for TLS. Raises UsageError if a
        file cannot be used."""
        wanted = self.ca or self.cert or any(url.startswith(("tls://", "wss://")) for url in self.urls)
        if not wanted:
            return None
        if (self.cert is None) != (self.key is None):
            raise UsageError("--tls-cert and --tls-key must be given together")
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                # Without a password function, OpenSSL would ask for one on the terminal.
                context.load_cert_chain(self.cert, self.key, password=lambda: "")
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot use the certificates: {error}", "they must be PEM files") from error
        return context

    def options(self) -> dict[str, Any]:
        """Returns the arguments of ``Client.connect`` that say who connects. Raises UsageError."""
        for path in (self.creds, self.nkey):
            if path is not None and not path.is_file():
                raise UsageError(f"{path} is no file with credentials")
        found: dict[str, Any] = {"servers": list(self.urls)}
        context = self.tls()
        if context is not None:
            found["tls"] = context
        if self.creds is not None:
            found["user_credentials"] = str(self.creds)
        if self.nkey is not None:
            found["nkeys_seed"] = str(self.nkey)
        if self.user:
            found |= {"user": self.user, "password": self.password}
        return found


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


@dataclass(frozen=True, slots=True)
class ConnectionListener:
    """What is called, in the thread of the loop, when the connection changes."""

    connected: Callable[[], object] = bool
    """The server can be reached, for the first time or again."""
    lost: Callable[[], object] = bool
    """The server cannot be reached any more."""
    refused: Callable[[str], object] = bool
    """The server refuses a subject, or something else went wrong; gets one line."""


NOBODY: Final = ConnectionListener()


async def connected(
    access: ServerAccess, name: str, listener: ConnectionListener = NOBODY, *, patient: bool = False
) -> Client:
    """Connects, and returns the connection, which reconnects by itself. ``name`` is shown by the server.
    ``patient``: wait for a server that cannot be reached, without an end.

    Raises FleetError if no server can be reached or the server refuses the user, and UsageError.
    """
    logging.getLogger("nats").setLevel(logging.CRITICAL)  # what matters comes through the listener

    last: list[Exception] = []
    refused: list[str] = []

    async def failed(error: Exception) -> None:
        last[:] = [error]
        text = str(error)
        reason = text.partition(": ")[2].strip("'\" ") or text
        if "permissions violation" in text.lower():
            listener.refused(reason)
        elif client.options.get("allow_reconnect") and (
            text.startswith("nats: '") or "credentials" in text or isinstance(error, ssl.SSLError)
        ):
            if isinstance(error, ssl.SSLError):
                reason = getattr(error, "verify_message", "") or getattr(error, "reason", "") or text
            if reason.lower() not in refused:  # the same comes with each attempt
                refused.append(reason.lower())
                listener.refused(f"{reason}; tries again")
        elif isinstance(error, nats.errors.SlowConsumerError):
            listener.refused(f"messages of {error.subject} are lost: this program is too slow")

    async def back() -> None:
        refused.clear()
        listener.connected()

    async def gone() -> None:
        listener.lost()

    options = access.options()

    def renew(client: Client) -> None:
        with contextlib.suppress(UsageError):  # else the certificates stay as they were
            if "tls" in options:
                client.options["tls"] = access.tls()

    while True:
        client = LastingClient(renew, access.creds, access.nkey)
        try:
            await client.connect(
                **options,
                name=name,
                error_cb=failed,
                reconnected_cb=back,
                disconnected_cb=gone,
                connect_timeout=CONNECT_SECONDS,
                reconnect_time_wait=RECONNECT_SECONDS,
                # The first attempt must have an end; later ones must not.
                max_reconnect_attempts=1,
                allow_reconnect=False,
                pending_size=PENDING_BYTES,
            )
            client.options |= {"allow_reconnect": True, "max_reconnect_attempts": -1}
        except Exception as error:
            # nats-py says only that no server is left: what was wrong with the last one says more.
            found = last[0] if last and isinstance(error, nats.errors.NoServersError) else error
            told = _told(found, access)
            if not patient or told.final:
                raise told from error
            await asyncio.sleep(RECONNECT_SECONDS)
            continue
        listener.connected()
        return client


class _CannotConnectError(FleetError):
    def __init__(self, reason: str, remedy: str, *, final: bool) -> None:
        super().__init__(reason, remedy)
        self.final = final
        """Whether another attempt is useless."""


def _told(error: Exception, access: ServerAccess) -> _CannotConnectError:
    where = access.shown
    text = str(error)
    if isinstance(error, nats.errors.AuthorizationError) or "authorization" in text.lower():
        return _CannotConnectError(
            f"{where} refuses this user", "give --creds, --nkey, or --user and --password-file", final=True
        )
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return _CannotConnectError(
            f"no TLS connection with {where}: {text}", "give the authority with --tls-ca", final=True
        )
    if isinstance(error, OSError | nats.errors.NoServersError | nats.errors.TimeoutError | TimeoutError):
        return _CannotConnectError(
            f"no NATS server answers at {where}", "start one, such as nats-server -js", final=False
        )
    return _CannotConnectError(f"cannot connect to {where}: {described(error)}", "", final=True)


class FleetLoop:
    """An event loop in a thread of its own: other threads hand it what is to be done."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts ``work`` in the loop. Raises RuntimeError after `stop`."""
        if not self._thread.is_alive():
            work.close()
            raise RuntimeError("the loop has ended")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """Runs ``work`` in the loop, and returns its result. Raises TimeoutError after ``seconds``."""
        return self.begin(work).result(seconds)

    def call(self, function: Callable[[], object]) -> None:
        """Calls ``function`` in the loop soon. Any thread may call this, also after the end."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def stop(self, seconds: float = 2.0) -> None:
        """Ends the loop, and what runs in it. May be called twice."""
        if self._thread.is_alive():
            self.call(self._loop.stop)
            self._thread.join(seconds)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            with contextlib.suppress(Exception):
                self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.close()


async def close(client: Client | None, seconds: float = 1.0) -> None:
    """Sends what waits, and closes the connection; waits for at most ``seconds``."""
    if client is None or client.is_closed:
        return
    with contextlib.suppress(Exception):
        if client.is_connected:
            await client.flush(max(round(seconds), 1))
    with contextlib.suppress(Exception):
        await asyncio.wait_for(client.close(), seconds)
