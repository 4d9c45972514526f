"""Windows made comparable that were not of the same processes: of another run of a job, or of another host.

There ids, process numbers and hosts differ though what ran is the same. What a person would call the same is
the same here.
"""

from __future__ import annotations

from dataclasses import replace

from stalltop.model.rows.pivot import Naming
from stalltop.model.window import Window


def alike(window: Window) -> Window:
    """``window`` with tenants told apart by name, processes by the name of their program, hosts not at all.

    For grouping and comparing only: rows may have the same key then, and evidence, calls and chains keep
    theirs.
    """
    naming = Naming(window)
    names = {key.tenant: naming.part("container", key)[1] for key in window.rows.keys}
    tenants = {
        name: replace(window.tenants[tenant], id=name)
        for tenant, name in names.items()
        if tenant in window.tenants
    }
    keys = tuple(key._replace(host="", tenant=names[key.tenant], pid=0) for key in window.rows.keys)
    return replace(window, rows=replace(window.rows, keys=keys), tenants=tenants)


def tenant_names(window: Window) -> frozenset[str]:
    """What the tenants of ``window`` that made calls are called."""
    naming = Naming(window)
    return frozenset(naming.part("container", key)[1] for key in window.rows.keys)
