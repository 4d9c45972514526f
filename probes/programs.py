"""The programs of ``bpf/`` in the kernel: their source put together, loaded, their maps mapped."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import platform
import re
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

import bpf
from model.errors import CannotTrace
from probes import layout, load_programs
from probes.bpf_calls import UPROBE_MULTI, map_memory
from probes.ring import Ring
from probes.task_offsets import TaskOffsets

SOURCE: Final = Path(bpf.__file__).parent
OLDEST_KERNEL: Final = (5, 15)
"""The first with attach cookies for probes (bpf_get_attach_cookie)."""
LOAD_SECONDS: Final = 60.0
"""How long compiling may take before it counts as hung; it takes well under a second."""
RING_BYTES: Final = 512 << 10
"""Room for calls that are kept one by one until they are read: 2,700, which is what ten seconds bring."""
INSTALL_BCC: Final = "install it: apt install python3-bpfcc (PyPI's bcc is another program)"

_INCLUDE: Final = re.compile(r'#include "([^"]+)"\s*')
_INITIAL_PID_NAMESPACE: Final = 0xEFFFFFFC
"""Inode of the host's own (PROC_PID_INIT_INO of linux/proc_ns.h)."""
_CAP_SYS_ADMIN: Final = 21
_CAP_PERFMON: Final = 38
_CAP_BPF: Final = 39


@dataclass(frozen=True)
class Programs:
    """Descriptors of what was loaded, by the names in ``bpf/``."""

    entry: int
    returns: int
    ends: int
    execs: int
    switches: int
    """-1, as the next two and all about charges, where calls are not split."""
    wakes: int
    moves: int
    functions: int
    slot_of: int
    free_slots: int
    free_threads: int
    charge_of: int
    free_charges: int
    heap_of: int
    pieces: int
    free_heaps: int
    activity_of: int
    free_activities: int
    member_of: int
    free_members: int
    naming: int
    named: int
    choosing: int
    chosen: int
    cuda_programs: int
    older_programs: int
    kernel_of: int
    free_kernels: int
    told_programs: int
    registered: int
    slots: NDArray[np.void]
    """Mapped, dtype ``layout.SLOT``; the same for the other arrays. The kernel changes them at any time."""
    owners: NDArray[np.void]
    threads: NDArray[np.void]
    losses: NDArray[np.void]
    charges: NDArray[np.void] | None
    heaps: NDArray[np.void]
    activities: NDArray[np.void]
    members: NDArray[np.void]
    kernels: NDArray[np.void]
    launched: NDArray[np.void]
    keeping: NDArray[np.void]
    kept_calls: Ring

    def close(self) -> None:
        """Let go of the programs and maps; the mapped arrays stay readable while they are referred to."""
        for fd in (
            self.entry,
            self.returns,
            self.ends,
            self.execs,
            self.switches,
            self.wakes,
            self.moves,
            self.functions,
            self.slot_of,
            self.free_slots,
            self.free_threads,
            self.charge_of,
            self.free_charges,
            self.heap_of,
            self.pieces,
            self.free_heaps,
            self.activity_of,
            self.free_activities,
            self.member_of,
            self.free_members,
            self.naming,
            self.named,
            self.choosing,
            self.chosen,
            self.cuda_programs,
            self.older_programs,
            self.kernel_of,
            self.free_kernels,
            self.told_programs,
            self.registered,
        ):
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)


_MAPS: Final = (
    *("functions", "slots", "owners", "slot_of", "free_slots", "threads", "free_threads", "losses"),
    *("heaps", "heap_of", "pieces", "free_heaps", "members", "member_of", "free_members"),
    *("activities", "activity_of", "free_activities"),
    *("kernels", "launched", "kernel_of", "free_kernels", "told_programs", "registered"),
    *("cuda_programs", "older_programs"),
    *("keeping_of", "kept_calls"),
)
_PROBES: Final = (
    *("call_begins", "call_returns", "naming_begins", "naming_returns"),
    *("choosing_begins", "choosing_returns"),
)
_RAW_TRACEPOINTS: Final = ("thread_ends", "program_begins")
_SPLITTING: Final = ("thread_switches", "thread_wakes", "thread_moves")
"""Raw tracepoints that are there only where calls are split, as the next maps."""
_CHARGING: Final = ("charges", "charge_of", "free_charges")


