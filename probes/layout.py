"""Structs, enums and constants of ``bpf/base/layout.h`` and ``bpf/base/launches.h``, for numpy.

``scripts/write_layout.py`` writes this file: change the header, not this.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

KERNELS: Final = 16384
"""Maximum number of records that count launches by CUDA kernel."""
BUCKETS: Final = 128
"""Buckets of a CUDA kernel's histogram, of 32 counters each; a power of two."""
NAME_BYTES: Final = 256
"""Maximum size of a stored name of a CUDA kernel, with its zero byte; a multiple of 8."""
REGISTERED_FUNCTIONS: Final = 131072
"""Maximum number of registered functions; the oldest are evicted."""
LOOKED_UP_FUNCTIONS: Final = 16384
"""Maximum number of looked-up functions; the oldest are evicted."""
REUSED: Final = 4096
"""Maximum number of functions that belonged to another CUDA kernel before."""
LOOKUPS: Final = 4096
"""Maximum number of calls that are looking up functions at the same time."""
TOLD_PROGRAMS: Final = 8192
"""Maximum number of programs that registered, looked up or launched CUDA kernels."""
NAMING_MASK: Final = 7
COUNTERS: Final = 3968
"""Number of counters of one histogram; hdr.h finds the counter of a duration."""
PER_OCTAVE: Final = 128
"""Number of counters of a histogram that are stored together; a power of two."""
OCTAVES: Final = 31
"""Number of octaves of one histogram: COUNTERS / PER_OCTAVE."""
BLOCK: Final = 32768
"""Number of octaves that the monitor adds to the maps at once; a power of two."""
SPLITS: Final = 10
"""Number of parts that the time of a call is split into."""
DEPTH: Final = 16
"""Maximum number of nested traced calls of a thread; a power of two."""
TOLD: Final = 6
"""Number of argument registers kept until the call returns."""
WALKED: Final = 16
"""Waits of a thread whose stacks were read last, and whose times are kept; a power of two."""
LIKELY_THREADS: Final = 4096
"""Elements of likely_thread_of, which saves most hash look-ups; a power of two."""
FUNCTIONS: Final = 2048
"""The attach cookie of each counted function is below this number."""
KINDS: Final = 5
"""Number of values of cudaMemcpyKind, which are 0 to 4."""
CHARGES: Final = 16384
"""Maximum number of records of charged off-CPU time, by victim and culprit."""
HEAPS: Final = 1024
"""Maximum number of processes whose device memory is followed."""
ALLOCATIONS: Final = 65536
"""Maximum number of allocations of device memory known at once."""
MEMBERS: Final = 1024
"""Maximum number of ranks of NCCL communicators known at once."""
ACTIVITIES: Final = 1024
"""Maximum number of pairs of a process and a device whose activity is known."""
TICK_SHIFT: Final = 20
"""A tick of activity lasts 2 to this power, in ns: 1.05 ms."""
TICKS: Final = 4096
"""Ticks kept for each pair of a process and a device: the last 4.3 s; a power of two."""
SPAN: Final = 64
"""Ticks that one element of `spans` marks, for long calls; a power of two."""
LAP: Final = 32768
"""Set in each element of laps and spans that has been written; else it is 0."""
CUDA_PROGRAMS: Final = 16384
"""Maximum number of programs that have chosen a device, or made a call."""
MADE_CONTEXTS: Final = 65536
"""Maximum number of contexts whose device is known."""
CHOICES: Final = 32768
"""Maximum number of calls under way that choose a device."""
ACCOUNTS: Final = 9600
"""Maximum number of processes whose records are counted."""
ENTRIES: Final = 256
"""Newest entries into collectives that are kept for each rank; a power of two."""
NESTED: Final = 32768
"""Set in the operation of a call made inside another traced call."""
HOST_GAP: Final = 510
"""Operation: a thread's time between two outermost calls."""
HOST_WORK: Final = 511
"""Operation: a followed thread's time between waking one thread and waking the next."""
DEVICE_SHIFT: Final = 16
"""Number of low bits that hold the operation in a word; the device is above."""
TIMED_IN: Final = 8
"""A session probe times one call in this many, on average; a power of two."""
UNKNOWN_DEVICE: Final = 255
"""The thread has chosen a device, but the monitor does not know which."""
PROGRAM_DEVICES: Final = 16
"""Maximum number of a program's devices whose UUIDs are kept; a power of two."""
FILLED_AT_ONCE: Final = 256
"""Elements that one run of filling.h queues; few, as the verifier checks each."""
LONGEST_GAP_NS: Final = 60000000000
"""A longer gap is not counted: the program is assumed to be idle."""
POOLS: Final = 9
EVICTING_MAPS: Final = 9
CHOOSING_MASK: Final = 15
HOW_SHIFT: Final = 8
"""Number of low bits of charge_key.part that hold enum part; enum how is above."""

