"""The views that queries see, as data: what they are made of, and what ``--tables`` and the documents say.

They stand in the temporary schema, where they hide tables of the file that have the same name; those are
still there as ``main.NAME``. Names that begin with ``~`` are for this package alone.
"""

from __future__ import annotations

from typing import Final

from stalltop.model.window import SPLITS
from stalltop.recordings.query.device_views import DEVICE_VIEWS
from stalltop.recordings.query.view import IN_WINDOW, WHAT, WHERE, WHO, WINDOW, WINDOW_SQL, SqlView

UNKNOWN: Final = "(unknown)"
"""``kernel_name`` of a launch of which the kernel is not known; of what is no launch it is NULL."""
_SPLITS: Final = tuple((f"{name}_ns", f"of the time: {name}") for name in SPLITS)

EVENT_COLUMNS: Final = (
    *WINDOW,
    *WHO,
    *WHAT,
    *WHERE,
    ("kernel_name", f"of a launch: the kernel, or {UNKNOWN}; NULL where it is no launch"),
    ("duration_ns", "how long the call took"),
    ("bytes", "moved, allocated or sent by it"),
    ("error", "1: it returned an error"),
    ("start_ns", "when it began, Unix time in ns; of calls not kept one by one, the start of their window"),
    ("tid", "thread id; NULL where the call was not kept"),
    ("kept", "1: kept one by one, all its figures are its own"),
)
"""Of a view of single calls."""
OF_WINDOW: Final = tuple(name for name, _ in WINDOW)
"""Of these, what tells one window from another."""
PER_CALL: Final = ("start_ns", "tid", "kept")
"""Of these, what only single calls have: no sum stands for it."""
SUMS: Final = {"duration_ns": "~total_ns", "bytes": "~bytes", "error": "~errors"}
"""Of these, what is stored as a sum, and the column of that sum."""
LONGEST: Final = {"duration_ns": "~max_ns"}
"""What is stored as a maximum."""
NO_KERNEL: Final = -1
"""Number of the kernel whose name is ``UNKNOWN``, where the file has none of no name."""
PLACE: Final = "~place"
"""Which row of counts a row of sums is, where it is one."""
WEIGHT: Final = "~calls"
"""How many calls a row of sums, or a row of calls that are alike, stands for."""

EVENTS: Final = {
    "cuda_events": "each call of the CUDA runtime and driver, but for those made inside another traced call",
    "nccl_events": "each call of NCCL",
    "host_events": "each time between calls (host gap), and each piece of work of threads that wake callers",
    "nested_events": "each call made inside another traced call, such as a driver's inside the runtime's",
}
"""Views of single calls: a row is one call, also where only their number and sums are stored."""
BY_SERIES: Final = 'CROSS JOIN temp."~series" s ON s.series_id = n.series_id LEFT ' + IN_WINDOW
_BY_PROCESS: Final = 'CROSS JOIN temp."~processes" p ON p.process_id = n.process_id LEFT ' + IN_WINDOW
WHO_SQL: Final = "s.cgroup_id, s.pid, s.process, s.layer, s.op, s.device"
SERIES_SQL: Final = f"{WINDOW_SQL}, {WHO_SQL}"
_PROCESS_SQL: Final = f"{WINDOW_SQL}, p.cgroup_id, p.pid, p.process"


def _plain(
    name: str, about: str, head: tuple[tuple[str, str], ...], sql: str, join: str, *more: str
) -> SqlView:
    """A view of a table of the file, most columns of which keep their names. ``more``: ``column: what``."""
    own = tuple((column, what) for column, _, what in (line.partition(": ") for line in more))
    columns = "".join(f", n.{column}" for column, _ in own)
    return SqlView(name, about, (*head, *own), f"SELECT {sql}{columns} FROM main.{name} n {join}")


