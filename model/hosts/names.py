"""Names of hosts in windows: several hosts that are put together make a fleet. Pure functions."""

from __future__ import annotations

from typing import Final

BETWEEN_HOSTS: Final = ", "
"""What stands between the names in a fleet's ``Window.host``; no host name holds it."""
_BEFORE_TENANT: Final = "/"


def hosts_in(host: str) -> tuple[str, ...]:
    """The hosts of a window whose ``host`` this is."""
    return tuple(host.split(BETWEEN_HOSTS))


def with_host(host: str, tenant: str) -> str:
    """What a host's tenant is called among those of others; the host itself has no id there either."""
    return f"{host}{_BEFORE_TENANT}{tenant}" if tenant else ""


def host_of(host: str, tenant: str) -> str:
    """The host of a tenant of a window whose ``host`` this is; empty where that is not known."""
    hosts = hosts_in(host)
    if len(hosts) == 1:
        return host
    found = tenant.partition(_BEFORE_TENANT)[0]
    return found if found in hosts else ""
