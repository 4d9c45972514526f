"""Access control: checks the token, the cookie, and the Host and Origin headers of requests."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

TOKEN_BYTES = 32
"""Random bytes in the token: too many to guess, so failed attempts need no limit."""
LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")
_PORT = re.compile(r":\d{1,5}$")


def _secret() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


@dataclass(frozen=True, slots=True)
class Access:
    """Credentials and host names that the server accepts."""

    hosts: frozenset[str]
    """Host names that requests may name, in lower case. IP addresses are always accepted."""
    token: str = field(default_factory=_secret, repr=False)
    """Token in the address that is printed for the user."""
    cookie: str = field(default_factory=_secret, repr=False)
    """Cookie that a browser receives when it presents the token. Later requests carry the cookie, so that the
    token need not stay in the browser's address bar."""

    def is_token(self, given: str) -> bool:
        """Returns True if ``given`` is the token. Takes constant time (timing attacks)."""
        return _same(given, self.token)

    def is_cookie(self, given: str) -> bool:
        """Returns True if ``given`` is the cookie. Takes constant time (timing attacks)."""
        return _same(given, self.cookie)

    def is_host(self, header: str | None) -> bool:
        """Returns True if a request with this Host header is meant for this server.

        This prevents DNS rebinding: another site can point its own name to this machine, so that its pages
        have the same origin as this server, but their requests carry that name in the Host header. An IP
        address in the header cannot result from DNS rebinding.
        """
        name = host_name(header or "")
        return is_address(name) or name in self.hosts


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode())


def host_name(header: str) -> str:
    """Returns the name or address in a Host header, without port and brackets, in lower case."""
    name = _PORT.sub("", header.strip().lower())
    if name.startswith("[") and name.endswith("]"):
        return name[1:-1]
    return name.rstrip(".")


def is_same_origin(origin: str | None, host: str | None) -> bool:
    """Returns True if the headers Origin and Host of a request name the same host and port.

    Browsers send Origin with every request for a WebSocket. The scheme is not compared, because a proxy may
    terminate TLS. Browsers omit the default port of the scheme in both headers.
    """
    scheme, separator, rest = (origin or "").lower().partition("://")
    return bool(separator) and scheme in ("http", "https") and bool(rest) and rest == (host or "").lower()


def is_address(name: str) -> bool:
    """Returns True if ``name`` is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(address: str) -> bool:
    """Returns True if an IP address is reachable from this host only."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def known_hosts(names: Iterable[str]) -> frozenset[str]:
    """Returns the host names to accept: those of the loopback interface, and ``names``."""
    return frozenset((*LOOPBACK_NAMES, *(host_name(name) for name in names if name)))
