"""Declares the structs of ``bpf/layout.h`` for numpy: what the BPF programs and the monitor share."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from stalltop.model.histograms.hdr import COUNTERS

SPLITS: Final = 10
"""Number of parts that the time of a call is split into."""
DEPTH: Final = 16
"""Maximum number of nested traced calls of one thread."""
CACHED: Final = 16
ARGUMENTS: Final = 8
TOLD: Final = 6
"""Number of arguments of a call that are kept until it returns."""
CHARGES: Final = 8192
"""Maximum number of sums of off-CPU time that another process caused."""
FUNCTIONS: Final = 2048
"""Maximum number of attach cookies that the BPF programs know."""
HEAPS: Final = 1024
"""Maximum number of processes whose device memory is followed."""
ALLOCATIONS: Final = 65536
"""Maximum number of device memory allocations that are known at once, of all processes."""
MEMBERS: Final = 1024
"""Maximum number of ranks of NCCL communicators that are known at once."""
ACTIVITIES: Final = 1024
"""Maximum number of (process, device) pairs whose activity is known at once."""
TICK_SHIFT: Final = 20
"""Length of a tick of activity, as the power of 2 of its ns."""
TICKS: Final = 4096
"""Number of ticks, the latest ones, that each pair of a process and a device keeps."""
SPAN: Final = 64
"""Number of ticks that a long call marks together."""
LAP: Final = 0x8000
"""Bit that is set in each element, so that none is ever 0."""
ENTRIES: Final = 256
"""Number of entries into collectives that each rank keeps."""
FILLED_AT_ONCE: Final = 256
"""Number of free elements that one program run puts into a queue."""
KERNELS: Final = 16384
"""Maximum number of counts by CUDA kernel, of all processes."""
NAME_BYTES: Final = 256
"""Bytes that are kept of a CUDA kernel's name, with the zero byte at its end."""
BUCKETS: Final = 128
"""Number of buckets of a CUDA kernel's durations: those of ``model.cuda_kernels``, and four that are never
reached."""
NESTED: Final = 0x8000
"""Bit that is set in the operation of a call that was made inside another traced call of its thread."""
DEVICE_SHIFT: Final = 16
"""Bits of an operation word below the device field. The field holds the ordinal of the calls' device + 1, or
0 if the thread did not choose one while it was watched."""
UNKNOWN_DEVICE: Final = 255
"""Value of the device field if the thread has chosen a device, but it is not known which."""
PROGRAM_DEVICES: Final = 16
"""Maximum number of devices of a program whose UUIDs are known."""
CONTEXTS: Final = 16
"""Maximum number of contexts below a thread's current one whose devices are remembered."""
HOST_GAP: Final = 510
"""Operation id of the time of a thread between two of its outermost calls."""
HOST_WORK: Final = 511
"""Operation id of the time of a followed thread between two wake-ups that it gives."""

SLOT: Final = np.dtype(
    [
        ("calls", "u8"),
        ("total_ns", "u8"),
        ("errors", "u8"),
        ("bytes", "u8"),
        ("max_ns", "u8"),
        ("slow_ns", "u8"),
        ("sample_at", "u8"),
        ("passed_over", "u8"),
        ("last_error", "u8"),
        ("clamped", "u8"),
        ("split_ns", "u8", (SPLITS,)),
        ("kept_since_ns", "u8"),
        ("kept", "u8"),
        ("sample_every", "u8"),
        ("reserved", "u8", (41,)),
        ("counters", "u4", (COUNTERS,)),
    ]
)
"""``struct slot``: the counts of one operation of one process in one cgroup."""

OWNER: Final = np.dtype([("cgroup_id", "u8"), ("tgid", "u4"), ("operation", "u4")])
"""``struct owner``, and ``struct slot_key``: which process, cgroup and operation a slot counts; operation 0
means that the slot is free."""

FRAME: Final = np.dtype(
    [
        ("sp", "u8"),
        ("start_ns", "u8"),
        ("bytes", "u8"),
        ("function", "u4"),
        ("operation", "u4"),
        ("object", "u8"),
        ("kept", "u8"),
        ("arguments", "u8", (TOLD,)),
    ]
)
"""``struct frame``: one call that a thread is inside of."""

