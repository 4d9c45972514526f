"""Removes from windows the calls of programs that run on the same host but are not part of a demo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from stalltop.model.calls import CapturedCalls
from stalltop.model.evidence import tenants_of
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window


def only(window: Window, wanted: Callable[[Tenant], bool]) -> Window:
    """Returns ``window`` without the calls of tenants that are not ``wanted``, and without the coverage gaps
    of these tenants. The evidence keeps the resource use of all programs, so that the diagnosis still finds
    an unwanted program that slows a wanted tenant."""
    kept = {identity for identity, tenant in window.tenants.items() if wanted(tenant)}
    rows = window.rows
    at = np.array([i for i, key in enumerate(rows.keys) if key.tenant in kept], np.int64)
    evidence = replace(
        window.evidence,
        ranks=tuple(rank for rank in window.evidence.ranks if rank.tenant in kept),
        charges=tuple(charge for charge in window.evidence.charges if charge.tenant in kept),
    )
    named = kept | tenants_of(evidence)
    named |= {process.tenant for device in window.devices.devices for process in device.processes}
    pids = {key.pid for key in rows.keys if key.tenant in kept}
    coverage = window.coverage
    missing = tuple(
        gap
        for gap in coverage.missing
        if (gap.tenant in kept if gap.tenant else gap.pid in pids if gap.pid else not gap.untraced)
    )
    return replace(
        window,
        rows=rows if len(at) == len(rows) else rows.take(at),
        tenants={identity: tenant for identity, tenant in window.tenants.items() if identity in named},
        open_calls=tuple(call for call in window.open_calls if call.tenant in kept),
        kernels=tuple(count for count in window.kernels if count.row[0] in kept),
        stacks=tuple(stack for stack in window.stacks if stack.tenant in kept),
        calls=CapturedCalls(
            (call for call in window.calls.kept if call.tenant in kept), window.calls.passed_over
        ),
        allocations=tuple(one for one in window.allocations if not one.tenant or one.tenant in kept),
        coverage=replace(
            coverage,
            missing=missing,
            processes=min(coverage.processes, len(pids)),
            scheduled=tuple(identity for identity in coverage.scheduled if identity in kept),
        ),
        evidence=evidence,
    )
