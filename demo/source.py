"""What ``stalltop demo`` needs: whether real tenants can run, and windows in which they have their names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from demo.build import compiler
from demo.cgroups import hierarchy
from demo.tenants import DemoTenants
from model.errors import Told
from model.source import Source
from model.tenant import Tenant
from model.window import Window

__all__ = ["DemoTenants", "NamedSource", "why_simulated"]


def why_simulated() -> str:
    """Empty where real tenants can be started, else why not, in one line.

    Whether they can be traced as well is the tracer's to say.
    """
    if os.geteuid() != 0:
        return "not started as root"
    try:
        compiler()
        root = hierarchy()
    except Told as reason:
        return reason.reason
    if not os.access(root, os.W_OK):
        return f"cgroups cannot be made in {root}"
    return ""


class NamedSource:
    """A source whose tenants get names by container id: sample tenants have no runtime that would know them.

    ``names`` is looked at again at every read.
    """

    def __init__(self, source: Source, names: Mapping[str, str]) -> None:
        self._source = source
        self._names = names

    def read(self) -> Window:
        """The next window of the source, with names."""
        window = self._source.read()
        tenants = {key: self._named(tenant) for key, tenant in window.tenants.items()}
        return replace(window, tenants=tenants)

    def close(self) -> None:
        """Close the source."""
        self._source.close()

    def _named(self, tenant: Tenant) -> Tenant:
        name = self._names.get(tenant.container_id) if tenant.container_id else None
        return replace(tenant, name=name) if name else tenant
