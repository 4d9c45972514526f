"""The sections about the tenants, processes and devices of a row, and about what is not known. Pure
functions."""

from __future__ import annotations

from stalltop.formats.text.chains import name_of
from stalltop.model.devices.device import Device, DeviceProcess
from stalltop.model.evidence import ProcessUse, TenantUse
from stalltop.model.tenant import Tenant
from stalltop.model.text import figures
from stalltop.model.text.words import counted, numbered
from stalltop.model.window import LOSSES, UNCOUNTED, Window
from stalltop.tui.keys.actions import key
from stalltop.tui.pages.sections import Frame, Section, heading, more, note, pair
from stalltop.tui.row.facts import RowFacts
from stalltop.widgets.page import PageLine

MOST_LISTED = 8
"""The most tenants, processes and devices that are listed."""

WAKES = (1, 2, 3)
"""Values of ``ProcessUse.link`` for a process that wakes threads that make calls."""


def owner(facts: RowFacts, frame: Frame) -> Section:
    """Return the section about the tenant of the row, or the list of its tenants if there are several."""
    window = facts.window
    if len(facts.tenants) != 1:
        lines = [heading(f"Owner: {len(facts.tenants)} tenants", "the one with the most time first")]
        for tenant_id in facts.tenants[:MOST_LISTED]:
            found = window.tenants.get(tenant_id)
            known = (found.kind, found.runtime, found.namespace, found.pod) if found is not None else ()
            about = ", ".join(dict.fromkeys(part for part in known if part))
            lines.append(pair(name_of(tenant_id, window), f" {about}" if about else "", "dim"))
        return Section("owner", (*lines, *more(len(facts.tenants) - MOST_LISTED)))
    tenant_id = facts.tenants[0]
    tenant = window.tenants.get(tenant_id) or Tenant(tenant_id, tenant_id)
    use = next((use for use in window.evidence.tenants if use.tenant == tenant_id), None)
    kind = ", ".join(dict.fromkeys(part for part in (tenant.kind, tenant.runtime) if part))
    lines = [heading("Owner"), pair("name", f"{tenant.name or tenant.id} ({kind})")]
    told = (
        ("user", tenant.user),
        ("container", tenant.container if tenant.pod else ""),
        ("container id", tenant.container_id),
        ("pod", _pod(tenant)),
        ("namespace", tenant.namespace),
        ("labels", ", ".join(f"{name}={value}" for name, value in tenant.labels)),
        ("was given", _given(tenant_id, window)),
        ("cgroup", _cgroup(tenant)),
    )
    lines += [pair(name, text) for name, text in told if text]
    if tenant.kind in ("container", "pod") and not tenant.container_id:
        lines.append(pair("container id", f"{frame.missing()} not known", "dim"))
    lines += _limits(use, frame) if use is not None else [pair("use", "not measured in this window", "dim")]
    return Section("owner", tuple(lines))


def _pod(tenant: Tenant) -> str:
    return f"{tenant.pod} (UID {tenant.pod_uid})" if tenant.pod_uid not in ("", tenant.pod) else tenant.pod


def _given(tenant: str, window: Window) -> str:
    """Return, as text, which devices a scheduler gave to the tenant, by resource. The tenant need not use
    them."""
    return "; ".join(
        f"{one.resource}: {', '.join(one.devices)}" for one in window.allocations if one.tenant == tenant
    )


def _cgroup(tenant: Tenant) -> str:
    return f"{tenant.cgroup_path} (id {tenant.cgroup_id})" if tenant.cgroup_id else tenant.cgroup_path


