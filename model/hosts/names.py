"""Names of hosts in the windows of one host or of a fleet (several hosts merged)."""

from __future__ import annotations

from typing import Final

BETWEEN_HOSTS: Final = ", "
"""Separator of the names in a fleet's ``Window.host``; no host name contains it."""
_BEFORE_TENANT: Final = "/"


def hosts_in(host: str) -> tuple[str, ...]:
    """Splits ``Window.host`` into the names of its hosts."""
    return tuple(host.split(BETWEEN_HOSTS))


def with_host(host: str, tenant: str) -> str:
    """Returns the id of a tenant in a fleet: with its host in front. '' stands for the host itself and
    stays ''."""
    return f"{host}{_BEFORE_TENANT}{tenant}" if tenant else ""


def host_of(host: str, tenant: str) -> str:
    """Returns the host of a tenant id in a window with this ``Window.host``; '' if unknown."""
    hosts = hosts_in(host)
    if len(hosts) == 1:
        return host
    found = tenant.partition(_BEFORE_TENANT)[0]
    return found if found in hosts else ""
