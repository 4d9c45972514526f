"""Checks whether this host can be traced and what will be missing, with one small check for each subject.

A check reports what it finds and what to do about it. No check changes anything. The check ``trial`` decides:
it traces a function of stalltop's own, and succeeds only if every call is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from stalltop.model.errors import TracingError
from stalltop.model.finding import Finding, can_trace
from stalltop.model.text.clean import clean
from stalltop.model.text.words import numbered
from stalltop.probes.programs.bcc_interpreter import INSTALL_BCC
from stalltop.probes.readiness.surroundings import Surroundings
from stalltop.probes.readiness.tenants import allocations, pods, runtimes
from stalltop.probes.tenants.cgroups import layout

OLDEST_KERNEL = (5, 15)
"""The first Linux with attach cookies for uprobes."""
UPROBE_MULTI_KERNEL = (6, 6)
MACHINES = ("x86_64", "aarch64")
CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF = 19, 21, 38, 39
"""Bits of capability sets (linux/capability.h)."""
INITIAL_NAMESPACES = {"user": 0xEFFFFFFD, "pid": 0xEFFFFFFC, "cgroup": 0xEFFFFFFB}
"""Inodes of the host's own namespaces (linux/proc_ns.h)."""
OPEN_FILES = 4096
"""Number of open files that is enough for a perf event and a link for each probe. Only Linux kernels without
uprobe_multi need that many."""
SMALLEST_SCREEN = (60, 15)
"""Smallest number of columns and rows with which the live screen works."""


def check(surroundings: Surroundings) -> tuple[Finding, ...]:
    """Returns all findings, in the order of their importance. Never raises."""
    findings: list[Finding] = []
    for name, look in CHECKS:
        findings.append(_looked(name, look, surroundings))
    if can_trace(findings):  # If tracing is impossible, the trial would fail for the same reason.
        findings.insert(len(BASICS), _looked("trial", _trial, surroundings))
    return tuple(findings)


def _looked(name: str, look: Callable[[Surroundings], Finding], surroundings: Surroundings) -> Finding:
    try:
        return look(surroundings)
    except Exception as error:  # If a check fails, the others must still be shown.
        return Finding(name, "warn", clean(f"could not be checked: {type(error).__name__}: {error}"))


def _release(surroundings: Surroundings) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", surroundings.release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _kernel(surroundings: Surroundings) -> Finding:
    if _release(surroundings) < OLDEST_KERNEL:
        # This is only a warning, because distributions add newer parts of Linux to older releases. The trial
        # decides.
        wanted = "{}.{}".format(*OLDEST_KERNEL)
        return Finding(
            "kernel",
            "warn",
            f"Linux {surroundings.release}: most Linux kernels of this age cannot be traced",
            f"use Linux {wanted} or later",
        )
    return Finding("kernel", "ok", f"Linux {surroundings.release}")


def _architecture(surroundings: Surroundings) -> Finding:
    if surroundings.machine in MACHINES:
        return Finding("architecture", "ok", surroundings.machine)
    return Finding(
        "architecture", "fail", surroundings.machine, f"only {' and '.join(MACHINES)} can be traced"
    )


def _privileges(surroundings: Surroundings) -> Finding:
    status = surroundings.text("proc/self/status") or ""
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    users = re.search(r"^Uid:\s*\d+\s+(\d+)", status, re.MULTILINE)
    held = int(effective[1], 16) if effective else 0
    root = users is not None and users[1] == "0"
    if held >> CAP_SYS_ADMIN & 1 or (held >> CAP_BPF & 1 and held >> CAP_PERFMON & 1):
        who = "root" if root else "not root, but with the capabilities that tracing needs"
        if not held >> CAP_SYS_PTRACE & 1:
            return Finding(
                "privileges",
                "warn",
                "without CAP_SYS_PTRACE: libraries of other users' processes are not found",
                "grant CAP_SYS_PTRACE too, or run with sudo",
            )
        return Finding("privileges", "ok", who)
    if root:
        return Finding(
            "privileges",
            "fail",
            "root, but without the capabilities that tracing needs (in a container?)",
            "run on the host, or with --privileged --pid=host --cgroupns=host",
        )
    paranoid = surroundings.text("proc/sys/kernel/perf_event_paranoid")
    seen = "not root" + (f" (kernel.perf_event_paranoid is {paranoid})" if paranoid else "")
    return Finding(
        "privileges", "fail", seen, "run with sudo, or grant CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE"
    )


