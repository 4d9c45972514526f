"""Makes windows of different runs or hosts comparable.

Ids of tenants, PIDs and hosts differ between two runs of the same job. This module therefore uses the names
of tenants and processes as their ids.
"""

from __future__ import annotations

from dataclasses import replace

from stalltop.model.rows.pivot import RowNaming
from stalltop.model.window import Window


def alike(window: Window) -> Window:
    """In the keys of the rows of ``window``, replaces ids of tenants by names, and removes PIDs and hosts.

    The result is for grouping and comparing only: several rows may have the same key, and evidence, calls and
    chains keep the original ids.
    """
    naming = RowNaming(window)
    names = {key.tenant: naming.part("container", key)[1] for key in window.rows.keys}
    tenants = {
        name: replace(window.tenants[tenant], id=name)
        for tenant, name in names.items()
        if tenant in window.tenants
    }
    keys = tuple(key._replace(host="", tenant=names[key.tenant], pid=0) for key in window.rows.keys)
    return replace(window, rows=replace(window.rows, keys=keys), tenants=tenants)


def tenant_names(window: Window) -> frozenset[str]:
    """Returns the names of the tenants of ``window`` that have rows."""
    naming = RowNaming(window)
    return frozenset(naming.part("container", key)[1] for key in window.rows.keys)
