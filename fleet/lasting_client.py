"""A connection to the NATS server that lasts while credentials and certificates are replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import nats.errors
from nats.aio.client import Client, RawCredentials

_PERMISSIONS: Final = "permissions violation"
_BLOCKS: Final = ("BEGIN NATS USER JWT", "BEGIN USER NKEY SEED")
"""What a file of credentials must contain."""


class LastingClient(Client):
    """Connects again whatever ends its connection, until it is closed.

    nats-py 2.16 closes a connection for good if the server ends it with an error: because the user was
    removed, or because the credentials have expired. Of a file with a seed, it keeps the first public
    key, so the server refuses a seed that was replaced.
    """

    def __init__(self, renew: Callable[[Client], object], creds: Path | None, nkey: Path | None) -> None:
        """``renew`` is called with this client before each connection. ``creds`` is the file with the JWT and
        seed of the user, ``nkey`` that with the seed."""
        super().__init__()
        self._renew = renew
        self._creds_file, self._nkey_file = creds, nkey

    async def _process_err(self, err_msg: str) -> None:
        if _PERMISSIONS in err_msg.lower() or not self.options.get("allow_reconnect"):
            await super()._process_err(err_msg)
            return
        error = nats.errors.Error(f"nats: {err_msg}")
        await self._error_cb(error)
        await self._process_op_err(error)

    async def _select_next_server(self) -> None:
        self._renew(self)
        await super()._select_next_server()

    async def _connect_to_server(self, s: Any) -> None:
        self._renew(self)  # again: the method above tries until a server can be reached
        await super()._connect_to_server(s)

    async def _process_connect_init(self) -> None:
        try:
            try:
                self._read_credentials()
            except Exception as error:
                raise _unusable(error) from error
            await super()._process_connect_init()
        except (OSError, TimeoutError, nats.errors.Error, asyncio.CancelledError):
            self._close_transport()
            raise
        except Exception as error:
            # nats-py tries again after errors of its own only, and nkeys has others.
            self._close_transport()
            raise _unusable(error) from error

    def _close_transport(self) -> None:
        """The next attempt has another one."""
        if self._transport is not None:
            self._transport.close()  # type: ignore[no-untyped-call]

    def _read_credentials(self) -> None:
        """Gives nats-py what the files contain now, so that it uses what is checked here. Raises OSError, and
        ValueError and errors of nkeys if it is not enough."""
        if self._creds_file is not None:
            text = self._creds_file.read_text(encoding="utf-8")
            if not all(block in text for block in _BLOCKS):
                raise ValueError("the file lacks the JWT or the seed of a user")
            self._user_credentials = RawCredentials(text)
            self._setup_nkeys_connect()
        elif self._nkey_file is not None:
            self._nkeys_seed_str = self._nkey_file.read_text(encoding="utf-8")
            self._setup_nkeys_connect()


def _unusable(error: Exception) -> nats.errors.Error:
    text = str(error) or type(error).__name__
    return nats.errors.Error(f"nats: 'the credentials cannot be used: {text}'")
