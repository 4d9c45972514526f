"""Who may in: the token, the cookie that takes its place, from where a request may come. Pure functions."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

TOKEN_BYTES = 32
"""Of randomness: nobody guesses it, so that wrong ones need not be counted."""
LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")
_PORT = re.compile(r":\d{1,5}$")


def _secret() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


@dataclass(frozen=True, slots=True)
class Access:
    """What a request must have to be answered."""

    hosts: frozenset[str]
    """Names by which this server may be asked for, in lower case; addresses always may."""
    token: str = field(default_factory=_secret, repr=False)
    """In the address that is told to the user."""
    cookie: str = field(default_factory=_secret, repr=False)
    """What a browser is given for the token, so that the token need not stay in its address."""

    def is_token(self, given: str) -> bool:
        """Whether ``given`` is the token, in a time that does not tell how much of it is right."""
        return _same(given, self.token)

    def is_cookie(self, given: str) -> bool:
        """The same for the cookie."""
        return _same(given, self.cookie)

    def is_host(self, header: str | None) -> bool:
        """Whether a request with this Host header meant this server.

        A page of another site can have its own name lead to this machine (DNS rebinding), and its requests
        are then of one origin with it: they carry that name. An address in its place cannot have come about
        that way.
        """
        name = host_name(header or "")
        return is_address(name) or name in self.hosts


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode())


def host_name(header: str) -> str:
    """The name or address in a Host header, without port and brackets, in lower case."""
    name = _PORT.sub("", header.strip().lower())
    if name.startswith("[") and name.endswith("]"):
        return name[1:-1]
    return name.rstrip(".")


def is_same_origin(origin: str | None, host: str | None) -> bool:
    """Whether a page from ``origin`` was served under ``host``: both as a browser's headers say.

    Browsers send Origin with every request for a WebSocket. The scheme is left out: behind a proxy that
    ends TLS it is another one here. Both leave the scheme's own port out.
    """
    scheme, separator, rest = (origin or "").lower().partition("://")
    return bool(separator) and scheme in ("http", "https") and bool(rest) and rest == (host or "").lower()


def is_address(name: str) -> bool:
    """Whether ``name`` is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(address: str) -> bool:
    """Whether an IP address is reached from this host only."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def known_hosts(names: Iterable[str]) -> frozenset[str]:
    """The names in Host headers that are right: those of the loopback, and ``names``."""
    return frozenset((*LOOPBACK_NAMES, *(host_name(name) for name in names if name)))