LAUNCHED: Final = np.dtype(
    [
        ("function", "u8"),
        ("born_ns", "u8"),
        ("slot", "u4"),
        ("generation", "u4"),
    ]
)
"""``struct launched``: Identifies the launches that one record counts. No padding: it is a key."""

KERNEL: Final = np.dtype(
    [
        ("total_ns", "u8"),
        ("errors", "u8"),
        ("max_ns", "u8"),
        ("name_at", "u8"),
        ("name_bytes", "u4"),
        ("slot", "u4"),
        ("function", "u8"),
        ("born_ns", "u8"),
        ("counters", "u4", (128,)),
        ("name", "S256"),
    ]
)
"""``struct kernel``: Launches of one CUDA kernel."""

TOLD_PROGRAM: Final = np.dtype(
    [
        ("born_ns", "u8"),
        ("unloads", "u8"),
    ]
)
"""``struct told_program``: The program that a process runs."""

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
"""``struct registered``: A CUDA kernel that a program or a library registered when it was
loaded."""

TURNOVER: Final = np.dtype(
    [
        ("added", "u8"),
        ("removed", "u8"),
    ]
)
"""``struct turnover``: How many elements the programs added to such a map and removed from it.
Those that are missing were evicted."""

ACCOUNT_KEY: Final = np.dtype(
    [
        ("cgroup_id", "u8"),
        ("tgid", "u4"),
        ("reserved", "u4"),
    ]
)
"""``struct account_key``: Identifies an account: of a process, with cgroup_id 0, or of a cgroup,
with tgid 0. No padding: it is a key."""

ACCOUNT: Final = np.dtype(
    [
        ("used", "u4", (9,)),
        ("refused", "u4", (9,)),
    ]
)
"""``struct account``: The records that a process, or all processes of a cgroup, have. By enum
pool."""

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
        ("octaves", "u8", (31,)),
        ("reserved", "u8", (2,)),
    ]
)
"""``struct slot``: The counts of one operation of one process in one cgroup."""

OWNER: Final = np.dtype(
    [
        ("cgroup_id", "u8"),
        ("tgid", "u4"),
        ("operation", "u4"),
        ("writer", "u4"),
        ("reserved", "u4"),
    ]
)
"""``struct owner``: The owner of a slot's counts. One for each slot, at the same index."""

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
"""``struct frame``: A call of a thread that has begun and not returned."""

CACHED_SLOT: Final = np.dtype(
    [
        ("operation", "u4"),
        ("slot", "u4"),
        ("shared", "u4"),
        ("calls", "u2"),
        ("timed", "u2"),
    ]
)
"""``struct cached_slot``: A slot that a thread remembers, so that it finds the slot of its next
call without a hash look-up."""

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
        ("off_for", "u1"),
        ("walked", "u1"),
        ("reserved", "u2"),
        ("off_levels", "u4"),
        ("gap_ns", "u8"),
        ("waiting_ns", "u8"),
        ("cpu", "u4"),
        ("link", "u4"),
        ("follows", "u4"),
        ("scratch", "u4"),
        ("activity", "u4"),
        ("device", "u1"),
        ("device_decided", "u1"),
        ("contexts_below", "u2"),
        ("born_ns", "u8"),
        ("context", "u8"),
        ("devices_below", "u1", (16,)),
        ("choices", "u4"),
        ("runtime_device", "u1"),
        ("how", "u1"),
        ("next_futex", "u1"),
        ("called", "u1"),
        ("private_futex", "u1"),
        ("jumps", "u1"),
        ("task_place", "u2"),
        ("cgroup_moves", "u4"),
        ("account_cgroup_id", "u8"),
        ("limit_ns", "u8"),
        ("waits_at", "u8"),
        ("futexes", "u8", (4,)),
        ("arguments", "u8", (8,)),
        ("gap", CACHED_SLOT),
        ("cached", CACHED_SLOT, (16,)),
        ("frames", FRAME, (16,)),
    ]
)
"""``struct thread``: A thread that has made a traced call, or that is followed. The thread itself
writes its record, and so do threads that wake it or move it to another CPU."""