VIEWS: Final = (
    SqlView(
        "containers",
        "whose the calls are: containers, pods, jobs, units; what is in none, by its process or session",
        (
            (
                "cgroup_id",
                "its number here: cgroup v2 id, or below zero where that is unknown or not its alone",
            ),
            ("container_id", "a short name that is its own: name, and name@id where several have that name"),
            ("name", "its name, else a short id"),
            ("kind", "container, pod, job, unit, session, process or host"),
            ("runtime", "docker, containerd, slurm … or empty"),
            ("full_id", "the runtime's whole id of it; empty where it has none"),
            ("pod", "pod name, else the pod's UID"),
            ("namespace", "of the pod"),
            ("host", "host that it is on"),
            ("tenant", "key of it in other outputs of stalltop"),
            ("cgroup_path", "below the root of its hierarchy"),
            ("real_cgroup_id", "cgroup v2 id; 0 where it is unknown"),
            ("pod_container", "name of the container within its pod"),
            ("pod_uid", "of the pod: another pod of the same name has another"),
            ("user", "whose job or session it is"),
            ("labels", "JSON list of [name, value]: of the container or pod"),
        ),
    ),
    *(SqlView(name, about, EVENT_COLUMNS) for name, about in EVENTS.items()),
    SqlView(
        "operations",
        "what each process counted of each operation in each window, with its histogram",
        (
            *WINDOW,
            ("window_seconds", "how long that lasted"),
            *WHO,
            *WHAT,
            *WHERE,
            ("nested", "1: calls made inside other traced calls: leave them out of totals"),
            ("calls", "calls that returned"),
            ("errors", "of these, with an error"),
            ("bytes", "moved, allocated or sent by them"),
            ("total_ns", "time in them"),
            ("max_ns", "the longest"),
            *_SPLITS,
            ("histogram", "for p(histogram, 99) and hmerge(histogram)"),
        ),
        "SELECT n.window_id, w.start AS window_start, w.seconds AS window_seconds, s.cgroup_id, s.pid,"
        " s.process, s.layer, s.op, s.device, s.nested, n.calls, n.errors, n.bytes, n.total_ns, n.max_ns, "
        + ", ".join(f"n.{name}" for name, _ in _SPLITS)
        + f", h.payload AS histogram FROM main.counts n {BY_SERIES}"
        " LEFT JOIN main.histograms h ON h.window_id = n.window_id AND h.place = n.place",
    ),
    SqlView(
        "launches",
        "launches by kernel, as far as kernels were told apart",
        (
            *WINDOW,
            *WHO,
            *WHAT,
            *WHERE,
            ("kernel_name", f"the kernel, or {UNKNOWN}"),
            ("calls", "launches"),
            ("errors", "of these, with an error"),
            ("total_ns", "time in the launching calls, not on the device"),
            ("max_ns", "the longest"),
        ),
        f"SELECT {SERIES_SQL}, k.kernel_name, n.calls, n.errors, n.total_ns, n.max_ns"
        f' FROM main.kernel_counts n {BY_SERIES} LEFT JOIN temp."~kernels" k ON k.kernel_id = n.kernel_id',
    ),
    SqlView(
        "kept_calls",
        "slow calls, and a few taken at random, one by one as they were",
        (
            *WINDOW,
            *WHO,
            *WHAT,
            *WHERE,
            ("nested", "1: made inside another traced call"),
            ("kernel_name", "of a launch"),
            ("tid", "thread id"),
            ("start_ns", "Unix time, ns"),
            ("duration_ns", "how long it took"),
            *_SPLITS,
            ("bytes", "moved, allocated or sent"),
            ("returned", "what the function returned; 0 is success"),
            ("arguments", "such as stream=0x7f2c10"),
            ("why", "slow, or sample: taken at random"),
        ),
        f"SELECT {SERIES_SQL}, s.nested, k.kernel_name, n.tid, n.start_ns, n.duration_ns, "
        + ", ".join(
            f"json_extract(n.split_ns, '$[{place}]') AS {name}_ns" for place, name in enumerate(SPLITS)
        )
        + f", n.bytes, n.returned, n.arguments, n.why FROM main.calls n {BY_SERIES}"
        ' LEFT JOIN temp."~kernels" k ON k.kernel_id = n.kernel_id',
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
            ("age_ns", "since it began"),
            ("ended", "1: its thread ended inside of it"),
        ),
        f"SELECT {SERIES_SQL}, n.tid, n.age_ns, n.ended FROM main.open_calls n {BY_SERIES}",
    ),
    SqlView(
        "chains",
        "what was wrong in each window, and what had ended before it (open is 0): cause, who loses, how much",
        (
            *WINDOW,
            ("chain_id", "the same as long as it is open and when it opens again"),
            ("cause", "docs/causes.md lists them"),
            ("severity", "critical, high, medium, low or info"),
            ("title", "the cause in a few words"),
            ("summary", "one line: who loses what to whom"),
            *WHO,
            *WHAT,
            ("lost_ms_per_s", "what it cost; NULL where it was over by then"),
            ("lost_ms", "the same over the window"),
            ("confidence", "0 to 1"),
            ("p99_ns", "of the operation"),
            ("normal_p99_ns", "what was learned to be normal"),
            ("calls", "calls that these figures rest on"),
            ("since", "when it was first seen, Unix time in s"),
            ("seen", "when it was last seen"),
            ("open", "1: it went on"),
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
            ("waited_for", "runqueue: the culprit had the CPU; else it gave the wake-up"),
            ("culprit_cgroup_id", "whose fault: a row of containers"),
            ("culprit_pid", "process id; 0: the kernel, or nobody that is known"),
            ("culprit_process", "its name"),
            ("stolen_ns", "how long"),
            ("times", "how often"),
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
            "requests: how many",
            "bytes: how much",
        ),
        "queued_ns: from submission until the device got them",
        "service_ns: from there until they were done",
        "max_ns: the longest, from submission to its end",
    ),
    _plain(
        *("tenant_use", "what a container used, and what it was denied", (*WINDOW, WHO[0])),
        f"{WINDOW_SQL}, t.cgroup_id",
        f'CROSS JOIN temp."~tenants" t ON t.tenant_id = n.tenant_id LEFT {IN_WINDOW}',
        *("cpu_ns: CPU time", "throttled_ns: time stopped by its CPU quota"),
        *(
            "reclaim_ns: time of its threads in direct reclaim",
            "oom_kills: processes killed for want of memory",
        ),
        *(
            "refaults: pages read again soon after they had been dropped",
            "limit_hits: met its limit of memory",
        ),
        "memory_used_bytes: at the end of the window",
    ),
    _plain(
        *("process_use", "what a process used", (*WINDOW, *WHO), _PROCESS_SQL, _BY_PROCESS),
        *("cpu_ns: CPU time", "minor_faults: page faults without I/O", "major_faults: page faults with I/O"),
        *("retransmits_v4: TCP segments sent again", "retransmits_v6: the same, over IPv6"),
        *("allocations: of device memory", "frees: of device memory"),
        *("allocated_bytes: of device memory", "freed_bytes: of device memory", "threads: how many"),
        *("rss_bytes: resident memory", "swap_bytes: swapped out", "held_bytes: device memory not freed yet"),
    ),
    _plain(
        *("ranks", "processes' places in NCCL communicators", (*WINDOW, *WHO), _PROCESS_SQL, _BY_PROCESS),
        *("communicator: hash of its id", "rank: in the communicator", "ranks: of the whole communicator"),
        *("collectives: entered", "joined: of these compared with other local ranks"),
        *("late_ns: sum over these: how long after the first local rank it entered",),
        *(
            "last: of these, how often it was the last",
            "behind: collectives that another rank has entered only",
        ),
    ),
    _plain(
        *("events", "what happened at one moment: oom_kill, xid, gpu_lost …", (*WINDOW, *WHO)),
        *(_PROCESS_SQL, _BY_PROCESS, "time: Unix time, s", "kind: what", "text: one line for a person"),
    ),
    *DEVICE_VIEWS,
    SqlView(
        "losses",
        "what was lost, by counter (docs/json.md says what each one means)",
        (*WINDOW, ("name", "of the counter"), ("count", "how many")),
        f"SELECT {WINDOW_SQL}, n.name, n.count FROM main.losses n LEFT {IN_WINDOW}",
    ),
    SqlView(
        "windows",
        "the stretches of time that the file has",
        (
            ("window_id", ""),
            ("host", "host name; of several put together, all of them"),
            ("window_start", "Unix time, s"),
            ("window_seconds", "how long it lasted"),
            ("level", "0: as it came; 10, 60: put together to windows of at least so many seconds"),
            ("simulated", "1: made up, not measured"),
            ("passed_over", "slow calls that are counted, but were not kept one by one"),
            ("cost_percent", "share of one CPU that all probes took"),
            ("attached", "probes in place"),
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
"""All of them, in the order in which they are listed."""