THREAD: Final = np.dtype(
    [
        ("tid", "u4"),
        ("tgid", "u4"),
        ("cgroup_id", "u8"),
        ("depth", "u4"),
        ("shown_tid", "u4"),
        ("ended_ns", "u8"),
        ("ended_tgid", "u4"),
        ("index", "u4"),
        ("off_since_ns", "u8"),
        ("woken_ns", "u8"),
        ("off_for", "u4"),
        ("off_levels", "u4"),
        ("gap_ns", "u8"),
        ("waiting_ns", "u8"),
        ("gap_slot", "u4"),
        ("cpu", "u4"),
        ("link", "u4"),
        ("follows", "u4"),
        ("scratch", "u4"),
        ("device", "u1"),
        ("device_decided", "u1"),
        ("contexts_below", "u2"),
        ("born_ns", "u8"),
        ("context", "u8"),
        ("devices_below", "u1", (CONTEXTS,)),
        ("activity", "u4"),
        ("choices", "u4"),
        ("runtime_device", "u1"),
        ("reserved", "u1", (7,)),
        ("arguments", "u8", (ARGUMENTS,)),
        ("cached", [("operation", "u4"), ("slot", "u4")], (CACHED,)),
        ("frames", FRAME, (DEPTH,)),
    ]
)
"""``struct thread``: tid 0 means that the record is free; it then holds the calls in which its last thread
ended."""

CHARGE_KEY: Final = np.dtype(
    [
        ("cgroup_id", "u8"),
        ("culprit_cgroup_id", "u8"),
        ("tgid", "u4"),
        ("culprit_tgid", "u4"),
        ("operation", "u4"),
        ("part", "u4"),
    ]
)
"""``struct charge_key``: whose off-CPU time it is, and which process caused it."""

CHARGE: Final = np.dtype([("key", CHARGE_KEY), ("ns", "u8"), ("times", "u8")])
"""``struct charge``."""

FUNCTION: Final = np.dtype(
    [
        ("operation", "u4"),
        ("pending", "u4"),
        ("size", "u1"),
        ("a", "u1"),
        ("b", "u1"),
        ("c", "u1"),
        ("direction", "u1"),
        ("d", "u1"),
        ("waits_for_gpu", "u1"),
        ("object", "u1"),
        ("object_at", "u1"),
        ("uses_device", "u1"),
        ("reserved", "u1", (6,)),
    ]
)
"""``struct function``: how to read a call of one function."""

HEAP: Final = np.dtype(
    [
        ("cgroup_id", "u8"),
        ("tgid", "u4"),
        ("over", "u4"),
        ("allocations", "u8"),
        ("frees", "u8"),
        ("allocated_bytes", "u8"),
        ("freed_bytes", "u8"),
        ("held", "u8"),
        ("held_bytes", "u8"),
    ]
)
"""``struct heap``: the device memory of one process; tgid 0 means that the record is free."""

PIECE: Final = np.dtype([("address", "u8"), ("heap", "u8")])
"""``struct piece``: key of one allocation of device memory."""

PIECE_BYTES: Final = np.dtype([("bytes", "u8")])
"""Value of an allocation: its size."""

LAUNCHED: Final = np.dtype([("function", "u8"), ("born_ns", "u8"), ("slot", "u4"), ("generation", "u4")])
"""``struct launched``: which process launches which function; slot 0 means that the record is free."""

KERNEL: Final = np.dtype(
    [
        ("calls", "u8"),
        ("total_ns", "u8"),
        ("errors", "u8"),
        ("max_ns", "u8"),
        ("name_at", "u8"),
        ("name_bytes", "u4"),
        ("reserved", "u4"),
        ("counters", "u4", (BUCKETS,)),
        ("name", f"S{NAME_BYTES}"),
    ]
)
"""``struct kernel``: launches of one CUDA kernel."""

TOLD_PROGRAM: Final = np.dtype([("born_ns", "u8"), ("unloads", "u8")])
"""``struct told_program``: a program that has registered or looked up CUDA kernels, or launched one."""

FUNCTION_KEY: Final = np.dtype([("function", "u8"), ("born_ns", "u8")])
"""``struct function_key``: a function of a program."""

REGISTERED: Final = np.dtype([("name_at", "u8"), ("unloads", "u8")])
"""``struct registered``: a CUDA kernel that a program registered when it was loaded."""

LOOKED_UP: Final = np.dtype(
    [("name_at", "u8"), ("name_bytes", "u4"), ("reserved", "u4"), ("name", f"S{NAME_BYTES}")]
)
"""``struct looked_up``: a CUDA kernel that a program looked up by its name."""