CUDA_PROGRAM: Final = np.dtype(
    [
        ("born_ns", "u8"),
        ("watched", "u4"),
        ("over", "u4"),
        ("uuid_known", "u1", (16,)),
        ("uuids", "u1", (16, 16)),
    ]
)
"""``struct cuda_program``: The devices of one program, as far as they are known."""

WALKED_WAIT: Final = np.dtype(
    [
        ("since_ns", "u8"),
        ("blocked_ns", "u8"),
        ("queued_ns", "u8"),
    ]
)
"""``struct walked_wait``: The end of a wait whose stack was read when the thread left its CPU.
Times are in ns."""

OFF_CPU: Final = np.dtype(
    [
        ("all", "u8", (10,)),
        ("since_ns", "u8"),
        ("born_ns", "u8"),
        ("usual_ns", "u8", (10,)),
        ("walked_ns", "u8"),
        ("stands_for", "u8"),
        ("unended_at", "u8"),
        ("unended_ns", "u8"),
        ("handed_ns", "u8"),
        ("handed_at", "u8"),
        ("handed_for", "u4"),
        ("walks", "u4"),
        ("walked", WALKED_WAIT, (16,)),
        ("outside", "u8", (10,)),
        ("inside", "u8", (16, 10)),
    ]
)
"""``struct off_cpu``: Off-CPU time of a thread, by enum part. Level 0 (`outside`) holds the time
since the thread's last outermost call; level n (`inside[n - 1]`) the time inside its nth open call,
counted from the outermost. `all` is the sum of all off-CPU time since since_ns. The monitor reads
`all`, which is never reset while this struct belongs to the thread."""

CHARGE_KEY: Final = np.dtype(
    [
        ("cgroup_id", "u8"),
        ("culprit_cgroup_id", "u8"),
        ("tgid", "u4"),
        ("culprit_tgid", "u4"),
        ("operation", "u4"),
        ("part", "u4"),
        ("tid", "u4"),
        ("culprit_tid", "u4"),
    ]
)
"""``struct charge_key``: Identifies who lost off-CPU time, and which process caused it. No padding:
it is a key. Waits for a CPU are charged by process: then tid and culprit_tid are 0. So are all
waits of a process that has many charges."""

CHARGE: Final = np.dtype(
    [
        ("key", CHARGE_KEY),
        ("ns", "u8"),
        ("times", "u8"),
    ]
)
"""``struct charge``: The off-CPU time of one charge_key, summed up."""

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
        ("timing", "u1"),
        ("reserved", "u1", (5,)),
    ]
)
"""``struct function``: How to read a call of one traced function."""

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
        ("account_cgroup_id", "u8"),
    ]
)
"""``struct heap``: The device memory of one process, since the process began its present
program."""

PIECE: Final = np.dtype(
    [
        ("address", "u8"),
        ("heap", "u8"),
    ]
)
"""``struct piece``: One allocation of device memory. No padding: it is a key."""

ACTIVITY: Final = np.dtype(
    [
        ("cgroup_id", "u8"),
        ("tgid", "u4"),
        ("device", "u4"),
        ("account_cgroup_id", "u8"),
        ("laps", "u2", (4096,)),
        ("spans", "u2", (64,)),
    ]
)
"""``struct activity``: The ticks in which a process was active on a device. If the process was
active in tick n, element n % TICKS of `laps` is LAP | n / TICKS. The lap of tick n is n / TICKS. An
element of `spans` marks SPAN ticks at once in the same way. A later lap overwrites an earlier one,
so no program has to clear elements. Several threads may write one element: they write the same
value."""

PROCESS_DEVICE: Final = np.dtype(
    [
        ("tgid", "u4"),
        ("device", "u4"),
    ]
)
"""``struct process_device``: A process and one of its devices. No padding: it is a key."""

