"""A connection to the NATS server that lasts while credentials and certificates are replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import nats.errors
from nats.aio.client import Client

_PERMISSIONS: Final = "permissions violation"
_BLOCKS: Final = (b"BEGIN NATS USER JWT", b"BEGIN USER NKEY SEED")
"""What a file of credentials must contain."""


class LastingClient(Client):
    """Connects again whatever ends its connection, until it is closed.

    nats-py (2.9 to 2.16) closes a connection for good if the server ends it with an error: because the user
    was removed, or because the credentials have expired. Of a file with a seed, it reads the seed for each
    signature, but keeps the first public key: so the server refuses a seed that was replaced.
    """

    def __init__(self, renew: Callable[[Client], object]) -> None:
        """``renew`` is called with this client before each connection."""
        super().__init__()
        self._renew = renew

    async def _process_err(self, err_msg: str) -> None:
        if _PERMISSIONS in err_msg.lower() or not self.options.get("allow_reconnect"):
            await super()._process_err(err_msg)
            return
        error = nats.errors.Error(f"nats: {err_msg}")
        await self._error_cb(error)
        await self._process_op_err(error)

    async def _process_connect_init(self) -> None:
        try:
            self._renew(self)
            self._read_credentials()
            await super()._process_connect_init()
        except BaseException:
            if self._transport is not None:
                self._transport.close()  # type: ignore[no-untyped-call]  # the next attempt has another
            raise

    def _read_credentials(self) -> None:
        """Raises nats.errors.Error if the files cannot be used at present: they are tried again."""
        try:
            if self._user_credentials is not None:
                content = Path(str(self._user_credentials)).read_bytes()
                if not all(block in content for block in _BLOCKS):
                    raise ValueError("they lack the JWT or the seed of a user")
            elif self._nkeys_seed is not None:
                self._setup_nkeys_connect()
        except Exception as error:  # nkeys has errors of its own kind
            text = str(error) or type(error).__name__
            raise nats.errors.Error(f"nats: 'the credentials cannot be used: {text}'") from error
