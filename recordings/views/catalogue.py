"""The views that queries see, as data: their SQL, and their descriptions for ``--tables`` and the documents.

Views are in the temporary schema. There they hide tables of the file that have the same name; a query can
reach such a table as ``main.NAME``. Names that begin with ``~`` are internal.
"""

from __future__ import annotations

from typing import Final

from stalltop.model.network_ports import PORT_COUNTERS
from stalltop.model.window import SPLITS
from stalltop.recordings.views.device_views import DEVICE_VIEWS
from stalltop.recordings.views.view import IN_WINDOW, WHAT, WHERE, WHO, WINDOW, WINDOW_SQL, SqlView

UNKNOWN: Final = "(unknown)"
"""The ``kernel_name`` of a launch of an unknown CUDA kernel. Calls that are not launches have NULL."""
_SPLITS: Final = tuple((f"{name}_ns", f"part of the time: {name}") for name in SPLITS)
_STACK: Final = (
    ("reason", "why the stack was read, or what the thread did (docs/stacks.md)"),
    ("count", "calls with this stack; of samples, periods or waits"),
    ("ns", "sum of their durations; of open calls, of their ages; of samples, time of threads"),
    ("stack_id", "number of the stack in this file"),
)
_FRAME: Final = ("function", "file", "line")
_LINE_SQL: Final = (
    "(SELECT j.value FROM json_each(x.frames) j"
    " ORDER BY json_extract(j.value, '$[3]') <> 'python', j.key LIMIT 1)"
)
"""The innermost Python frame of a stack; the innermost frame if no Python frame is known."""

EVENT_COLUMNS: Final = (
    *WINDOW,
    *WHO,
    *WHAT,
    *WHERE,
    ("kernel_name", f"of a launch: the CUDA kernel, or {UNKNOWN}; NULL if it is not a launch"),
    ("duration_ns", "duration of the call"),
    ("bytes", "bytes that it moved, allocated or sent"),
    ("error", "1: it returned an error"),
    (
        "start_ns",
        "when it began, Unix time in ns; for calls that were not captured, the start of their window",
    ),
    ("tid", "thread id; NULL if the call was not captured"),
    ("kept", "1: captured: all its figures were measured for this call"),
)
"""Columns of the views of single calls."""
OF_WINDOW: Final = tuple(name for name, _ in WINDOW)
"""Columns of ``EVENT_COLUMNS`` that identify the window."""
PER_CALL: Final = ("start_ns", "tid", "kept")
"""Columns of ``EVENT_COLUMNS`` that only single calls have. Sums do not have these columns."""
SUMS: Final = {"duration_ns": "~total_ns", "bytes": "~bytes", "error": "~errors"}
"""Columns of ``EVENT_COLUMNS`` whose sum is stored. For each, the column that has this sum in the views of
sums."""
LONGEST: Final = {"duration_ns": "~max_ns"}
"""Columns of ``EVENT_COLUMNS`` whose maximum is stored. For each, the column that has this maximum in the
views of sums."""
NO_KERNEL: Final = -1
"""The ``kernel_id`` of an unknown CUDA kernel in ``~kernels``."""
PLACE: Final = "~place"
"""Internal column of views that have one row for each row of ``counts``. Its value is the column ``place`` of
``counts``. Together with the window, it identifies the row."""
WEIGHT: Final = "~calls"
"""Column that has the number of calls of a row, in views whose rows stand for several calls."""

EVENTS: Final = {
    "cuda_events": "each outermost call of the CUDA runtime and driver",
    "nccl_events": "each outermost call of NCCL",
    "host_events": "each host gap (time between calls), and each host work of a thread that wakes callers",
    "nested_events": "each call made inside another traced call, such as a driver call inside a runtime call",
}
"""Views of single calls, with descriptions. A row is one call, although most calls are stored only in
sums."""
BY_SERIES: Final = 'CROSS JOIN temp."~series" s ON s.series_id = n.series_id LEFT ' + IN_WINDOW
_BY_PROCESS: Final = 'CROSS JOIN temp."~processes" p ON p.process_id = n.process_id LEFT ' + IN_WINDOW
WHO_SQL: Final = "s.cgroup_id, s.pid, s.process, s.layer, s.op, s.device"
SERIES_SQL: Final = f"{WINDOW_SQL}, {WHO_SQL}"
_PROCESS_SQL: Final = f"{WINDOW_SQL}, p.cgroup_id, p.pid, p.process"