def _limits(use: TenantUse, frame: Frame) -> list[PageLine]:
    """Return the lines about the limits of the tenant's cgroup, and about what they caused: throttling,
    reclaims, kills."""
    cpu = (
        "no quota"
        if use.cpu_quota is None
        else f"{use.cpu_quota:g} CPUs, set by {use.quota_cgroup or 'its cgroup'}"
    )
    cpu += f"; may run on CPUs {use.cpuset}" if use.cpuset else ""
    held = use.throttled_periods > 0
    if held:
        cpu += f"; throttled in {use.throttled_periods} of {use.periods} periods, "
        cpu += f"{frame.duration(use.throttled_ns)}"
    lines = [pair("CPU limit", cpu, "warn" if held else "text")]
    used = figures.memory(use.memory_used_bytes, frame.glyphs).strip()
    memory = f"{used} used, no limit"
    if use.memory_limit_bytes is not None:
        limit = figures.memory(use.memory_limit_bytes, frame.glyphs).strip()
        memory = f"{used} of {limit}, set by {use.memory_cgroup or 'its cgroup'}"
    denied = [
        f"{number:,} {what}"
        for number, what in (
            (use.limit_hits, "allocations met the limit"),
            (use.reclaims, f"direct reclaims ({frame.duration(use.reclaim_ns)})"),
            (use.refaults, "pages read again"),
            (use.oom_kills, "killed for lack of memory"),
        )
        if number
    ]
    bad = use.oom_kills or use.limit_hits
    return [*lines, pair("memory limit", "; ".join([memory, *denied]), "warn" if bad else "text")]


# ---- processes


def processes(facts: RowFacts, frame: Frame) -> Section:
    """Return the processes of the row and the resources that they use."""
    found = facts.processes
    lines = [heading(f"Processes: {len(found)}")]
    if not found:
        return Section("processes", (*lines, note("none: nobody made a call within this window")))
    head = (
        f"  {'PID':>7} {'NAME':15} {'THR':>4} {'CPU':>5} {'RSS':>7} {'GPU':>7} {'READ/S':>6} {'WRITE/S':>7}"
    )
    lines.append(PageLine(((head, "dim"),)))
    lines += [_process(use, facts, frame) for use in found[:MOST_LISTED]]
    lines += more(len(found) - MOST_LISTED)
    if any(use.link in WAKES for use in found[:MOST_LISTED]):
        lines.append(note("w: makes no traced call itself, but wakes those that do"))
    return Section("processes", tuple(lines))


def _process(use: ProcessUse, facts: RowFacts, frame: Frame) -> PageLine:
    window, glyphs = facts.window, frame.glyphs
    seconds = window.seconds or 1.0
    measured = use in window.evidence.processes
    moved = {
        write: sum(
            io.bytes for io in window.evidence.block_io if _same(io.tenant, io.pid, use) and io.write == write
        )
        for write in (False, True)
    }
    cells = (
        f"{use.pid:>7}",
        "w" if use.link in WAKES else " ",
        figures.fit(use.process, 15, glyphs),
        f"{use.threads:>3}" if use.threads else figures.missing(3, glyphs),
        figures.percent(100 * use.cpu_ns / seconds / 1e9 if measured else None, glyphs),
        figures.memory(use.rss_bytes or None, glyphs),
        figures.memory(_on_devices(facts, use), glyphs),
        figures.size(moved[False] / seconds if measured else None, glyphs),
        figures.size(moved[True] / seconds if measured else None, glyphs).rjust(7),
    )
    about = _also(use, facts) if frame.width >= 100 else ""
    return PageLine((("  " + " ".join(cells), "text"), (f"  {about}" if about else "", "dim")), indent=4)


def _same(tenant: str, pid: int, use: ProcessUse) -> bool:
    return (tenant, pid) == (use.tenant, use.pid)


def _on_devices(facts: RowFacts, use: ProcessUse) -> int | None:
    """Return the device memory of a process in bytes: the sum that the devices list, or if they list none,
    the sum of the traced allocations."""
    listed = [
        holder.memory_bytes
        for _, holders in facts.devices
        for holder in holders
        if _same(holder.tenant, holder.pid, use) and holder.memory_bytes is not None
    ]
    return sum(listed) if listed else use.held_bytes


