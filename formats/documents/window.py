"""The JSON object that ``once --json`` prints for a window. docs/json.md describes every field.

Scripts depend on the names and types of the fields. So fields may be added, but never renamed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from stalltop.formats.documents.sharing import sharing_document, unplaced_document
from stalltop.model.calls import CapturedCalls
from stalltop.model.chain import Chain, worst_first
from stalltop.model.cuda_kernels import KernelCount, bucket_highest_ns, bucket_lowest_ns
from stalltop.model.devices.device import Device
from stalltop.model.evidence import Evidence
from stalltop.model.rows.pivot import PERCENTS, bounded
from stalltop.model.sharing.sharing import sharings
from stalltop.model.stacks.stack import StackCount
from stalltop.model.thread_evidence import ThreadEvidence
from stalltop.model.window import LOSSES, SPLITS, Coverage, OpenCall, Rows, Window

SCHEMA = "stalltop.window/1"
"""Name and version of the format."""


def document(window: Window) -> dict[str, Any]:
    """Return ``window`` as dicts, lists, strings and numbers. NaN and infinity become None."""
    return {
        "schema": SCHEMA,
        "host": window.host,
        "simulated": window.simulated,
        "window": {"start": _number(window.start), "seconds": _number(window.seconds)},
        "probes": _probes(window.coverage, window),
        "tenants": [
            _finite(asdict(tenant))
            for tenant in sorted(window.tenants.values(), key=lambda tenant: tenant.id)
        ],
        "operations": _operations(window.rows),
        "kernels": _kernels(window.kernels),
        "calls": _calls(window.calls),
        "stacks": _stacks(window.stacks),
        "open_calls": [
            _placed(asdict(call))
            for call in sorted(window.open_calls, key=lambda call: (-call.age_ns, *_who(call)))
        ],
        "chains": [chain_document(chain) for chain in sorted(window.chains, key=worst_first)],
        "culprits": _culprits(window.evidence),
        **_evidence(window.evidence),
        "driver": window.devices.driver,
        "devices_unavailable": window.devices.unavailable,
        "devices": [
            _device(device) | {"sharing": sharing_document(sharing, window)}
            for device, sharing in zip(window.devices.devices, sharings(window), strict=True)
        ],
        "unplaced_tenants": unplaced_document(window),
        "allocations": [_finite(asdict(allocation)) for allocation in window.allocations],
        "system": None if window.system is None else _finite(asdict(window.system)),
    }


def _device(device: Device) -> dict[str, Any]:
    told: dict[str, Any] = _finite(asdict(device))
    return told if device.throttle_told else told | {"throttle_reasons": None}


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _who(call: OpenCall) -> tuple[int, int, str]:
    return call.pid, call.tid, call.operation


def _probes(coverage: Coverage, window: Window) -> dict[str, Any]:
    return {
        "attached": coverage.attached,
        "functions": coverage.functions,
        "processes": coverage.processes,
        "libraries": [
            asdict(library) | {"reduced": [asdict(one) for one in library.reduced]}
            for library in coverage.libraries
        ],
        "missing": [asdict(gap) for gap in coverage.missing],
        "lost": {
            name: int(window.loss.get(name, 0)) for name in (*LOSSES, *(set(window.loss) - set(LOSSES)))
        },
        "probe_ns": _number(coverage.probe_ns),
        "cost_percent": _number(coverage.cost_percent),
        "way": coverage.way,
        "tracing": coverage.tracing,
        "scheduled": list(coverage.scheduled),
        "schedulable": list(coverage.schedulable),
        "tracer": None if coverage.tracer is None else _finite(asdict(coverage.tracer)),
    }


def _operations(rows: Rows) -> list[dict[str, Any]]:
    percentiles = bounded(rows.histograms.percentiles(PERCENTS), rows.max_ns).tolist()
    split = None if rows.split_ns is None else rows.split_ns.tolist()
    columns = zip(
        rows.keys,
        rows.calls.tolist(),
        rows.errors.tolist(),
        rows.bytes.tolist(),
        rows.total_ns.tolist(),
        rows.max_ns.tolist(),
        percentiles,
        split or [None] * len(rows),
        strict=True,
    )
    operations: list[dict[str, Any]] = [
        {
            "host": key.host,
            "tenant": key.tenant,
            "pid": key.pid,
            "process": key.process,
            "layer": key.layer,
            "operation": key.operation,
            "nested": key.nested,
            "device": key.device or None,
            "calls": calls,
            "errors": errors,
            "bytes": moved,
            "p50_ns": p50,
            "p95_ns": p95,
            "p99_ns": p99,
            "max_ns": longest,
            "total_ns": total,
            "split_ns": None if parts is None else dict(zip(SPLITS, parts, strict=True)),
        }
        for key, calls, errors, moved, total, longest, (p50, p95, p99), parts in columns
    ]
    operations.sort(
        key=lambda row: (-row["total_ns"], row["tenant"], row["pid"], row["operation"], row["device"] or "")
    )
    return operations


def _kernels(kernels: Iterable[KernelCount]) -> list[dict[str, Any]]:
    found = [
        _placed(kernel._asdict())
        | {
            "buckets": [
                [bucket_lowest_ns(bucket), bucket_highest_ns(bucket), calls]
                for bucket, calls in kernel.buckets
            ]
        }
        for kernel in kernels
    ]
    return sorted(
        found, key=lambda kernel: (-kernel["total_ns"], kernel["tenant"], kernel["pid"], kernel["kernel"])
    )


def _calls(calls: CapturedCalls) -> dict[str, Any]:
    return {
        "passed_over": calls.passed_over,
        "kept": [
            _placed(call._asdict())
            | {"split_ns": None if call.split_ns is None else dict(zip(SPLITS, call.split_ns, strict=True))}
            for call in calls.kept
        ],
    }


def _stacks(stacks: Iterable[StackCount]) -> list[dict[str, Any]]:
    return [
        {
            "tenant": stack.tenant,
            "pid": stack.pid,
            "process": stack.process,
            "layer": stack.layer,
            "operation": stack.operation,
            "nested": stack.nested,
            "device": stack.device or None,
            "reason": stack.reason,
            "count": stack.calls,
            "ns": stack.ns,
            "p99_ns": stack.p99_ns,
            "frames": [frame._asdict() for frame in stack.frames],
            "cut": stack.cut,
        }
        for stack in stacks
    ]


def _culprits(evidence: Evidence) -> list[dict[str, Any]]:
    charges = sorted(evidence.charges, key=lambda charge: (-charge.ns, charge.key))
    return [
        {
            "victim": charge.tenant,
            "victim_pid": charge.pid,
            "victim_process": charge.process,
            "layer": charge.layer,
            "operation": charge.operation,
            "device": charge.device or None,
            "kind": charge.kind,
            "culprit": charge.culprit_tenant,
            "pid": charge.culprit_pid,
            "process": charge.culprit_process,
            "ns": charge.ns,
            "times": charge.times,
        }
        for charge in charges
    ]


def chain_document(chain: Chain) -> dict[str, Any]:
    """Return ``chain`` as an element of the list ``chains`` of the JSON object."""
    plain: dict[str, Any] = _finite(asdict(chain))
    plain["fix"] = plain.pop("fixes")
    plain["slower_percent"] = _finite(chain.slower_percent)
    plain["rows"] = [_placed(key._asdict()) for key in chain.rows]
    return plain


def _evidence(evidence: Evidence) -> dict[str, Any]:
    """Return the fields of ``evidence`` for the JSON object. Ranks and network ports are sorted by what
    identifies them. Events stay in their order. Other lists have the largest records first. Charges and the
    evidence about threads are left out."""
    plain = _finite(asdict(replace(evidence, charges=(), threads=ThreadEvidence())))
    return {
        "block_io": sorted(plain["block_io"], key=lambda io: -(io["queued_ns"] + io["service_ns"])),
        "tenant_use": sorted(plain["tenants"], key=lambda use: (-use["cpu_ns"], use["tenant"])),
        "process_use": sorted(plain["processes"], key=lambda use: (-use["cpu_ns"], use["pid"])),
        "ranks": sorted(plain["ranks"], key=lambda rank: (rank["communicator"], rank["rank"], rank["pid"])),
        "activity": sorted(map(_placed, plain["activity"]), key=lambda active: -active["active_ns"]),
        "overlaps": sorted(map(_placed, plain["overlaps"]), key=lambda overlap: -overlap["ns"]),
        "network_ports": sorted(plain["network_ports"], key=lambda port: (port["host"], port["name"])),
        **{name: plain[name] for name in ("events", "swap_in_bytes", "swap_out_bytes", "unknown")},
    }


def _placed(plain: dict[str, Any]) -> dict[str, Any]:
    """Return ``plain``, a record as a dict, with None instead of '' if the device is not known."""
    return plain | {"device": plain["device"] or None}


def _finite(value: Any) -> Any:
    """Return ``value`` with lists for tuples, and with None for NaN and infinity."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return _number(value) if isinstance(value, float) else value