def source_text(name: str = "trace.c") -> str:
    """A file of ``bpf/`` with its own headers in place: BCC understands maps in one text only."""
    included: set[str] = set()

    def lines_of(name: str) -> list[str]:
        lines = [f'#line 1 "{name}"']
        for number, line in enumerate((SOURCE / name).read_text().splitlines(), 1):
            found = _INCLUDE.fullmatch(line)
            if found is None:
                lines.append(line)
            elif found[1] in included:
                lines.append("")
            else:
                included.add(found[1])
                lines += [*lines_of(found[1]), f'#line {number + 1} "{name}"']
        return lines

    return "\n".join(lines_of(name)) + "\n"


def load(
    slots: int,
    threads: int,
    *,
    multi: bool,
    task: TaskOffsets | None = None,
    ring_bytes: int = RING_BYTES,
) -> Programs:
    """Compile and load the programs, for uprobe_multi links or (not ``multi``) for perf events.

    ``task`` tells where the kernel keeps what splitting the time of calls needs; without it, none is split.
    ``ring_bytes`` is the room for calls that are kept one by one: a power of two, and whole pages. Raises
    CannotTrace with the reason and the remedy.
    """
    flags = [f"-DSLOTS={slots}", f"-DTHREADS={threads}", *pid_namespace()]
    flags += [f"-DRING_PAGES={ring_bytes // mmap.PAGESIZE}", f"-DPAGE_SIZE={mmap.PAGESIZE}"]
    if task is not None:
        flags += ["-DWITH_SPLITS", f"-DCPUS={possible_cpus()}", *task.definitions()]
    request: dict[str, object] = {
        "text": source_text(),
        "cflags": flags,
        "headers": str(SOURCE / "headers"),
        "maps": _MAPS if task is None else _MAPS + _CHARGING,
        "probes": _PROBES,
        "raw_tracepoints": _RAW_TRACEPOINTS if task is None else _RAW_TRACEPOINTS + _SPLITTING,
        "attach_type": UPROBE_MULTI if multi else -1,
    }
    fds = load_beside(request)
    try:
        return Programs(
            entry=fds["call_begins"],
            returns=fds["call_returns"],
            ends=fds["thread_ends"],
            execs=fds["program_begins"],
            switches=fds.get("thread_switches", -1),
            wakes=fds.get("thread_wakes", -1),
            moves=fds.get("thread_moves", -1),
            functions=fds["functions"],
            slot_of=fds["slot_of"],
            free_slots=fds["free_slots"],
            free_threads=fds["free_threads"],
            charge_of=fds.get("charge_of", -1),
            free_charges=fds.get("free_charges", -1),
            heap_of=fds["heap_of"],
            pieces=fds["pieces"],
            free_heaps=fds["free_heaps"],
            activity_of=fds["activity_of"],
            free_activities=fds["free_activities"],
            member_of=fds["member_of"],
            free_members=fds["free_members"],
            naming=fds["naming_begins"],
            named=fds["naming_returns"],
            choosing=fds["choosing_begins"],
            chosen=fds["choosing_returns"],
            cuda_programs=fds["cuda_programs"],
            older_programs=fds["older_programs"],
            kernel_of=fds["kernel_of"],
            free_kernels=fds["free_kernels"],
            told_programs=fds["told_programs"],
            registered=fds["registered"],
            slots=_mapped(fds.pop("slots"), layout.SLOT, slots),
            owners=_mapped(fds.pop("owners"), layout.OWNER, slots),
            threads=_mapped(fds.pop("threads"), layout.THREAD, threads),
            losses=_mapped(fds.pop("losses"), layout.LOSSES, 1),
            charges=None if task is None else _mapped(fds.pop("charges"), layout.CHARGE, layout.CHARGES),
            heaps=_mapped(fds.pop("heaps"), layout.HEAP, layout.HEAPS),
            activities=_mapped(fds.pop("activities"), layout.ACTIVITY, layout.ACTIVITIES),
            members=_mapped(fds.pop("members"), layout.MEMBER, layout.MEMBERS),
            kernels=_mapped(fds.pop("kernels"), layout.KERNEL, layout.KERNELS),
            launched=_mapped(fds.pop("launched"), layout.LAUNCHED, layout.KERNELS),
            keeping=_mapped(fds.pop("keeping_of"), layout.KEEPING, 1),
            kept_calls=_ring(fds.pop("kept_calls"), ring_bytes, layout.KEPT_CALL),
        )
    except BaseException as error:
        for fd in fds.values():
            os.close(fd)
        if isinstance(error, OSError):
            raise CannotTrace(f"the kernel's counters could not be mapped: {error}") from error
        raise


def possible_cpus() -> int:
    """One more than the highest number that a CPU can have on this host."""
    # "0-3,8-11"; without it, the most that x86-64 kernels of distributions are built for.
    try:
        return int(re.split("[-,]", Path("/sys/devices/system/cpu/possible").read_text())[-1]) + 1
    except (OSError, ValueError):
        return 8192