def _also(use: ProcessUse, facts: RowFacts) -> str:
    """Return other facts about a process that are shown if there is room."""
    said = [name_of(use.tenant, facts.window)] if len(facts.tenants) > 1 else []
    said += [f"CPUs {use.allowed}"] if use.allowed else []
    said += [f"nice {use.nice}"] if use.nice else []
    said += [numbered(use.major_faults, "major fault")] if use.major_faults else []
    said += [f"swapped {figures.memory(use.swap_bytes).strip()}"] if use.swap_bytes else []
    resent = use.retransmits_v4 + use.retransmits_v6
    said += [f"{numbered(resent, 'TCP segment')} retransmitted"] if resent else []
    return ", ".join(said)


# ---- devices


def devices(facts: RowFacts, frame: Frame) -> Section:
    """Return the devices on which processes of the row hold a context."""
    lines = [heading("Devices it uses", f"{key('devices')}: all devices")]
    every = facts.window.devices
    if not every.devices:
        why = every.unavailable or "none found"
        return Section("devices", (*lines, note(f"not known: {why}")))
    if not facts.devices:
        return Section("devices", (*lines, note("none: no device lists a process of this row")))
    for device, holders in facts.devices[:MOST_LISTED]:
        lines.append(_device(device, holders, frame))
    lines += more(len(facts.devices) - MOST_LISTED)
    if any(len(device.processes) > len(holders) for device, holders in facts.devices):
        lines.append(note("others share a device with it; the page of the GPU says what is known of each"))
    return Section("devices", tuple(lines))


def _device(device: Device, holders: tuple[DeviceProcess, ...], frame: Frame) -> PageLine:
    known = [holder.memory_bytes for holder in holders if holder.memory_bytes is not None]
    held = figures.memory(sum(known) if known else None, frame.glyphs).strip()
    total = figures.memory(device.memory_total_bytes, frame.glyphs).strip()
    busy = figures.percent(device.utilization_percent, frame.glyphs).strip()
    said = f"{device.name}: the row holds {held} of {total}; the device is {busy} busy"
    others = len(device.processes) - len(holders)
    said += f"; {numbered(others, 'other process', 'other processes')}" if others else ""
    parts = [(f"  GPU {device.index}".ljust(10), "label"), (said, "text")]
    if device.throttle_reasons:
        parts.append(("; throttled: " + ", ".join(device.throttle_reasons), "warn"))
    return PageLine(tuple(parts), indent=10)


# ---- what is not known


def unknown(facts: RowFacts, frame: Frame) -> Section:
    """Return the section about what the figures of the page do not contain."""
    window = facts.window
    lines = [heading("What is not known")]
    pids = {use.pid for use in facts.processes}
    for gap in window.coverage.missing:
        if (gap.pid and gap.pid in pids) or (gap.tenant and gap.tenant in facts.tenants):
            who = f"process {gap.pid}, {gap.what}" if gap.pid else gap.what
            lines.append(note(f"not traced: {who}: {gap.reason}", "warn"))
    if window.coverage.tracing:
        lines.append(note(f"nothing is traced: {window.coverage.tracing}", "warn"))
    lost = [(name, window.loss[name]) for name in UNCOUNTED if window.loss.get(name)]
    said = (counted(count, LOSSES[name]) for name, count in lost)
    lines += [note(f"on this host, perhaps of this row: {text}", "warn") for text in said]
    calls = int(facts.groups.calls[0])
    if 0 < calls < 100:
        lines.append(note(f"only {numbered(calls, 'call')}: p99 needs 100 to be reliable, p95 needs 20"))
    lines += [note(f"not measured: {text}") for text in window.evidence.unknown[:MOST_LISTED]]
    lines += more(len(window.evidence.unknown) - MOST_LISTED)
    return Section("unknown", tuple(lines) if len(lines) > 1 else ())
