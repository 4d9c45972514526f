"""Structs, enums and constants of ``bpf/layout.h`` and ``bpf/launches.h``, for numpy.

``scripts/write_layout.py`` writes this file: change the header, not this.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

KERNELS: Final = 16384
"""Counts by kernel."""
BUCKETS: Final = 128
"""Of a kernel's durations: each is 32 counters of a slot; a power of two, with 4 unused."""
BUCKET_SHIFT: Final = 5
NAME_BYTES: Final = 256
"""Kept of a kernel's name, with its end; a multiple of 8."""
LIKELY_KERNELS: Final = 4096
"""Launches told apart before the hash is asked; a power of two."""
REGISTERED_FUNCTIONS: Final = 131072
"""Functions of programs whose kernels' names are known; the oldest make room."""
LOOKED_UP_FUNCTIONS: Final = 16384
"""The same of modules."""
REUSED: Final = 4096
"""Functions whose address had been another one's."""
LOOKUPS: Final = 4096
"""Calls that look up functions, at once."""
READ_NAMES: Final = 1024
"""Of these, how many are over and read the name, at once."""
TOLD_PROGRAMS: Final = 8192
"""Programs that told of kernels, or launched."""
NAMING_MASK: Final = 7
COUNTERS: Final = 3968
"""Of one histogram: see hdr.h."""
SPLITS: Final = 10
"""Where the time of a call can go."""
DEPTH: Final = 16
"""Traced calls that a thread can be inside of at once; a power of two."""
CACHED: Final = 16
"""Slots that a thread remembers; a power of two."""
ARGUMENTS: Final = 8
"""Argument registers kept at entry; a power of two."""
TOLD: Final = 6
"""Of these, kept until the call returns."""
LIKELY_THREADS: Final = 4096
"""Thread ids told apart before the hash is asked; a power of two."""
FUNCTIONS: Final = 2048
"""Attach cookies."""
KINDS: Final = 5
"""Values of cudaMemcpyKind, 0 to 4."""
CHARGES: Final = 8192
"""Sums of time that another process is the cause of."""
SLICES: Final = 64
"""Of time on a CPU that are remembered for each CPU; a power of two."""
HEAPS: Final = 1024
"""Processes whose device memory is followed."""
ALLOCATIONS: Final = 65536
"""Pieces of device memory known at once."""
MEMBERS: Final = 1024
"""Ranks of NCCL communicators known at once."""
ACTIVITIES: Final = 1024
"""Pairs of a process and a device whose activity is known."""
TICK_SHIFT: Final = 20
"""Activity is told by ticks of 2 to its power, in ns: 1.05 ms."""
TICKS: Final = 4096
"""The last ones are remembered: 4.3 s; a power of two."""
SPAN: Final = 64
"""Of these, what is remembered together in long calls; a power of two."""
LAP: Final = 32768
"""Set in what is remembered, so that it is never 0."""
ENTRIES: Final = 256
"""Of a rank into collectives, the last ones; a power of two."""
NESTED: Final = 32768
"""Set in the operation of a call made inside another traced call."""
HOST_GAP: Final = 510
"""Operation: a thread's time between two outermost calls."""
HOST_WORK: Final = 511
"""Operation: a followed thread's time between two wake-ups that it gives."""
DEVICE_SHIFT: Final = 16
"""Of an operation's word: the device of the calls lies above, as in struct thread."""
UNKNOWN_DEVICE: Final = 255
"""The thread has chosen one, but it is not known which."""
PROGRAM_DEVICES: Final = 16
"""Of a program, whose UUIDs are known; a power of two."""
UUID_BYTES: Final = 16
CONTEXTS: Final = 16
"""Below a thread's current one whose devices are remembered; a power of two."""
FILLED_AT_ONCE: Final = 256
"""Free elements put into a queue by one run: the verifier follows that loop to its end."""
LONGEST_GAP_NS: Final = 60000000000
"""A longer one is not counted: the program is idle."""
CHOOSING_MASK: Final = 15