ACTIVITY: Final = np.dtype(
    [
        ("cgroup_id", "u8"),
        ("tgid", "u4"),
        ("device", "u4"),
        ("laps", "u2", (TICKS,)),
        ("spans", "u2", (TICKS // SPAN,)),
    ]
)
"""``struct activity``: when a process was active on a device; tgid 0 means that the record is free."""

PROCESS_DEVICE: Final = np.dtype([("tgid", "u4"), ("device", "u4")])
"""``struct process_device``: a process and one of its devices."""

CUDA_PROGRAM: Final = np.dtype(
    [
        ("born_ns", "u8"),
        ("watched", "u4"),
        ("over", "u4"),
        ("uuid_known", "u1", (PROGRAM_DEVICES,)),
        ("uuids", "V16", (PROGRAM_DEVICES,)),
    ]
)
"""``struct cuda_program``: what is known of a program's devices."""

HANDLE: Final = np.dtype([("handle", "u8"), ("tgid", "u8")])
"""``struct handle``: the handle by which a process knows a communicator."""

MEMBER: Final = np.dtype(
    [
        ("id", "u8"),
        ("handle", "u8"),
        ("cgroup_id", "u8"),
        ("tgid", "u4"),
        ("rank", "u4"),
        ("ranks", "u4"),
        ("state", "u4"),
        ("heap", "u4"),
        ("splits", "u4"),
        ("device", "u4"),
        ("reserved", "u4"),
        ("made_ns", "u8"),
        ("entered", "u8"),
        ("entries_ns", "u8", (ENTRIES,)),
    ]
)
"""``struct member``: one rank of a communicator."""


NAMINGS: Final = 8
"""Number of attach cookies reserved for each such function: more than there are values of ``Naming``."""


class Naming(IntEnum):
    """``enum naming``: how a function reveals names of CUDA kernels, in the lower three bits of its attach
    cookie."""

    REGISTERS = 1
    UNLOADS = 2
    LOOKS_UP = 3
    CONVERTS = 4


CHOOSINGS: Final = 16
"""Number of attach cookies reserved for each such function: more than there are values of ``Choosing``."""
FIRST_CHOOSING: Final = 2 * FUNCTIONS
"""Lowest attach cookie of a function that chooses a device."""


class Choosing(IntEnum):
    """``enum choosing``: how a function chooses a device, in the lower four bits of its attach cookie."""

    BEGINS = 1
    SETS_DEVICE = 2
    CREATES_2 = 3
    CREATES_3 = 4
    CREATES_4 = 5
    RETAINS = 6
    DESTROYS = 7
    PUSHES = 8
    POPS = 9
    SETS_CONTEXT = 10
    TELLS = 11
    TELLS_UUID = 12
    TELLS_GPU = 13


class Watched(IntEnum):
    """``enum watched``: whether the monitor saw how a program initialized CUDA."""

    UNKNOWN = 0
    BEGIN = 1
    LATE = 2


class MemberState(IntEnum):
    """``enum member_state``: the state of a communicator's rank."""

    FREE = 0
    BEGINS = 1
    LIVE = 2
    OVER = 3


LOSSES: Final = np.dtype(
    [
        ("no_slot", "u8"),
        ("no_thread", "u8"),
        ("too_deep", "u8"),
        ("no_entry", "u8"),
        ("abandoned", "u8"),
        ("clamped", "u8"),
        ("unread_bytes", "u8"),
        ("no_charge", "u8"),
        ("no_slice", "u8"),
        ("no_follower", "u8"),
        ("no_allocation", "u8"),
        ("no_communicator", "u8"),
        ("no_kernel", "u8"),
        ("no_ring", "u8"),
        ("no_activity", "u8"),
    ]
)
"""``struct losses``: counts by the names of ``model.window.LOSSES``, each counted where the loss happens."""

KEPT_CALL: Final = np.dtype(
    [
        ("start_ns", "u8"),
        ("duration_ns", "u8"),
        ("bytes", "u8"),
        ("cgroup_id", "u8"),
        ("born_ns", "u8"),
        ("tgid", "u4"),
        ("tid", "u4"),
        ("operation", "u4"),
        ("function", "u4"),
        ("returned", "u4"),
        ("why", "u4"),
        ("split_ns", "u8", (SPLITS,)),
        ("arguments", "u8", (TOLD,)),
    ]
)
"""``struct kept_call``: one captured call."""

KEEPING: Final = np.dtype(
    [
        ("since_ns", "u8"),
        ("slow", "u8"),
        ("samples", "u8"),
        ("most_slow", "u8"),
        ("most_samples", "u8"),
        ("most_of_slot", "u8"),
    ]
)
"""``struct keeping``: how many calls may be captured."""


class Why(IntEnum):
    """``enum why``: why a call is captured."""

    SLOW = 0
    SAMPLE = 1