def _mapped(fd: int, dtype: np.dtype[np.void], n: int) -> NDArray[np.void]:
    """The array of a map, which lives as long as it is referred to; ``fd`` is closed."""
    try:
        memory: NDArray[np.uint8] = np.ctypeslib.as_array(map_memory(fd, dtype.itemsize * n))
        return memory.view(dtype)
    finally:
        os.close(fd)


def _ring(fd: int, size: int, record: np.dtype[np.void]) -> Ring:
    """The ring of a map, the same way."""
    try:
        return Ring(fd, size, record)
    finally:
        os.close(fd)


def load_beside(request: dict[str, object]) -> dict[str, int]:
    """Descriptors by name of what ``request`` (see ``probes.load_programs``) asks for.

    Compiled in a process of its own. Raises CannotTrace with the reason and the remedy.
    """
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            try:
                done = subprocess.run(
                    [sys.executable, "-P", load_programs.__file__, str(theirs.fileno())],
                    input=json.dumps(request).encode(),
                    capture_output=True,
                    pass_fds=[theirs.fileno()],
                    cwd="/",  # the compiler wants one that exists
                    timeout=LOAD_SECONDS,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise CannotTrace(f"the kernel's programs could not be compiled: {error}") from error
        message, fds, _, _ = socket.recv_fds(ours, 65536, 64)
    told = done.stderr.decode(errors="replace")
    answer = (
        json.loads(message) if message else {"failed": "compile", "detail": f"exit status {done.returncode}"}
    )
    if "failed" in answer:
        for fd in fds:
            os.close(fd)
        raise _reason(str(answer["failed"]), str(answer["detail"]), told)
    return dict(zip(answer["names"], fds, strict=True))


def _reason(failed: str, detail: str, told: str) -> CannotTrace:
    if failed == "import":
        return CannotTrace(f"BCC is missing ({detail})", INSTALL_BCC)
    complaints = [line.strip() for line in told.splitlines() if line.strip()]
    named = [line for line in complaints if "error:" in line] or complaints
    why = f"{detail}: {named[0] if failed == 'compile' else named[-1]}" if named else detail
    if "Operation not permitted" in told or "super-user" in detail:
        return CannotTrace(
            f"this user or container may not load eBPF programs ({why})",
            "run as root on the host; a container needs --privileged (its seccomp profile must allow bpf())",
        )
    return CannotTrace(
        f"the kernel's programs could not be {failed}ed: {why}".replace("compileed", "compiled")
    )


def check_host() -> None:
    """Raise CannotTrace where it is plain beforehand that nothing can be traced here."""
    machine = platform.machine()
    if machine not in ("x86_64", "aarch64"):
        raise CannotTrace(f"{machine} is not supported", "x86-64 and aarch64 are")
    capabilities = _capabilities()
    if not capabilities >> _CAP_SYS_ADMIN & 1 and not (
        capabilities >> _CAP_BPF & 1 and capabilities >> _CAP_PERFMON & 1
    ):
        raise CannotTrace(
            "tracing needs root", "run with sudo, or grant CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE"
        )
    with contextlib.suppress(OSError):
        if "[confidentiality]" in Path("/sys/kernel/security/lockdown").read_text():
            raise CannotTrace(
                "the kernel is locked down (confidentiality): it lets no program read other processes",
                "boot with lockdown=integrity or without Secure Boot's lockdown",
            )


def pid_namespace() -> list[str]:
    """Definitions for the programs where this process is in a PID namespace of its own: processes are told by
    the numbers that they have in it."""
    try:
        namespace = os.stat("/proc/self/ns/pid")
    except OSError:
        return []
    if namespace.st_ino == _INITIAL_PID_NAMESPACE:
        return []
    device = os.major(namespace.st_dev) << 20 | os.minor(namespace.st_dev)  # as the kernel writes it
    return [f"-DPID_NAMESPACE={namespace.st_ino}ULL", f"-DPID_NAMESPACE_DEVICE={device}ULL"]


def explained(reason: CannotTrace) -> CannotTrace:
    """Why tracing failed: an old kernel rather than what it could not do.

    Its number alone tells too little: distributions bring newer parts of the kernel to older ones.
    """
    release = platform.release()
    version = re.match(r"(\d+)\.(\d+)", release)
    if version and (int(version[1]), int(version[2])) < OLDEST_KERNEL:
        return CannotTrace(
            f"the kernel ({release}) is too old: {reason.reason}", "tracing needs Linux 5.15 or later"
        )
    return reason


def _capabilities() -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("CapEff:"):
                return int(line.split()[1], 16)
    return 0