LAUNCHED: Final = np.dtype(
    [
        ("function", "u8"),
        ("born_ns", "u8"),
        ("slot", "u4"),
        ("generation", "u4"),
    ]
)
"""``struct launched``: Whose launches of what a record counts. No padding: it is a key."""

KERNEL: Final = np.dtype(
    [
        ("calls", "u8"),
        ("total_ns", "u8"),
        ("errors", "u8"),
        ("max_ns", "u8"),
        ("name_at", "u8"),
        ("name_bytes", "u4"),
        ("reserved", "u4"),
        ("counters", "u4", (128,)),
        ("name", "S256"),
    ]
)
"""``struct kernel``: Launches of one kernel."""

TOLD_PROGRAM: Final = np.dtype(
    [
        ("born_ns", "u8"),
        ("unloads", "u8"),
    ]
)
"""``struct told_program``: A program that a process runs."""

FUNCTION_KEY: Final = np.dtype(
    [
        ("function", "u8"),
        ("born_ns", "u8"),
    ]
)
"""``struct function_key``: A function of a program. No padding: it is a key."""

REGISTERED: Final = np.dtype(
    [
        ("name_at", "u8"),
        ("unloads", "u8"),
    ]
)
"""``struct registered``: A kernel that a program or a library has brought along, as it says when it
is loaded."""

LOOKED_UP: Final = np.dtype(
    [
        ("name_at", "u8"),
        ("name_bytes", "u4"),
        ("reserved", "u4"),
        ("name", "S256"),
    ]
)
"""``struct looked_up``: A kernel that the program looked up by its name."""

LOOKUP_KEY: Final = np.dtype(
    [
        ("pid_tgid", "u8"),
        ("cookie", "u8"),
    ]
)
"""``struct lookup_key``: A call that looks up a function. No padding: it is a key."""

LOOKUP: Final = np.dtype(
    [
        ("result_at", "u8"),
        ("given", "u8"),
    ]
)
"""``struct lookup``: What such a call was given."""

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
        ("split_ns", "u8", (10,)),
        ("kept_since_ns", "u8"),
        ("kept", "u8"),
        ("sample_every", "u8"),
        ("reserved", "u8", (41,)),
        ("counters", "u4", (3968,)),
    ]
)
"""``struct slot``: The counts of one operation of one process in one cgroup. 16,384 bytes."""

OWNER: Final = np.dtype(
    [
        ("cgroup_id", "u8"),
        ("tgid", "u4"),
        ("operation", "u4"),
    ]
)
"""``struct owner``: Whose counts a slot holds. One for each slot, by the same index."""

SLOT_KEY: Final = np.dtype(
    [
        ("cgroup_id", "u8"),
        ("tgid", "u4"),
        ("operation", "u4"),
    ]
)
"""``struct slot_key``: Whose counts a slot holds, as the key by which it is found."""

FRAME: Final = np.dtype(
    [
        ("sp", "u8"),
        ("start_ns", "u8"),
        ("bytes", "u8"),
        ("function", "u4"),
        ("operation", "u4"),
        ("object", "u8"),
        ("kept", "u8"),
        ("arguments", "u8", (6,)),
    ]
)
"""``struct frame``: One call that a thread is inside of."""

CACHED_SLOT: Final = np.dtype(
    [
        ("operation", "u4"),
        ("slot", "u4"),
    ]
)
"""``struct cached_slot``: Where the calls of one operation are counted."""

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
        ("devices_below", "u1", (16,)),
        ("activity", "u4"),
        ("choices", "u4"),
        ("runtime_device", "u1"),
        ("reserved", "u1", (7,)),
        ("arguments", "u8", (8,)),
        ("cached", CACHED_SLOT, (16,)),
        ("frames", FRAME, (16,)),
    ]
)
"""``struct thread``: A thread that has made a traced call, or is followed. Besides itself, only who
wakes or moves it writes it."""

CUDA_PROGRAM: Final = np.dtype(
    [
        ("born_ns", "u8"),
        ("watched", "u4"),
        ("over", "u4"),
        ("uuid_known", "u1", (16,)),
        ("uuids", "u1", (16, 16)),
    ]
)
"""``struct cuda_program``: What a program knows of its devices."""