def _namespaces(surroundings: Surroundings) -> Finding:
    foreign = [
        kind for kind, inode in INITIAL_NAMESPACES.items() if surroundings.namespace(kind) not in (inode, 0)
    ]
    if "user" in foreign:
        return Finding(
            "namespaces",
            "fail",
            "inside a user namespace: its root may not trace the host",
            "run on the host",
        )
    if "pid" in foreign:
        return Finding(
            "namespaces",
            "warn",
            "inside a container: only its own processes are seen",
            "run on the host, or with --pid=host --cgroupns=host and the host's /sys/fs/cgroup",
        )
    if "cgroup" in foreign:
        return Finding(
            "namespaces",
            "warn",
            "inside a cgroup namespace: other containers may be shown by their ids only",
            "run on the host, or with --cgroupns=host",
        )
    return Finding("namespaces", "ok", "the host's own")


def _lockdown(surroundings: Surroundings) -> Finding:
    text = surroundings.text("sys/kernel/security/lockdown")
    chosen = re.search(r"\[(\w+)\]", text or "")
    mode = chosen[1] if chosen else "none"
    if mode == "confidentiality":
        return Finding(
            "lockdown",
            "fail",
            "confidentiality: the kernel lets no program read other processes",
            "boot with lockdown=integrity",
        )
    return Finding("lockdown", "ok", mode)


def _bcc(surroundings: Surroundings) -> Finding:
    try:
        return Finding("bcc", "ok", f"BCC {clean(surroundings.bcc())}")
    except ImportError as error:
        if surroundings.kept():
            return Finding(
                "bcc", "ok", "not usable here, and not needed: the compiled BPF programs are stored"
            )
        return Finding(
            "bcc",
            "fail",
            clean(f"BCC cannot be used: {error}"),
            INSTALL_BCC,
        )


def _uprobes(surroundings: Surroundings) -> Finding:
    if _release(surroundings) >= UPROBE_MULTI_KERNEL:
        return Finding("uprobes", "ok", "uprobe_multi: all probes of a file at once")
    if surroundings.exists("sys/bus/event_source/devices/uprobe/type"):
        return Finding(
            "uprobes",
            "warn",
            "one perf event per probe: starting and stopping take longer",
            "Linux 6.6 or later attaches all probes of a file at once",
        )
    return Finding(
        "uprobes",
        "fail",
        "the kernel offers no uprobes",
        "use a kernel with CONFIG_UPROBE_EVENTS (and /sys mounted)",
    )


def _jit(surroundings: Surroundings) -> Finding:
    if surroundings.text("proc/sys/net/core/bpf_jit_enable") == "0":
        return Finding(
            "bpf jit",
            "warn",
            "off: probes cost several times as much",
            "sysctl net.core.bpf_jit_enable=1",
        )
    return Finding("bpf jit", "ok", "on")


def _btf(surroundings: Surroundings) -> Finding:
    if surroundings.exists("sys/kernel/btf/vmlinux"):
        return Finding("btf", "ok", "there")
    return Finding(
        "btf",
        "warn",
        "none: calls are counted, but their time is not split and no culprits are found",
        "run a kernel built with CONFIG_DEBUG_INFO_BTF; a container must see the host's /sys/kernel/btf",
    )


def _tracefs(surroundings: Surroundings) -> Finding:
    for place in ("sys/kernel/tracing", "sys/kernel/debug/tracing"):
        if surroundings.exists(f"{place}/events"):
            return Finding("tracefs", "ok", f"at /{place}")
    return Finding("tracefs", "ok", "not mounted; counting calls does not need it")


def _limits(surroundings: Surroundings) -> Finding:
    soft, hard = surroundings.open_files
    most = "unlimited" if hard < 0 else str(hard)
    if 0 <= hard < OPEN_FILES:
        return Finding(
            "open files",
            "warn",
            f"at most {most}: a busy host may need more",
            f"ulimit -Hn {OPEN_FILES}, or LimitNOFILE in a unit",
        )
    return Finding("open files", "ok", f"{soft}, raised to {most}" if soft != hard else most)


def _trial(surroundings: Surroundings) -> Finding:
    try:
        seen, not_kept = surroundings.trial()
        if not_kept:
            seen = f"{seen}; every start compiles the BPF programs, which cannot be stored: {clean(not_kept)}"
            return Finding(
                "trial", "warn", seen, "make room for them in a folder that only this user can write to"
            )
        return Finding("trial", "ok", seen)
    except TracingError as reason:
        return Finding("trial", "fail", clean(reason.reason), clean(reason.remedy))


