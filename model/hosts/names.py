"""Names of hosts in the windows of one host or of a fleet (several hosts merged)."""

from __future__ import annotations

from typing import Final

BETWEEN_HOSTS: Final = ", "
"""Separator of the host names in ``Window.host`` of a fleet; no host name contains this text."""
_BEFORE_TENANT: Final = "/"


def hosts_in(host: str) -> tuple[str, ...]:
    """Splits ``Window.host`` into the names of its hosts."""
    return tuple(host.split(BETWEEN_HOSTS))


def with_host(host: str, tenant: str) -> str:
    """Returns the id of a tenant in a fleet: the id with the name of its host in front. The id '' stands for
    the host itself and stays ''."""
    return f"{host}{_BEFORE_TENANT}{tenant}" if tenant else ""


def host_of(host: str, tenant: str) -> str:
    """Returns the host of the tenant id ``tenant`` in a window whose ``Window.host`` is ``host``; '' if
    unknown."""
    hosts = hosts_in(host)
    if len(hosts) == 1:
        return host
    found = tenant.partition(_BEFORE_TENANT)[0]
    return found if found in hosts else ""