CONTEXT_KEY: Final = np.dtype(
    [
        ("context", "u8"),
        ("born_ns", "u8"),
    ]
)
"""``struct context_key``: A context of a program. No padding: it is a key."""

CHOICE_KEY: Final = np.dtype(
    [
        ("pid_tgid", "u8"),
        ("cookie", "u8"),
    ]
)
"""``struct choice_key``: A call that chooses a device. No padding: it is a key."""

CHOICE: Final = np.dtype(
    [
        ("first", "u8"),
        ("device", "u8"),
    ]
)
"""``struct choice``: What such a call was given."""

OFF_CPU: Final = np.dtype(
    [
        ("outside", "u8", (10,)),
        ("inside", "u8", (16, 10)),
    ]
)
"""``struct off_cpu``: Time of a thread off the CPU, by enum part: level 0 is since its last call,
level n inside its nth frame."""

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
"""``struct charge_key``: Whose time off the CPU, and who is the cause of it: no padding."""

CHARGE: Final = np.dtype(
    [
        ("key", CHARGE_KEY),
        ("ns", "u8"),
        ("times", "u8"),
    ]
)
"""``struct charge``: A sum of that time."""

SLICE: Final = np.dtype(
    [
        ("start_ns", "u8"),
        ("end_ns", "u8"),
        ("cgroup_id", "u8"),
        ("tgid", "u4"),
        ("reserved", "u4"),
    ]
)
"""``struct slice``: Time that one task had a CPU without a break."""

CPU: Final = np.dtype(
    [
        ("waiting", "u8"),
        ("since_ns", "u8"),
        ("task", "u8"),
        ("next", "u8"),
        ("slices", SLICE, (64,)),
    ]
)
"""``struct cpu``: Who had one CPU while threads with a record waited for it: the newest slice lies
before `next`."""

LIKELY: Final = np.dtype(
    [
        ("thread", "u4"),
        ("records", "u4"),
    ]
)
"""``struct likely``: Which record a thread has, by the last digits of its id."""

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
"""``struct function``: How to read a call of one function."""

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
"""``struct heap``: The device memory of one process, since it runs its program."""

PIECE: Final = np.dtype(
    [
        ("address", "u8"),
        ("heap", "u8"),
    ]
)
"""``struct piece``: One piece of device memory. No padding: it is a key."""

ACTIVITY: Final = np.dtype(
    [
        ("cgroup_id", "u8"),
        ("tgid", "u4"),
        ("device", "u4"),
        ("laps", "u2", (4096,)),
        ("spans", "u2", (64,)),
    ]
)
"""``struct activity``: The ticks in which a process was active on a device. Element n % TICKS of
`laps` tells the last tick n that it was, by its lap: LAP | n / TICKS; an element of `spans` tells
it of SPAN ticks at once. So nothing has to be cleared here, and all that write an element write the
same."""

PROCESS_DEVICE: Final = np.dtype(
    [
        ("tgid", "u4"),
        ("device", "u4"),
    ]
)
"""``struct process_device``: A process and a device of it. No padding: it is a key."""

HANDLE: Final = np.dtype(
    [
        ("handle", "u8"),
        ("tgid", "u8"),
    ]
)
"""``struct handle``: The handle by which a process knows a communicator. No padding: it is a
key."""

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
        ("entries_ns", "u8", (256,)),
    ]
)
"""``struct member``: One rank of a communicator. Only threads of its process write it, one at a
time as NCCL wants it."""

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
"""``struct losses``: What is not counted, or not as it should be: the names are those of
model.window.LOSSES."""

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
        ("split_ns", "u8", (10,)),
        ("arguments", "u8", (6,)),
    ]
)
"""``struct kept_call``: One call, kept by itself."""

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
"""``struct keeping``: How many calls are kept one by one. The monitor writes the last three."""


class Naming(IntEnum):
    """``enum naming``: How a function tells of kernels: the lower bits of its attach cookie."""

    REGISTERS = 1
    """(handle, function, ..., name)."""
    UNLOADS = 2
    """(handle)."""
    LOOKS_UP = 3
    """(result, module, name)."""
    CONVERTS = 4
    """(result, other function)."""


