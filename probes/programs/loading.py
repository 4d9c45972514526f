"""Loads the BPF programs of ``bpf/`` into the Linux kernel and maps their arrays."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stalltop.model.errors import TracingError
from stalltop.model.progress import Progress
from stalltop.probes import layout
from stalltop.probes.programs import cache as program_cache
from stalltop.probes.programs.bpf_calls import (
    UPROBE_MULTI,
    UPROBE_SESSION,
    BpfError,
    map_info,
    map_memory,
    put,
)
from stalltop.probes.programs.compiled import Compiled, possible_cpus
from stalltop.probes.programs.growing_map import GrowingMap
from stalltop.probes.programs.later import LaterProgram
from stalltop.probes.programs.octave_blocks import BLOCK_BYTES, OctaveBlocks, most_blocks
from stalltop.probes.programs.pools import Pools
from stalltop.probes.programs.preparing import Prepared, may_not, prepare
from stalltop.probes.programs.recipes import (
    CLOCK,
    FILLING,
    FREEING,
    SAMPLE_READERS,
    SAMPLES,
    SESSION,
    STACK_READER,
    Recipe,
    tracing,
)
from stalltop.probes.programs.recipes import RING_BYTES as RING_SIZE
from stalltop.probes.programs.ring import Ring
from stalltop.probes.programs.task_offsets import TaskOffsets
from stalltop.probes.programs.thread_records import ThreadRecords
from stalltop.probes.stacks.layout import STACK

_T = TypeVar("_T", bound=np.generic)
OLDEST_KERNEL: Final = (5, 15)
"""The first Linux with attach cookies for probes (bpf_get_attach_cookie)."""
RING_BYTES: Final = 512 << 10
"""Size of the ring of captured calls, and of the ring of their stacks. The first has room for 2,600 calls of
200 bytes. Fewer calls than that are captured in ten seconds, even at the limits of
``probes.maps.kept_calls``."""
MEMORY: Final = 256 << 20
"""Default of the most memory in the Linux kernel, in bytes."""
_INITIAL_PID_NAMESPACE: Final = 0xEFFFFFFC
"""Inode of the initial PID namespace (PROC_PID_INIT_INO of linux/proc_ns.h)."""
_CAP_SYS_ADMIN: Final = 21
_CAP_PERFMON: Final = 38
_CAP_BPF: Final = 39


@dataclass(frozen=True)
class Programs:
    """The result of loading: descriptors of programs and maps, and mapped arrays. Maps have the same names as
    in ``bpf/``, except for ``keeping``, which is ``keeping_of`` there; `_DESCRIPTORS` gives the names of
    programs there."""

    entry: int
    returns: int
    ends: int
    execs: int
    regroups: int
    switches: int
    """Descriptor; -1 if calls are not split. The same holds for ``wakes``, ``moves`` and ``charge_of``."""
    wakes: int
    moves: int
    functions: int
    slot_of: int
    charge_of: int
    heap_of: int
    pieces: int
    activity_of: int
    member_of: int
    naming: int
    named: int
    choosing: int
    chosen: int
    cuda_programs: int
    older_programs: int
    kernel_of: int
    told_programs: int
    looked_up: int
    generation_of: int
    lookups: int
    device_of_context: int
    choices: int
    accounts: int
    cgroup_accounts: int
    registered: int
    python_threads: int
    stack_readers: int
    sample_readers: int
    """-1 if calls are not split."""
    fixed_bytes: int
    """Memory of the maps in the Linux kernel, without blocks of octaves, and of the programs."""
    slots: GrowingMap
    """Elements have the dtype ``layout.SLOT``."""
    octaves: OctaveBlocks
    left_in: NDArray[np.int64]
    """Number of free records by pool."""
    turnovers: NDArray[np.void]
    owners: NDArray[np.void]
    """Mapped array, dtype ``layout.OWNER``. The other arrays are mapped in the same way. BPF programs may
    change them at any time."""
    thread_records: ThreadRecords
    losses: NDArray[np.void]
    charges: NDArray[np.void] | None
    off_cpu: GrowingMap | None
    """None if calls are not split; the same holds for ``charges``."""
    heaps: NDArray[np.void]
    activities: NDArray[np.void]
    members: NDArray[np.void]
    kernels: GrowingMap
    launched: NDArray[np.void]
    keeping: NDArray[np.void]
    kept_calls: Ring
    stacks: Ring
    samples: Ring
    pools: Pools
    session: LaterProgram
    """The program of sessions (``bpf/timed.h``)."""
    clock: LaterProgram
    """The program at the clocks of CPUs (``bpf/stacks/samples.h``)."""
    complaint: str
    """Why compiled programs are not cached for the next start; '' if they are."""

    @property
    def threads(self) -> NDArray[np.void]:
        """Returns the records of threads that were ever in use (``ThreadRecords.taken``)."""
        return self.thread_records.taken

    def close(self) -> None:
        """Closes the programs and maps; the mapped arrays stay readable while they are referred to."""
        self.session.close()
        self.clock.close()
        self.pools.close()
        for growing in (self.slots, self.octaves, self.kernels, self.off_cpu, self.thread_records):
            if growing is not None:
                growing.close()
        for name in _DESCRIPTORS:
            fd = getattr(self, name)
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)


_DESCRIPTORS: Final = {
    field.name: {
        "entry": "call_begins",
        "returns": "call_returns",
        "ends": "thread_ends",
        "execs": "program_begins",
        "regroups": "task_changes_cgroup",
        "switches": "thread_switches",
        "wakes": "thread_wakes",
        "moves": "thread_moves",
        "naming": "naming_begins",
        "named": "naming_returns",
        "choosing": "choosing_begins",
        "chosen": "choosing_returns",
    }.get(field.name, field.name)
    for field in fields(Programs)
    if field.type == "int" and field.name != "fixed_bytes"
}
"""Names of the fields that are descriptors, with the names of these programs and maps in ``bpf/``."""


def load(
    slots: int,
    threads: int,
    *,
    multi: bool,
    memory: int = MEMORY,
    task: TaskOffsets | None = None,
    ring_bytes: int = RING_BYTES,
    progress: Progress | None = None,
) -> Programs:
    """Compiles and loads the programs: for uprobe_multi links if ``multi`` is set, otherwise for perf events.

    ``memory`` is the most memory, in bytes, that all maps may use: maps of fixed size are created even if
    they are larger, and one block of octaves. ``task`` holds the offsets that are needed to split the time of
    calls; without it, no call is split. ``ring_bytes`` is the room for captured calls: a power of two, and
    whole pages. Raises TracingError with the reason and the remedy.
    """
    namespace = pid_namespace()
    offsets = {} if task is None else task.values()
    blocks = most_blocks(slots, memory)
    values = {
        "SLOTS": slots,
        "BLOCKS": blocks,
        "MOST_OCTAVES": blocks * layout.BLOCK,
        "THREADS": threads,
        "MOST_FOLLOWERS": threads // 4,
        "CPUS": possible_cpus(),
        RING_SIZE: ring_bytes,
        **offsets,
        **namespace,
    }
    fds, complaint, later = load_prepared(
        tracing(list(offsets), list(namespace)),
        values,
        attach_type=UPROBE_MULTI if multi else 0,
        later=(SESSION, CLOCK),
        progress=progress,
    )
    given: dict[str, int] = {}
    undo = contextlib.ExitStack()
    try:
        fixed = sum(map_info(fd).get("memlock", 0) for fd in fds.values()) - BLOCK_BYTES + later.bytes(values)
        of_session, of_clock = later.divided((CLOCK,))
        session = LaterProgram(of_session, values, fds, attach_type=UPROBE_SESSION)
        undo.callback(session.close)
        clock = LaterProgram(of_clock, values, fds)
        undo.callback(clock.close)
        sizes = pool_sizes(slots, threads, splits=task is not None)
        pools = Pools(fds.pop(FILLING), fds.pop(FREEING), sizes)
        undo.callback(pools.close)
        left = _mapped(fds.pop("left_in"), np.dtype(np.int64), layout.POOLS)
        octaves = OctaveBlocks(
            fds.pop("octaves"), fds.pop("octave_block"), pools, left, most_blocks(slots, memory - fixed)
        )
        undo.callback(octaves.close)
        put(fds["stack_readers"], bytes(4), np.uint32(fds[STACK_READER]).tobytes())
        for place, name in enumerate(SAMPLE_READERS if task is not None else ()):
            put(fds["sample_readers"], np.uint32(place).tobytes(), np.uint32(fds[name]).tobytes())
        given |= {name: fds.pop(of, -1) for name, of in _DESCRIPTORS.items()}
        return Programs(
            complaint=complaint,
            session=session,
            clock=clock,
            **given,
            fixed_bytes=fixed,
            slots=GrowingMap(fds.pop("slots"), layout.SLOT, slots),
            octaves=octaves,
            left_in=left,
            turnovers=_mapped(fds.pop("turnovers"), layout.TURNOVER, layout.EVICTING_MAPS),
            owners=_mapped(fds.pop("owners"), layout.OWNER, slots),
            thread_records=ThreadRecords(GrowingMap(fds.pop("threads"), layout.THREAD, threads)),
            losses=_mapped(fds.pop("losses"), layout.LOSSES, 1),
            charges=None if task is None else _mapped(fds.pop("charges"), layout.CHARGE, layout.CHARGES),
            off_cpu=None if task is None else GrowingMap(fds.pop("off_cpu"), layout.OFF_CPU, threads),
            heaps=_mapped(fds.pop("heaps"), layout.HEAP, layout.HEAPS),
            activities=_mapped(fds.pop("activities"), layout.ACTIVITY, layout.ACTIVITIES),
            members=_mapped(fds.pop("members"), layout.MEMBER, layout.MEMBERS),
            kernels=GrowingMap(fds.pop("kernels"), layout.KERNEL, layout.KERNELS),
            launched=_mapped(fds.pop("launched"), layout.LAUNCHED, layout.KERNELS),
            keeping=_mapped(fds.pop("keeping_of"), layout.KEEPING, 1),
            kept_calls=_ring(fds.pop("kept_calls"), ring_bytes, layout.KEPT_CALL),
            stacks=_ring(fds.pop("stacks"), ring_bytes, STACK),
            samples=_ring(fds.pop(SAMPLES), ring_bytes, STACK),
            pools=pools,
        )
    except BaseException as error:
        undo.close()
        for fd in given.values():
            if fd >= 0:
                os.close(fd)
        if isinstance(error, OSError):
            raise TracingError(f"the BPF maps could not be prepared: {error}") from error
        raise
    finally:
        # These are of maps that only the programs use, and of the program that has filled the pools.
        for fd in fds.values():
            os.close(fd)


def pool_sizes(slots: int, threads: int, *, splits: bool) -> dict[layout.Pool, int]:
    """Returns the number of records of each pool. Without ``splits`` there is none for charges."""
    pool = layout.Pool
    sizes = {
        pool.SLOTS: slots,
        pool.THREADS: threads,
        pool.HEAPS: layout.HEAPS,
        pool.ACTIVITIES: layout.ACTIVITIES,
        pool.MEMBERS: layout.MEMBERS,
        pool.KERNELS: layout.KERNELS,
        pool.PIECES: layout.ALLOCATIONS,
    }
    return sizes | ({pool.CHARGES: layout.CHARGES} if splits else {})


def _mapped(fd: int, dtype: np.dtype[_T], n: int) -> NDArray[_T]:
    """Returns the array of a map, which stays mapped while it is referred to. Closes ``fd``."""
    try:
        memory: NDArray[np.uint8] = np.ctypeslib.as_array(map_memory(fd, dtype.itemsize * n))
        return memory.view(dtype)
    finally:
        os.close(fd)


def _ring(fd: int, size: int, record: np.dtype[np.void]) -> Ring:
    """Returns the ring of a map; closes ``fd``."""
    try:
        return Ring(fd, size, record)
    finally:
        os.close(fd)


class Loaded(NamedTuple):
    """The result of `load_prepared`."""

    fds: dict[str, int]
    """Descriptors of maps and programs, by name."""
    complaint: str
    """Why compiled programs are not cached for the next start; '' if they are."""
    later: Compiled
    """The programs that were not loaded, because they are loaded later."""


def load_prepared(
    recipe: Recipe,
    values: Mapping[str, int],
    *,
    attach_type: int = 0,
    later: Collection[str] = (),
    niceness: int = 0,
    progress: Progress | None = None,
) -> Loaded:
    """Loads the maps and programs of ``recipe``, with ``values`` filled in; except the programs ``later``.

    If the Linux kernel refuses cached programs, they are compiled again, because the compiler that built them
    may have been at fault. This is done once for each Linux release. Raises TracingError with the reason and
    the remedy.
    """
    prepared = prepare(recipe, niceness=niceness, progress=progress)
    if progress is not None:
        progress.begin("loading the BPF programs")
    try:
        return _loaded(prepared, values, attach_type, later)
    except BpfError as refused:
        if not prepared.kept or refused.errno == errno.EPERM or program_cache.is_refused(recipe):
            raise refusal(refused) from refused
    try:
        prepared = prepare(recipe, anew=True, niceness=niceness, progress=progress)
        return _loaded(prepared, values, attach_type, later)
    except BpfError as refused:
        program_cache.note_refused(recipe)
        raise refusal(refused) from refused


def _loaded(
    prepared: Prepared, values: Mapping[str, int], attach_type: int, later: Collection[str]
) -> Loaded:
    first, second = prepared.compiled.divided(later, (SAMPLES,))
    return Loaded(first.load(values, attach_type=attach_type), prepared.complaint, second)


def refusal(refused: BpfError) -> TracingError:
    """Returns the error that says, in one line, why the Linux kernel refused a program or a map."""
    if refused.errno == errno.EPERM:
        return may_not(f"{refused.what}: {refused.strerror}")
    said = [
        line.strip()
        for line in refused.log.splitlines()
        if line.strip() and not line.startswith(("processed ", "verification time ", "stack depth "))
    ]
    why = f"{refused.strerror}: {said[-1]}" if said else str(refused.strerror)
    return TracingError(f"the kernel refused {refused.what}: {why}")


def check_host() -> None:
    """Raises TracingError if it is already certain that nothing can be traced on this host."""
    machine = platform.machine()
    if machine not in ("x86_64", "aarch64"):
        raise TracingError(f"{machine} is not supported", "run stalltop on x86-64 or aarch64")
    capabilities = _capabilities()
    if not capabilities >> _CAP_SYS_ADMIN & 1 and not (
        capabilities >> _CAP_BPF & 1 and capabilities >> _CAP_PERFMON & 1
    ):
        raise TracingError(
            "tracing needs root", "run with sudo, or grant CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE"
        )
    with contextlib.suppress(OSError):
        if "[confidentiality]" in Path("/sys/kernel/security/lockdown").read_text():
            raise TracingError(
                "the kernel is locked down (confidentiality): it lets no program read other processes",
                "boot with lockdown=integrity or without Secure Boot's lockdown",
            )


def pid_namespace() -> dict[str, int]:
    """Returns the numbers that identify this process's PID namespace to the BPF programs; empty if it is the
    host's.

    If stalltop runs in another PID namespace than the host's, it knows processes by their ids in that
    namespace.
    """
    try:
        namespace = os.stat("/proc/self/ns/pid")
    except OSError:
        return {}
    if namespace.st_ino == _INITIAL_PID_NAMESPACE:
        return {}
    # The Linux kernel encodes device numbers in this way (MKDEV of linux/kdev_t.h).
    device = os.major(namespace.st_dev) << 20 | os.minor(namespace.st_dev)
    return {"PID_NAMESPACE": namespace.st_ino, "PID_NAMESPACE_DEVICE": device}


def explained(reason: TracingError) -> TracingError:
    """Returns ``reason``. If the Linux kernel is older than ``OLDEST_KERNEL``, returns an error that says so
    instead.

    The version number alone does not decide whether tracing works, because distributions add newer parts of
    Linux to older releases.
    """
    release = platform.release()
    version = re.match(r"(\d+)\.(\d+)", release)
    if version and (int(version[1]), int(version[2])) < OLDEST_KERNEL:
        return TracingError(
            f"the kernel ({release}) is too old: {reason.reason}", "tracing needs Linux 5.15 or later"
        )
    return reason


def _capabilities() -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("CapEff:"):
                return int(line.split()[1], 16)
    return 0