HANDLE: Final = np.dtype(
    [
        ("handle", "u8"),
        ("tgid", "u8"),
    ]
)
"""``struct handle``: A communicator's handle in one process. No padding: it is a key."""

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
        ("unique_id", "u8", (16,)),
    ]
)
"""``struct member``: One rank of a communicator. Apart from the monitor, which frees the record,
only threads of the rank's process write it. NCCL requires that the calls for a communicator are
made one at a time, so no two threads write the record at once."""

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
        ("uncharged_ns", "u8"),
        ("no_follower", "u8"),
        ("no_allocation", "u8"),
        ("no_communicator", "u8"),
        ("no_kernel", "u8"),
        ("no_ring", "u8"),
        ("no_activity", "u8"),
        ("no_stack", "u8"),
    ]
)
"""``struct losses``: Numbers of events that were not counted, or were counted wrongly, by reason.
The names are those of model.window.LOSSES."""

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
"""``struct kept_call``: One captured call."""

KEEPING: Final = np.dtype(
    [
        ("since_ns", "u8"),
        ("slow", "u8"),
        ("samples", "u8"),
        ("most_slow", "u8"),
        ("most_samples", "u8"),
        ("most_of_slot", "u8"),
        ("own_slots", "u8"),
        ("own_kernels", "u8"),
        ("stacks", "u8"),
        ("sampled_ns", "u8"),
        ("stacks_read", "u8"),
        ("most_stacks", "u8"),
    ]
)
"""``struct keeping``: Numbers of captured calls of all slots, and limits, which the monitor
writes."""


class Naming(IntEnum):
    """``enum naming``: How a traced function names CUDA kernels. The lower bits of its attach cookie
    hold this value. The traced function's arguments are in parentheses."""

    REGISTERS = 1
    """Registers a function with its name: (handle, function, ..., name)."""
    UNLOADS = 2
    """Unloads registered functions: (handle)."""
    LOOKS_UP = 3
    """Looks up a function by its name: (result, module, name)."""
    CONVERTS = 4
    """Converts a function or handle of a CUDA kernel: (result, other function)."""


class Pool(IntEnum):
    """``enum pool``: The kinds of records of which there is a fixed number."""

    SLOTS = 0
    THREADS = 1
    HEAPS = 2
    ACTIVITIES = 3
    MEMBERS = 4
    KERNELS = 5
    OCTAVES = 6
    PIECES = 7
    """Allocations of device memory, which have no queue."""
    CHARGES = 8


class Evicting(IntEnum):
    """``enum evicting``: The maps that evict their oldest elements when they are full."""

    TOLD_PROGRAMS = 0
    REGISTERED = 1
    LOOKED_UP = 2
    GENERATION_OF = 3
    LOOKUPS = 4
    CUDA_PROGRAMS = 5
    DEVICE_OF_CONTEXT = 6
    CHOICES = 7
    OLDER_PROGRAMS = 8


class Watched(IntEnum):
    """``enum watched``: Whether the monitor saw how a program initialized CUDA."""

    UNKNOWN = 0
    """Not decided yet: decided by begin_cuda() or decide_device()."""
    BEGIN = 1
    """The monitor saw how the program initialized CUDA."""
    LATE = 2
    """The program may have initialized CUDA before the monitor watched it."""


class Choosing(IntEnum):
    """``enum choosing``: How a traced function chooses a device. The lower bits of its attach cookie
    hold this value. The traced function's arguments are in parentheses."""

    BEGINS = 1
    """Initializes CUDA."""
    SETS_DEVICE = 2
    """Chooses a device by the runtime: (ordinal)."""
    CREATES_2 = 3
    """Creates a context: (context, ..., ordinal), where the ordinal is argument 2."""
    CREATES_3 = 4
    """Creates a context: (context, ..., ordinal), where the ordinal is argument 3."""
    CREATES_4 = 5
    """Creates a context: (context, ..., ordinal), where the ordinal is argument 4."""
    RETAINS = 6
    """Returns the primary context of a device: (context, ordinal)."""
    DESTROYS = 7
    """Destroys a context: (context)."""
    PUSHES = 8
    """Puts a context on top of the thread's stack: (context)."""
    POPS = 9
    """Removes the current context from the thread's stack."""
    SETS_CONTEXT = 10
    """Replaces the current context: (context)."""
    TELLS = 11
    """Returns the device of the current context: (ordinal)."""
    TELLS_UUID = 12
    """Returns the UUID of a device: (UUID, ordinal)."""
    TELLS_GPU = 13
    """Returns the UUID of the GPU, even if the device is a MIG instance: (UUID, ordinal)."""