class Watched(IntEnum):
    """``enum watched``: Whether the monitor saw how a program began with CUDA."""

    UNKNOWN = 0
    """It has not called yet."""
    BEGIN = 1
    """The first that was seen of it was that it makes CUDA ready."""
    LATE = 2
    """It had done so before."""


class Over(IntEnum):
    """``enum over``: Whether a program has ended."""

    NOT = 0
    FIRST_THREAD = 1
    """Its first thread has: others may go on."""
    ALL = 2
    """Its process runs another one."""


class Choosing(IntEnum):
    """``enum choosing``: How a function chooses a device: the lower bits of its attach cookie."""

    BEGINS = 1
    """Makes CUDA ready."""
    SETS_DEVICE = 2
    """(ordinal)."""
    CREATES_2 = 3
    """(context, ...): the ordinal is argument 2; the next two: 3 and 4."""
    CREATES_3 = 4
    CREATES_4 = 5
    RETAINS = 6
    """(context, ordinal)."""
    DESTROYS = 7
    """(context)."""
    PUSHES = 8
    """(context)."""
    POPS = 9
    """()."""
    SETS_CONTEXT = 10
    """(context)."""
    TELLS = 11
    """(ordinal of the current context)."""
    TELLS_UUID = 12
    """(UUID, ordinal)."""
    TELLS_GPU = 13
    """The same, but of the whole GPU where the device is a part of one."""


class Size(IntEnum):
    """``enum size``: How the bytes of a call are found. A shift multiplies elements by their size, 2 to
    its power."""

    NONE = 0
    """The call moves no bytes, or no argument says how many."""
    ARGUMENT = 1
    """Argument a, shifted left by c."""
    PRODUCT = 2
    """Argument a x argument b, shifted left by c: width and height."""
    NCCL = 3
    """Argument a, a count, x the size of the ncclDataType_t in argument b."""
    STRUCT = 4
    """C factors, 2 or 3 u64 in a row, at byte b of what argument a points to."""
    ARGUMENT32 = 5
    """The low 32 bits of argument a, shifted left by c: of unsigned int arguments."""
    PRODUCT32 = 6
    """The product of the low 32 bits of arguments a and b, shifted left by c."""
    PRODUCT3 = 7
    """Arguments a x b x c: a cudaExtent on the stack of x86-64."""


class Direction(IntEnum):
    """``enum direction``: Where the direction of a copy stands. Where it can be read and is one of the
    KINDS, the call is counted as operation + 1 + the value of cudaMemcpyKind; else as the operation
    itself."""

    NONE = 0
    KIND = 1
    """The cudaMemcpyKind (u32) is argument d."""
    STRUCT_KIND = 2
    """The cudaMemcpyKind (u32) lies at byte 8 x d of what argument a points to."""


class Object(IntEnum):
    """``enum object``: What a call does to a thing that outlives it, and what argument object_at is
    then."""

    NONE = 0
    ALLOCATES = 1
    """Device memory: points to where its address is put."""
    FREES = 2
    """Device memory: its address."""
    JOINS = 3
    """A communicator, by its unique id: points to where the handle is put."""
    JOINS_BY_MANY = 4
    """The same, by an array of unique ids."""
    JOINS_ALL = 5
    """All ranks of a communicator: points to where the handles are put."""
    SPLITS = 6
    """A communicator: points to where the handle of the part is put."""
    LEAVES = 7
    """A communicator: its handle."""
    ENTERS = 8
    """A collective: the communicator's handle."""
    LAUNCHES = 9
    """A kernel: its function or handle."""
    USES = 10
    """A communicator: its handle."""


class MemberState(IntEnum):
    """``enum member_state``: What a record of a rank stands for."""

    FREE = 0
    BEGINS = 1
    """Its call has not returned."""
    LIVE = 2
    OVER = 3
    """Left; the monitor takes the record back."""


class Why(IntEnum):
    """``enum why``: Why a call is captured."""

    SLOW = 0
    SAMPLE = 1