def _cgroups(surroundings: Surroundings) -> Finding:
    found = layout(surroundings.root)
    if found.kind == "unified":
        return Finding("cgroups", "ok", "v2")
    if found.kind == "none":
        return Finding(
            "cgroups",
            "warn",
            "none mounted: tenants are identified by their processes alone",
            "mount -t cgroup2 cgroup2 /sys/fs/cgroup",
        )
    kind = "v1 and v2" if found.kind == "hybrid" else "v1"
    return Finding("cgroups", "ok", f"{kind}; containers are identified by their processes' paths")


def _cuda(surroundings: Surroundings) -> Finding:
    use = surroundings.cuda()
    parts = [f"{name} in {_processes(count)}" for name, count in sorted(use.processes.items())]
    seen = (
        f"mapped: {', '.join(parts)}"
        if parts
        else "no process uses one now; processes that start later are found"
    )
    if use.hidden:
        seen += f" ({_processes(use.hidden)} could not be read)"
    if not use.complete:
        seen += " (not all processes were read)"
    return Finding("cuda libraries", "ok", seen)


def _processes(count: int) -> str:
    return numbered(count, "process", "processes")


def _gpu(surroundings: Surroundings) -> Finding:
    devices = surroundings.devices()
    if devices.unavailable:
        return Finding(
            "gpu",
            "warn",
            clean(devices.unavailable),
            "calls are traced even so; only the figures of the GPUs need the NVIDIA driver",
        )
    names = [device.name for device in devices.devices]
    counted = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    notes = sorted({note for device in devices.devices for note in device.notes})
    told = f" ({'; '.join(notes)})" if notes else ""
    return Finding("gpu", "ok", f"{counted}, driver {devices.driver}{told}")


def _compiler(surroundings: Surroundings) -> Finding:
    for name in ("cc", "gcc", "clang"):
        if found := surroundings.program(name):
            return Finding("compiler", "ok", f"{clean(found)} (for `demo`)")
    return Finding(
        "compiler",
        "warn",
        "none: `demo` shows simulated tenants",
        "install gcc and the C library's headers (apt install gcc libc6-dev)",
    )


def _terminal(surroundings: Surroundings) -> Finding:
    terminal, environment = surroundings.terminal, surroundings.environment
    if terminal is None:
        return Finding(
            "terminal", "ok", "stdout is not a terminal: `stalltop` prints one window, as `once` does"
        )
    kind = clean(environment.get("TERM", ""))
    if kind in ("", "dumb"):
        return Finding(
            "terminal",
            "warn",
            f"TERM is {kind or 'not set'}: no live screen",
            "use `stalltop once`, or set TERM to the terminal's type",
        )
    size = f"{terminal.columns}x{terminal.rows}"
    unicode = terminal.encoding.lower().replace("-", "") == "utf8"
    seen = (
        f"{kind}, {size}, {'UTF-8' if unicode else 'no UTF-8: drawn in ASCII'}, {_colours(kind, environment)}"
    )
    if terminal.columns < SMALLEST_SCREEN[0] or terminal.rows < SMALLEST_SCREEN[1]:
        least = "{}x{}".format(*SMALLEST_SCREEN)
        return Finding("terminal", "warn", seen, f"enlarge it to {least} or more")
    if not unicode:
        return Finding("terminal", "warn", seen, "set LANG to a UTF-8 locale, such as C.UTF-8")
    return Finding("terminal", "ok", seen)


def _colours(kind: str, environment: Mapping[str, str]) -> str:
    if environment.get("NO_COLOR"):
        return "no colours (NO_COLOR)"
    if environment.get("COLORTERM") in ("truecolor", "24bit") or kind.endswith("-direct"):
        return "16 million colours"
    return "256 colours" if "256" in kind else "16 colours"


BASICS: tuple[tuple[str, Callable[[Surroundings], Finding]], ...] = (
    ("kernel", _kernel),
    ("architecture", _architecture),
    ("privileges", _privileges),
    ("namespaces", _namespaces),
    ("lockdown", _lockdown),
    ("bcc", _bcc),
    ("uprobes", _uprobes),
)
"""Checks of what is indispensable for tracing."""
CHECKS = (
    *BASICS,
    ("bpf jit", _jit),
    ("btf", _btf),
    ("tracefs", _tracefs),
    ("open files", _limits),
    ("cgroups", _cgroups),
    ("containers", runtimes),
    ("pods", pods),
    ("cuda libraries", _cuda),
    ("gpu", _gpu),
    ("gpu allocations", allocations),
    ("compiler", _compiler),
    ("terminal", _terminal),
)