def _plain(
    name: str, about: str, head: tuple[tuple[str, str], ...], sql: str, join: str, *more: str
) -> SqlView:
    """Return a view of the table ``name``. It has the columns ``head``, whose SQL is ``sql``, and columns of
    the table itself. Each of the latter is given in ``more`` as ``column: description``."""
    own = tuple((column, what) for column, _, what in (line.partition(": ") for line in more))
    columns = "".join(f", n.{column}" for column, _ in own)
    return SqlView(name, about, (*head, *own), f"SELECT {sql}{columns} FROM main.{name} n {join}")


VIEWS: Final = (
    SqlView(
        "containers",
        "owners of calls: containers, pods, jobs, units, sessions; processes outside of these",
        (
            (
                "cgroup_id",
                "its number in this file: the cgroup v2 id, or a negative number if unknown or shared",
            ),
            ("container_id", "a unique short name: its name, or name@id if several have that name"),
            ("name", "its name, else a short id"),
            ("kind", "container, pod, job, unit, session, process or host"),
            ("runtime", "docker, containerd, slurm … or empty"),
            ("full_id", "its full id in the container runtime; empty if it has none"),
            ("pod", "pod name, else the pod's UID"),
            ("namespace", "of the pod"),
            ("host", "its host"),
            ("tenant", "its id in other outputs of stalltop"),
            ("cgroup_path", "its path below the root of the hierarchy"),
            ("real_cgroup_id", "cgroup v2 id; 0 if unknown"),
            ("pod_container", "name of the container within its pod"),
            ("pod_uid", "UID of the pod; a new pod of the same name has another UID"),
            ("user", "owner of the job or session"),
            ("labels", "JSON list of [name, value]: labels of the container or pod"),
        ),
    ),
    *(SqlView(name, about, EVENT_COLUMNS) for name, about in EVENTS.items()),
    SqlView(
        "operations",
        "counts of each operation of each process in each window, with its histogram",
        (
            *WINDOW,
            ("window_seconds", "length of the window, s"),
            *WHO,
            *WHAT,
            *WHERE,
            ("nested", "1: calls made inside other traced calls; leave them out of totals"),
            ("calls", "calls that returned"),
            ("errors", "calls that returned an error"),
            ("bytes", "bytes that these calls moved, allocated or sent"),
            ("total_ns", "sum of the durations of these calls"),
            ("max_ns", "the longest one"),
            *_SPLITS,
            ("histogram", "histogram of durations, for p(histogram, 99) and hmerge(histogram)"),
        ),
        "SELECT n.window_id, w.start AS window_start, w.seconds AS window_seconds, s.cgroup_id, s.pid,"
        " s.process, s.layer, s.op, s.device, s.nested, n.calls, n.errors, n.bytes, n.total_ns, n.max_ns, "
        + ", ".join(f"n.{name}" for name, _ in _SPLITS)
        + f", h.payload AS histogram FROM main.counts n {BY_SERIES}"
        " LEFT JOIN main.histograms h ON h.window_id = n.window_id AND h.place = n.place",
    ),
    SqlView(
        "launches",
        "launches by CUDA kernel, as far as these are known",
        (
            *WINDOW,
            *WHO,
            *WHAT,
            *WHERE,
            ("kernel_name", f"the CUDA kernel, or {UNKNOWN}"),
            ("calls", "launches"),
            ("errors", "calls that returned an error"),
            ("total_ns", "time in the launching calls, not on the device"),
            ("max_ns", "the longest one"),
        ),
        f"SELECT {SERIES_SQL}, k.kernel_name, n.calls, n.errors, n.total_ns, n.max_ns"
        f' FROM main.kernel_counts n {BY_SERIES} LEFT JOIN temp."~kernels" k ON k.kernel_id = n.kernel_id',
    ),
    SqlView(
        "kept_calls",
        "captured calls: slow ones, and a few at random",
        (
            *WINDOW,
            *WHO,
            *WHAT,
            *WHERE,
            ("nested", "1: made inside another traced call"),
            ("kernel_name", "the CUDA kernel of a launch"),
            ("tid", "thread id"),
            ("start_ns", "Unix time, ns"),
            ("duration_ns", "its duration"),
            *_SPLITS,
            ("bytes", "bytes moved, allocated or sent"),
            ("returned", "return value of the function; 0 is success"),
            ("arguments", "such as stream=0x7f2c10"),
            ("why", "slow, or sample: captured at random"),
        ),
        f"SELECT {SERIES_SQL}, s.nested, k.kernel_name, n.tid, n.start_ns, n.duration_ns, "
        + ", ".join(
            f"json_extract(n.split_ns, '$[{place}]') AS {name}_ns" for place, name in enumerate(SPLITS)
        )
        + f", n.bytes, n.returned, n.arguments, n.why FROM main.calls n {BY_SERIES}"
        ' LEFT JOIN temp."~kernels" k ON k.kernel_id = n.kernel_id',
    ),
    SqlView(
        "stacks",
        "captured calls, calls that had not returned for long, and time of threads, by stack",
        (
            *WINDOW,
            *WHO,
            *WHAT,
            *WHERE,
            ("nested", "1: made inside another traced call"),
            *_STACK,
            ("depth", "number of its frames"),
            ("function", "of its innermost Python frame, else of its innermost frame"),
            ("file", "of that frame"),
            ("line", "of that frame; 0 if unknown"),
            ("stack", "its functions, outermost first, with semicolons between them (collapsed form)"),
            ("cut", "why outer frames are missing; empty if the stack is complete"),
        ),
        f"SELECT {SERIES_SQL}, s.nested, n.reason, n.calls AS count, n.ns, n.stack_text_id AS stack_id,"
        " json_array_length(x.frames) AS depth, "
        + ", ".join(f"json_extract({_LINE_SQL}, '$[{at}]') AS {name}" for at, name in enumerate(_FRAME))
        + ", (SELECT group_concat(function, ';') FROM (SELECT json_extract(j.value, '$[0]') AS function"
        " FROM json_each(x.frames) j ORDER BY j.key DESC)) AS stack, x.cut"
        f" FROM main.stack_counts n {BY_SERIES}"
        " CROSS JOIN main.stack_texts x ON x.stack_text_id = n.stack_text_id",
    ),
    SqlView(
        "frames",
        "the frames of the stacks in the table stacks",
        (
            *WINDOW,
            *WHO,
            *WHAT,
            *WHERE,
            *_STACK,
            ("place", "0 for the innermost frame"),
            ("function", "qualified name of a Python function, or demangled name of a native one"),
            ("file", "as the process knows it: in a container, the path there"),
            ("line", "0 if unknown, as always for native code"),
            ("language", "python, native, or jit: compiled by the program while it ran"),
        ),
        f"SELECT {SERIES_SQL}, n.reason, n.calls AS count, n.ns, n.stack_text_id AS stack_id,"
        " j.key AS place, "
        + ", ".join(
            f"json_extract(j.value, '$[{at}]') AS {name}" for at, name in enumerate((*_FRAME, "language"))
        )
        + f" FROM main.stack_counts n {BY_SERIES}"
        " CROSS JOIN main.stack_texts x ON x.stack_text_id = n.stack_text_id"
        " CROSS JOIN json_each(x.frames) j",
    ),
    SqlView(
        "open_calls",
        "calls that had not returned when their window ended, or never will",
        (
            *WINDOW,
            *WHO,
            *WHAT,
            *WHERE,
            ("tid", "thread id"),
            ("age_ns", "time from its start to the end of the window, or to the end of its thread"),
            ("ended", "1: its thread ended inside the call"),
        ),
        f"SELECT {SERIES_SQL}, n.tid, n.age_ns, n.ended FROM main.open_calls n {BY_SERIES}",
    ),
    SqlView(
        "chains",
        "chains (problems) that were open at the end of each window, or had closed by then (open is 0)",
        (
            *WINDOW,
            ("chain_id", "its id; it stays the same while it is open, and when it opens again"),
            ("cause", "one of the causes in docs/causes.md"),
            ("severity", "critical, high, medium, low or info"),
            ("title", "the cause in a few words"),
            ("summary", "one line: who loses what to whom"),
            *WHO,
            *WHAT,
            ("lost_ms_per_s", "its loss; NULL if it had closed"),
            ("lost_ms", "its loss in the whole window, ms"),
            ("confidence", "0 to 1"),
            ("p99_ns", "of the operation"),
            ("normal_p99_ns", "its baseline"),
            ("calls", "number of calls behind these figures"),
            ("since", "when it was first seen, Unix time in s"),
            ("seen", "when it was last seen"),
            ("open", "1: it was open"),
        ),
        f"SELECT {WINDOW_SQL}, c.id AS chain_id, c.cause, n.severity, c.title, c.summary, p.cgroup_id,"
        " p.pid, p.process, c.layer, c.operation AS op,"
        " CASE WHEN n.open THEN n.lost_ms_per_s END AS lost_ms_per_s,"
        " CASE WHEN n.open THEN n.lost_ms_per_s * w.seconds END AS lost_ms, n.confidence, n.p99_ns,"
        " n.normal_p99_ns, n.calls, n.since, n.seen, n.open FROM main.chains n"
        " CROSS JOIN main.chain_texts c ON c.chain_text_id = n.chain_text_id"
        f' LEFT JOIN temp."~processes" p ON p.process_id = c.process_id LEFT {IN_WINDOW}',
    ),
    SqlView(
        "culprits",
        "time off the CPU of an operation, and which process was the cause",
        (
            *WINDOW,
            *WHO,
            *WHAT,
            *WHERE,
            ("waited_for", "runqueue: the culprit had the CPU; any other kind: the culprit ended the wait"),
            ("culprit_cgroup_id", "the culprit: a row of the table containers"),
            ("culprit_pid", "process id; 0: the Linux kernel, or unattributed"),
            ("culprit_process", "its name"),
            ("stolen_ns", "time that was lost, ns"),
            ("times", "number of waits"),
        ),
        f"SELECT {SERIES_SQL}, n.kind AS waited_for, p.cgroup_id AS culprit_cgroup_id, p.pid AS culprit_pid,"
        f" p.process AS culprit_process, n.ns AS stolen_ns, n.times FROM main.charges n {BY_SERIES}"
        ' LEFT JOIN temp."~processes" p ON p.process_id = n.culprit_id',
    ),
    _plain(
        *("block_io", "requests of one process to one block device", (*WINDOW, *WHO), _PROCESS_SQL),
        *(
            _BY_PROCESS,
            "device: such as nvme0n1",
            "write: 1: writes",
            "requests: number",
            "bytes: bytes",
        ),
        "queued_ns: time from submission until the device got the requests",
        "service_ns: time from when the device got the requests until they completed",
        "max_ns: the longest request, from submission to completion",
    ),
    _plain(
        *("tenant_use", "what a container used, and what limits denied it", (*WINDOW, WHO[0])),
        f"{WINDOW_SQL}, t.cgroup_id",
        f'CROSS JOIN temp."~tenants" t ON t.tenant_id = n.tenant_id LEFT {IN_WINDOW}',
        *("cpu_ns: CPU time", "throttled_ns: time for which its CPU quota stopped it"),
        *(
            "reclaim_ns: time that its threads spent in direct reclaim",
            "oom_kills: processes killed for lack of memory",
        ),
        *(
            "refaults: file pages read again soon after they were dropped",
            "limit_hits: allocations that reached a memory limit",
        ),
        "memory_used_bytes: memory in use at the end of the window",
    ),
    _plain(
        *("process_use", "what a process used", (*WINDOW, *WHO), _PROCESS_SQL, _BY_PROCESS),
        *("cpu_ns: CPU time", "minor_faults: page faults without I/O", "major_faults: page faults with I/O"),
        *(
            "retransmits_v4: TCP segments retransmitted over IPv4",
            "retransmits_v6: TCP segments retransmitted over IPv6",
        ),
        *("allocations: allocations of device memory", "frees: frees of device memory"),
        *("allocated_bytes: device memory allocated", "freed_bytes: device memory freed", "threads: number"),
        *(
            "rss_bytes: resident memory",
            "swap_bytes: swapped-out memory",
            "held_bytes: device memory not freed yet",
        ),
    ),
    _plain(
        *("ranks", "members of NCCL communicators", (*WINDOW, *WHO), _PROCESS_SQL, _BY_PROCESS),
        *("communicator: hash of its id", "rank: rank of the process", "ranks: ranks in the communicator"),
        *(
            "collectives: collectives entered",
            "joined: collectives in which it was compared with other local ranks",
        ),
        *(
            "late_ns: sum of its delays after the first local rank, over the collectives counted in the"
            " column joined",
        ),
        *(
            "last: number of collectives, of those counted in the column joined, that it entered last",
            "behind: collectives that another local rank has entered and this one has not",
            "nccl_hashes: how NCCL names the communicator in its logs: version 2.26 and later, and before",
        ),
    ),
    _plain(
        *("events", "what happened at one moment: oom_kill, xid, gpu_lost …", (*WINDOW, *WHO)),
        *(_PROCESS_SQL, _BY_PROCESS, "time: Unix time, s", "kind: kind of event", "text: one line of text"),
    ),
    *DEVICE_VIEWS,
    _plain(
        "network_ports",
        "network interfaces and RDMA ports of each host, with their counters within each window",
        (*WINDOW, ("window_seconds", "length of the window, s")),
        f"{WINDOW_SQL}, w.seconds AS window_seconds",
        f"LEFT {IN_WINDOW}",
        "name: such as eth0, or mlx5_0/1 for port 1 of an adapter",
        "kind: interface, infiniband, roce or rdma",
        "host: its host; empty: that of the window",
        "physical: 0: another port counts the same bytes as well; leave it out of totals",
        "state: state of its link, such as up, down or active",
        "bits_per_second: speed of its link",
        *(f"{one.name}: {one.about}" for one in PORT_COUNTERS),
    ),
    SqlView(
        "losses",
        "losses by counter (docs/json.md explains each)",
        (*WINDOW, ("name", "name of the counter"), ("count", "number")),
        f"SELECT {WINDOW_SQL}, n.name, n.count FROM main.losses n LEFT {IN_WINDOW}",
    ),
    SqlView(
        "windows",
        "the windows of the file",
        (
            ("window_id", ""),
            ("host", "host name; for merged windows of several hosts, all names"),
            ("window_start", "Unix time, s"),
            ("window_seconds", "its length, s"),
            (
                "level",
                "0: as it was read; 10, 60: merged from shorter windows to about this many seconds; shorter"
                " before a pause",
            ),
            ("simulated", "1: simulated, not measured"),
            ("passed_over", "slow calls that are counted but were not captured"),
            ("cost_percent", "part of one CPU that all probes took, percent"),
            ("attached", "attached probes"),
            ("traced_processes", "processes whose calls are counted"),
            ("tracing", "empty while tracing works, else why not"),
        ),
        "SELECT w.window_id, h.name AS host, w.start AS window_start, w.seconds AS window_seconds, w.level,"
        " w.simulated, w.calls_passed_over AS passed_over, w.cost_percent, c.attached,"
        " c.processes AS traced_processes, c.tracing"
        " FROM main.windows w LEFT JOIN main.hosts h ON h.host_id = w.host_id"
        " LEFT JOIN main.coverage c ON c.coverage_id = w.coverage_id",
    ),
)
"""All views, in the order in which they are listed."""