class How(IntEnum):
    """``enum how``: Details of a wait, in addition to its enum part."""

    PLAIN = 0
    """No detail; in part LOCK: a wait for a hand-over (held.h)."""
    HELD = 1
    """Part LOCK: a wait for a lock that another thread held."""
    STOPPED = 2
    """Part OTHER: a signal stopped the thread."""
    ENDED = 3
    """A wait that another thread ended by exiting."""
    SYNC = 4
    """Part DISK: a wait in fsync or a similar call for data that was written before."""
    TRACED = 5
    """Part OTHER: a debugger stopped the thread."""
    FROZEN = 6
    """Part OTHER: the thread's cgroup was frozen."""
    TIMED = 7
    """Part NETWORK: the wait reached its time limit (limits.h)."""


class Timing(IntEnum):
    """``enum timing``: How calls of a function that has a session probe (bpf/timed.h) are counted;
    changed by the monitor."""

    SOME = 0
    """All are counted, some are timed."""
    ALL = 1
    """All are counted and timed."""
    BOTH = 2
    """The same, while it has entry and return probes, too, for a moment."""


class Size(IntEnum):
    """``enum size``: How to find the number of bytes that a call moves. Where a value is shifted by c,
    it counts elements of 2^c bytes."""

    NONE = 0
    """The call moves no bytes, or no argument says how many."""
    ARGUMENT = 1
    """Argument a, shifted left by c."""
    PRODUCT = 2
    """Argument a x argument b (width and height), shifted left by c."""
    NCCL = 3
    """Argument a (a count) x the size of the ncclDataType_t in argument b."""
    STRUCT = 4
    """Product of c (2 or 3) u64, from byte b of the struct at argument a."""
    ARGUMENT32 = 5
    """The low 32 bits of argument a, an unsigned int, shifted left by c."""
    PRODUCT32 = 6
    """The product of the low 32 bits of arguments a and b, shifted left by c."""
    PRODUCT3 = 7
    """Arguments a x b x c, which are a cudaExtent on the stack of x86-64."""


class Direction(IntEnum):
    """``enum direction``: Where the arguments of a call hold the direction of a copy. If the direction
    can be read and is one of the KINDS, the call is counted as operation + 1 + the value of its
    cudaMemcpyKind; otherwise as the operation itself."""

    NONE = 0
    KIND = 1
    """The cudaMemcpyKind (u32) is argument d."""
    STRUCT_KIND = 2
    """The cudaMemcpyKind (u32): at byte 8 x d of the struct at argument a."""


class Object(IntEnum):
    """``enum object``: What a call does to an object that outlives the call. The comment at each value
    describes argument number object_at of the call."""

    NONE = 0
    ALLOCATES = 1
    """Address where the call writes the address of the allocated memory."""
    FREES = 2
    """Address of the device memory that the call frees."""
    JOINS = 3
    """Joins by a unique id; address where the call writes the handle."""
    JOINS_BY_MANY = 4
    """Joins by several ids; address where the call writes the handle."""
    JOINS_ALL = 5
    """Joins as all ranks; address where the call writes the handles."""
    SPLITS = 6
    """Splits a communicator; address where the call writes the new handle."""
    LEAVES = 7
    """Handle of the communicator that the rank leaves."""
    ENTERS = 8
    """Handle of the communicator whose collective the rank enters."""
    LAUNCHES = 9
    """Function or handle of the CUDA kernel that the call launches."""
    USES = 10
    """Handle of the communicator that the call uses."""


class MemberState(IntEnum):
    """``enum member_state``: State of the record of a rank."""

    FREE = 0
    BEGINS = 1
    """The call that joins the communicator has not returned."""
    LIVE = 2
    OVER = 3
    """The rank has left; the monitor frees the record."""


class Why(IntEnum):
    """``enum why``: Why a call was captured."""

    SLOW = 0
    SAMPLE = 1
