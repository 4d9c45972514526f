"""Every table of a file, as data: what is written, what is read and what the documents say come from here.

A file is a SQLite database. What many windows say alike (names, series, what is traced) stands once, in the
tables of ``SHARED``, and is referred to by number; what belongs to one window stands in the tables of
``PARTS`` under the window's number, in the order it had there.

Counts of 2^63 and more, which no counter reaches in practice, are stored as that count minus 2^64: SQLite's
integers have a sign. A float that is no finite number is stored as NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from model.activity import DeviceActivity, DeviceOverlap
from model.allocation import Allocation
from model.calls import KeptCall
from model.chain import Chain
from model.device import Device, System
from model.evidence import BlockIo, Charge, Event, ProcessUse, Rank, TenantUse
from model.kernels import KernelCount
from model.window import SPLITS, Coverage, OpenCall

APPLICATION_ID: Final = 0x53544C54
"""``STLT``: at byte 68 of every file, big endian."""
VERSION: Final = 3
"""Of the format, as the file's ``user_version``, at byte 60. Version 1 was gzip-compressed JSON. Tables and
columns may be added to a version until it is released; ``store.versions`` has those that were."""

INTEGER, REAL, TEXT, BLOB = "INTEGER", "REAL", "TEXT", "BLOB"
_EMPTY: Final = {INTEGER: "0", REAL: "0.0", TEXT: "''", BLOB: "x''"}
_SERIES_FIELDS: Final = ("tenant", "pid", "process", "layer", "operation", "nested", "device")
_WHICH: Final = "number of the GPU on its host, or `0:3` for MIG device 3 of GPU 0"
_PROCESS_FIELDS: Final = ("tenant", "pid", "process")
_LIMITS: Final = (
    *("cpu_quota", "quota_cgroup", "memory_limit_bytes", "memory_cgroup", "cpu_folder", "cpu_version"),
    *("memory_folder", "memory_version", "cpuset"),
)
_GPU: Final = (
    *("index", "uuid", "name", "memory_total_bytes", "power_limit_watts", "sm_clock_max_mhz"),
    *("pcie_generation_max", "pcie_width_max", "pci_bus_id", "minor", "virtualization", "compute_mode"),
    *("persistence", "mig", "ecc", "memory_clock_max_mhz", "video_clock_max_mhz"),
    *("power_limit_default_watts", "slowdown_celsius", "shutdown_celsius", "bar1_total_bytes", "nvlinks"),
)
_ALLOTMENT: Final = ("namespace", "pod", "pod_uid", "container", "resource", "devices", "tenant")
_CHAIN_TEXT: Final = (
    *("id", "cause", "title", "summary", "tenant", "pid", "process", "layer", "operation"),
    *("links", "fixes", "unknown", "rows"),
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    type: str
    about: str
    null: bool = False
    """Whether it may be NULL: not measured, or not known."""
    refers: str = ""
    """The table whose rows it names by number."""
    fields: tuple[str, ...] = ()
    """Fields of the record that it stands for; none: the one of its own name."""

    @property
    def names(self) -> tuple[str, ...]:
        """Fields of the record that it stands for."""
        return self.fields or (self.name,)

    @property
    def declared(self) -> str:
        """Its name and type, as they are declared."""
        return f"{self.name} {self.type}"

    @property
    def added(self) -> str:
        """What declares it in a table that has rows already: in these it is NULL where it may be, else 0, an
        empty text or an empty list."""
        if self.null:
            return self.declared
        empty = "'[]'" if self.about.startswith("JSON list") else _EMPTY[self.type]
        return f"{self.declared} NOT NULL DEFAULT {empty}"


@dataclass(frozen=True, slots=True)
class Table:
    """One table."""

    name: str
    about: str
    columns: tuple[Column, ...]
    kind: type | None = None
    """What a row is read as, where it is one of ours."""
    key: tuple[str, ...] = ()
    """Primary key; of one number in ``SHARED``."""
    names: tuple[str, ...] = field(init=False)
    """Of all columns, in order."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(column.name for column in self.columns))

    @property
    def ddl(self) -> str:
        """The statement that makes it."""
        lines = []
        for column in self.columns:
            line = column.declared
            if self.key == (column.name,):
                line += " PRIMARY KEY"
            elif not column.null:
                line += " NOT NULL"
            lines.append(f"{line} REFERENCES {column.refers}" if column.refers else line)
        if len(self.key) > 1:
            lines.append(f"PRIMARY KEY ({', '.join(self.key)})")
        rowid = "" if self.columns[0].type == INTEGER and len(self.key) == 1 else " WITHOUT ROWID"
        return f"CREATE TABLE {self.name} (\n  " + ",\n  ".join(lines) + f"\n){rowid}"


def _c(name: str, type_: str, about: str, *fields: str, null: bool = False, refers: str = "") -> Column:
    return Column(name, type_, about, null, refers, fields)


_CHECKSUM: Final = _c("checksum", INTEGER, "CRC-32 of the row")


def _shared(name: str, about: str, *columns: Column, kind: type | None = None) -> Table:
    number = _c(f"{name.removesuffix('s') if name not in _IDS else _IDS[name]}_id", INTEGER, "its number")
    return Table(name, about, (number, *columns, _CHECKSUM), kind, (number.name,))


_IDS: Final = {"processes": "process", "series": "series", "coverage": "coverage", "limits": "limits"}
"""Tables whose number is not called by their name without an s."""

SHARED: Final = (
    _shared(
        "hosts",
        "Hosts that windows and rows are of.",
        _c("name", TEXT, "host name; of several put together, all of them"),
        _c("clock_offset_ns", INTEGER, "its clock minus that of the file's first host", null=True),
        _c("clock_error_ns", INTEGER, "how far off that may be", null=True),
    ),
    _shared(
        "tenants",
        "Containers, pods, jobs, units: whoever a call belongs to. One that is told anew (a name that became"
        " known later) has a row for each wording.",
        _c("host_id", INTEGER, "the host it is on", refers="hosts"),
        _c("id", TEXT, "stable key, such as `docker:4f1c…`; empty for the host itself"),
        _c("described", INTEGER, "0: only its id is known"),
        _c("name", TEXT, "what a person reads"),
        _c("kind", TEXT, "container, pod, job, unit, session, process or host"),
        _c("runtime", TEXT, "docker, containerd, slurm … or empty"),
        _c("container_id", TEXT, "the runtime's id of it"),
        _c("pod", TEXT, "pod name, else the pod's UID"),
        _c("namespace", TEXT, "of the pod"),
        _c("cgroup_id", INTEGER, "cgroup v2 id (inode); 0 where only a path is known"),
        _c("cgroup_path", TEXT, "below the root of its hierarchy"),
        _c("container", TEXT, "name of the container within its pod"),
        _c("pod_uid", TEXT, "of the pod; another one of the same name has another"),
        _c("user", TEXT, "whose job or session it is"),
        _c("labels", TEXT, "JSON list of [name, value], by name: of the container or pod"),
    ),
    _shared(
        "processes",
        "Processes that anything is said of.",
        _c("tenant_id", INTEGER, "whom it belongs to", refers="tenants"),
        _c("pid", INTEGER, "process id; 0: of several that are gone, or not known"),
        _c("process", TEXT, "its name"),
    ),
    _shared(
        "series",
        "What is counted apart: one operation of one process.",
        _c("host_id", INTEGER, "the host it is on", refers="hosts"),
        _c("tenant_id", INTEGER, "whom it belongs to", refers="tenants"),
        _c("pid", INTEGER, "process id"),
        _c("process", TEXT, "name of the process"),
        _c("layer", TEXT, "runtime, driver, nccl or host"),
        _c("operation", TEXT, "such as `cudaLaunchKernel`; `host gap` is the time between calls"),
        _c("nested", INTEGER, "1: calls made inside another traced call; totals leave them out"),
        _c("device", TEXT, f"where they ran: {_WHICH}; empty where that was not measured"),
    ),
    _shared("kernels", "Names of GPU kernels.", _c("name", TEXT, "demangled; empty where it is not known")),
    _shared(
        "coverage",
        "What is traced, what is not, and what else stays the same from window to window.",
        _c("attached", INTEGER, "probes in place"),
        _c("functions", INTEGER, "functions probed"),
        _c("libraries", TEXT, "JSON list of probed files: path, layer, functions, processes"),
        _c(
            "missing",
            TEXT,
            "JSON list of what should be traced and is not: what, reason, remedy, pid, tenant",
        ),
        _c("processes", INTEGER, "processes whose calls are counted"),
        _c("probe_ns", REAL, "time one counted call spends in its probes, ns", null=True),
        _c("way", TEXT, "multi, perf or empty where nothing is traced"),
        _c("tracing", TEXT, "empty while tracing works, else why not"),
        _c("driver", TEXT, "version of the GPU driver"),
        _c("devices_unavailable", TEXT, "why there are no devices; empty where there are"),
        _c("unknown", TEXT, "JSON list of lines: what is not measured here and why"),
        _c("tenants", TEXT, "JSON list of the numbers of all tenants that the window describes"),
        kind=Coverage,
    ),
    _shared(
        "limits",
        "Limits of a tenant's cgroup, and which files set them.",
        _c("cpu_quota", REAL, "CPUs it may use", null=True),
        _c("quota_cgroup", TEXT, "path of the cgroup that has this quota"),
        _c("memory_limit_bytes", INTEGER, "the tightest limit of memory", null=True),
        _c("memory_cgroup", TEXT, "path of the cgroup that has this limit"),
        _c("cpu_folder", TEXT, "directory whose files set the quota"),
        _c("cpu_version", INTEGER, "1 or 2, of cgroups; 0 without a directory"),
        _c("memory_folder", TEXT, "directory whose files set the limit of memory"),
        _c("memory_version", INTEGER, "1 or 2, of cgroups; 0 without a directory"),
        _c("cpuset", TEXT, "CPUs that it may use, as the kernel lists them"),
        kind=TenantUse,
    ),
    _shared(
        "gpus",
        "What of a GPU stays the same.",
        _c("number", INTEGER, "its index on the host, from 0", "index"),
        _c("uuid", TEXT, "the driver's id of it"),
        _c("name", TEXT, "model"),
        _c("memory_total_bytes", INTEGER, "of its memory", null=True),
        _c("power_limit_watts", REAL, "what it may draw", null=True),
        _c("sm_clock_max_mhz", INTEGER, "the fastest clock of its SMs", null=True),
        _c("pcie_generation_max", INTEGER, "what card and slot can do together", null=True),
        _c("pcie_width_max", INTEGER, "lanes", null=True),
        _c("pci_bus_id", TEXT, "where it is on the bus"),
        _c("minor", INTEGER, "N of its `/dev/nvidiaN`", null=True),
        _c("virtualization", TEXT, "none, passthrough, vGPU, vGPU host, vSGA host; empty where unknown"),
        _c("compute_mode", TEXT, "default, exclusive process, exclusive thread, prohibited"),
        _c("persistence", INTEGER, "1: the driver keeps it ready while nobody uses it", null=True),
        _c("mig", INTEGER, "1: it is divided by MIG", null=True),
        _c("ecc", INTEGER, "1: its memory has error correction, and it is on", null=True),
        _c("memory_clock_max_mhz", INTEGER, "the fastest clock of its memory", null=True),
        _c("video_clock_max_mhz", INTEGER, "the fastest clock of its encoders and decoders", null=True),
        _c("power_limit_default_watts", REAL, "the limit that the board comes with", null=True),
        _c("slowdown_celsius", REAL, "where the hardware begins to slow down", null=True),
        _c("shutdown_celsius", REAL, "where it switches itself off", null=True),
        _c("bar1_total_bytes", INTEGER, "what of its memory the host can map", null=True),
        _c("nvlinks", INTEGER, "links that it has", null=True),
        kind=Device,
    ),
    _shared(
        "allotments",
        "What schedulers gave to containers, as long as it stays the same.",
        _c("namespace", TEXT, "of the pod"),
        _c("pod", TEXT, "its name"),
        _c("pod_uid", TEXT, "its UID; empty where it is not known which pod of that name it is"),
        _c("container", TEXT, "name of the container within the pod"),
        _c("resource", TEXT, "such as `nvidia.com/gpu` or `nvidia.com/mig-1g.10gb`"),
        _c("devices", TEXT, "JSON list: UUIDs of GPUs or MIG devices, with `::N` for a replica"),
        _c("tenant_id", INTEGER, "who runs in it; of no id where none was seen", "tenant", refers="tenants"),
        kind=Allocation,
    ),
    _shared(
        "chain_texts",
        "What of a chain stays the same from window to window.",
        _c("id", TEXT, "the chain's: the same as long as it is open and when it opens again"),
        _c("cause", TEXT, "docs/causes.md lists them"),
        _c("title", TEXT, "the cause in a few words"),
        _c("summary", TEXT, "one line: who loses what to whom"),
        _c("process_id", INTEGER, "who loses", *_PROCESS_FIELDS, refers="processes"),
        _c("layer", TEXT, "of the operation"),
        _c("operation", TEXT, "what it loses it in; empty where it is no operation"),
        _c("links", TEXT, "JSON list of its steps: role, text, tenant, pid, process, device, depth"),
        _c("fixes", TEXT, "JSON list of what helps: text, command, look"),
        _c("unknown", TEXT, "JSON list of lines: what is not known about it"),
        _c("rows", TEXT, "JSON list of the rows it speaks of, each a list: host to nested"),
        kind=Chain,
    ),
)
"""Tables whose rows windows refer to. Rows are never changed."""

ABOUT: Final = Table(
    "about",
    "What the file is: `kind` is `window` (one that was saved) or `recording`.",
    (_c("name", TEXT, "of the property"), _c("value", TEXT, "of the property")),
    key=("name",),
)

WINDOWS: Final = Table(
    "windows",
    "The windows: stretches of time of one host. In a recording later ones have higher numbers, but for those"
    " that older ones were put together to.",
    (
        _c("window_id", INTEGER, "its number"),
        _c("host_id", INTEGER, "whose it is", refers="hosts"),
        _c("start", REAL, "Unix time, s"),
        _c("seconds", REAL, "how long it lasted"),
        _c("level", INTEGER, "0: as it came; 10, 60: put together to windows of at least so many seconds"),
        _c("simulated", INTEGER, "1: made up, not measured"),
        _c("split", INTEGER, "1: it was measured where the time of calls went"),
        _c("coverage_id", INTEGER, "what was traced", refers="coverage"),
        _c("cost_percent", REAL, "share of one CPU that all probes took", null=True),
        _c("swap_in_bytes", INTEGER, "by the whole host"),
        _c("swap_out_bytes", INTEGER, "by the whole host"),
        _c("calls_passed_over", INTEGER, "slow calls that are counted in their rows and not kept one by one"),
        _c(
            "lost_ms_per_s",
            REAL,
            "time that open chains cost together; the most, where windows were put together",
            null=True,
        ),
        _c("worst", INTEGER, "severity of the worst open chain: 0 critical to 4 info; 5: none was open"),
        _c("began", INTEGER, "the same of chains that began within"),
        _CHECKSUM,
    ),
    key=("window_id",),
)


def _part(name: str, about: str, *columns: Column, kind: type | None = None) -> Table:
    window = _c("window_id", INTEGER, "the window", refers="windows")
    place = _c("place", INTEGER, "from 0: its place in the window")
    return Table(name, about, (window, place, *columns), kind, ("window_id", "place"))


_SERIES: Final = _c("series_id", INTEGER, "what it is of", *_SERIES_FIELDS, refers="series")
_PROCESS: Final = _c("process_id", INTEGER, "whose", *_PROCESS_FIELDS, refers="processes")
_TENANT: Final = _c("tenant_id", INTEGER, "whose", "tenant", refers="tenants")
_KERNEL: Final = _c("kernel_id", INTEGER, "which kernel", "kernel", refers="kernels")

COUNTS: Final = _part(
    "counts",
    "What each series counted.",
    _c("series_id", INTEGER, "what is counted", refers="series"),
    _c("calls", INTEGER, "calls that returned"),
    _c("errors", INTEGER, "of these, with an error"),
    _c("bytes", INTEGER, "moved, allocated or sent by them"),
    _c("total_ns", INTEGER, "time in them"),
    _c("max_ns", INTEGER, "the longest"),
    *(_c(f"{name}_ns", INTEGER, f"of total_ns: {name}", null=True) for name in SPLITS),
    _c("normal_p50_ns", INTEGER, "p50 that was learned to be normal", null=True),
    _c("normal_p99_ns", INTEGER, "p99 that was learned to be normal", null=True),
)
HISTOGRAMS: Final = _part(
    "histograms",
    "How long the calls of `counts` took: the row of the same window and place.",
    _c("payload", BLOB, "HdrHistogram V2, compressed: 1 ns to 2^37 - 1 ns, two significant digits"),
)
LOSSES: Final = _part(
    "losses",
    "What was lost, by counter (docs/json.md).",
    _c("name", TEXT, "of the counter"),
    _c("count", INTEGER, "how many"),
)
RECORDS: Final = (
    _part(
        "kernel_counts",
        "Launches by kernel. Those of a series that are in no row are of unknown kernels.",
        _SERIES,
        _KERNEL,
        _c("calls", INTEGER, "launches"),
        _c("errors", INTEGER, "of these, with an error"),
        _c("total_ns", INTEGER, "time in the launching calls, not on the device"),
        _c("max_ns", INTEGER, "the longest"),
        _c("buckets", TEXT, "JSON list of [bucket, calls]: four buckets an octave"),
        kind=KernelCount,
    ),
    _part(
        "charges",
        "Time off the CPU of a series that another process is the cause of.",
        _c("series_id", INTEGER, "who lost it", *_SERIES_FIELDS, refers="series"),
        _c("kind", TEXT, "runqueue: the culprit had the CPU; else it gave the wake-up"),
        _c(
            *("culprit_id", INTEGER, "who caused it", "culprit_tenant", "culprit_pid", "culprit_process"),
            refers="processes",
        ),
        _c("ns", INTEGER, "how long"),
        _c("times", INTEGER, "how often"),
        kind=Charge,
    ),
    _part(
        "block_io",
        "Requests of one process to one block device.",
        _PROCESS,
        _c("device", TEXT, "the kernel's name, such as `nvme0n1`"),
        _c("write", INTEGER, "1: writes"),
        _c("requests", INTEGER, "how many"),
        _c("bytes", INTEGER, "how much"),
        _c("queued_ns", INTEGER, "from submission until the device got them"),
        _c("service_ns", INTEGER, "from there until they were done"),
        _c("max_ns", INTEGER, "the longest, from submission to its end"),
        kind=BlockIo,
    ),
    _part(
        "tenant_use",
        "What a tenant's cgroup used, and what it was denied.",
        _TENANT,
        _c("cpu_ns", INTEGER, "CPU time"),
        _c("periods", INTEGER, "periods of the CFS quota in which it ran"),
        _c("throttled_periods", INTEGER, "of these, stopped by the quota"),
        _c("throttled_ns", INTEGER, "time stopped by the quota"),
        _c("reclaims", INTEGER, "direct reclaims"),
        _c("reclaim_ns", INTEGER, "time of its threads in direct reclaim"),
        _c("oom_kills", INTEGER, "processes killed for want of memory"),
        _c("refaults", INTEGER, "pages of files read again soon after they had been dropped"),
        _c("limit_hits", INTEGER, "allocations that met the limit of memory"),
        _c("limit_kills", INTEGER, "of oom_kills, those for such a limit"),
        _c("forks", INTEGER, "processes begun"),
        _c("execs", INTEGER, "programs begun"),
        _c("exits", INTEGER, "processes ended"),
        _c("memory_used_bytes", INTEGER, "at the end of the window", null=True),
        _c("limits_id", INTEGER, "what it may use", *_LIMITS, refers="limits"),
        kind=TenantUse,
    ),
    _part(
        "process_use",
        "Processes that call, are followed, or are charged with others' time.",
        _PROCESS,
        _c("cpu_ns", INTEGER, "CPU time"),
        _c("minor_faults", INTEGER, "page faults without I/O"),
        _c("major_faults", INTEGER, "page faults with I/O"),
        _c("retransmits_v4", INTEGER, "TCP segments sent again"),
        _c("retransmits_v6", INTEGER, "the same, over IPv6"),
        _c("allocations", INTEGER, "of device memory"),
        _c("frees", INTEGER, "of device memory"),
        _c("allocated_bytes", INTEGER, "of device memory"),
        _c("freed_bytes", INTEGER, "of device memory"),
        _c("link", INTEGER, "0: makes traced calls; 1: wakes such; 2, 3: wakes those; -1: neither"),
        _c("threads", INTEGER, "how many"),
        _c("allowed_cpus", INTEGER, "CPUs that its main thread may run on; 0 where unknown"),
        _c("allowed", TEXT, "the same, as the kernel lists them"),
        _c("nice", INTEGER, "its nice value"),
        _c("rss_bytes", INTEGER, "resident memory"),
        _c("swap_bytes", INTEGER, "swapped out"),
        _c("held_bytes", INTEGER, "device memory allocated and not freed while it was traced", null=True),
        _c("held", INTEGER, "the same, allocations"),
        _c("parent_pid", INTEGER, "its parent"),
        kind=ProcessUse,
    ),
    _part(
        "ranks",
        "Processes' places in NCCL communicators.",
        _c("communicator", TEXT, "hash of its unique id, in hex"),
        _PROCESS,
        _c("rank", INTEGER, "in the communicator"),
        _c("ranks", INTEGER, "of the whole communicator"),
        _c("local_ranks", INTEGER, "of these traced on this host"),
        _c("collectives", INTEGER, "entered"),
        _c("joined", INTEGER, "of these compared with other local ranks"),
        _c("late_ns", INTEGER, "sum over these: how long after the first local rank it entered"),
        _c("last", INTEGER, "of these, how often it was the last"),
        _c("behind", INTEGER, "collectives that another local rank has entered and this one has not"),
        _c("since_entry_ns", INTEGER, "age of its last entry"),
        _c("entered", INTEGER, "collectives entered since it was made"),
        kind=Rank,
    ),
    _part(
        "events",
        "What happened at one moment.",
        _c("time", REAL, "Unix time, s", null=True),
        _c("kind", TEXT, "oom_kill, xid, gpu_lost …"),
        _PROCESS,
        _c("text", TEXT, "one line for a person"),
        kind=Event,
    ),
    _part(
        "activity",
        "The time in which a tenant gave a GPU work or waited for it.",
        _c("device", TEXT, f"{_WHICH}; empty where that is not known"),
        _TENANT,
        _c("active_ns", INTEGER, "that time, to about a millisecond"),
        kind=DeviceActivity,
    ),
    _part(
        "overlaps",
        "The time in which two tenants did so at once. Of a pair that never did there is no row.",
        _c("device", TEXT, f"{_WHICH}; empty where that is not known"),
        _TENANT,
        _c("other_id", INTEGER, "the other one", "other", refers="tenants"),
        _c("ns", INTEGER, "that time, to about a millisecond"),
        kind=DeviceOverlap,
    ),
    _part(
        "allocations",
        "What schedulers had given to containers when the window ended.",
        _c("allotment_id", INTEGER, "what", *_ALLOTMENT, refers="allotments"),
        kind=Allocation,
    ),
    _part(
        "calls",
        "Slow calls, and a small even sample, one by one.",
        _SERIES,
        _c("tid", INTEGER, "thread id"),
        _c("start_ns", INTEGER, "Unix time, ns"),
        _c("duration_ns", INTEGER, "how long it took"),
        _c(
            "split_ns",
            TEXT,
            "JSON list: where its time went, in the order of the columns of counts",
            null=True,
        ),
        _c("bytes", INTEGER, "moved, allocated or sent"),
        _c("returned", INTEGER, "what it returned; 0 is success", null=True),
        _c("arguments", TEXT, "such as `copy=HtoD stream=0x55d0`"),
        _KERNEL,
        _c("why", TEXT, "slow or sample"),
        kind=KeptCall,
    ),
    _part(
        "open_calls",
        "Calls that had not returned when the window ended.",
        _SERIES,
        _c("tid", INTEGER, "thread id"),
        _c("age_ns", INTEGER, "since it began"),
        _c("ended", INTEGER, "1: its thread ended inside of it"),
        kind=OpenCall,
    ),
    _part(
        "devices",
        "What each GPU showed at the end of the window, and what it counted in it.",
        _c("gpu_id", INTEGER, "which one", *_GPU, refers="gpus"),
        _c("utilization_percent", REAL, "time in which a kernel ran", null=True),
        _c("memory_utilization_percent", REAL, "time in which memory was read or written", null=True),
        _c("memory_used_bytes", INTEGER, "of its memory", null=True),
        _c("power_watts", REAL, "what it drew", null=True),
        _c("temperature_celsius", REAL, "of the GPU", null=True),
        _c("sm_clock_mhz", INTEGER, "of its SMs", null=True),
        _c("throttle_reasons", TEXT, "JSON list: what holds the clocks down"),
        _c("processes", TEXT, "JSON list of who has a context on it: pid, kind, memory_bytes, tenant"),
        _c("pcie_generation", INTEGER, "as it is now", null=True),
        _c("pcie_width", INTEGER, "lanes", null=True),
        _c("remap_pending", INTEGER, "1: rows of memory wait for a reset", null=True),
        _c("pcie_replays", INTEGER, "within the window", null=True),
        _c("ecc_corrected", INTEGER, "within the window", null=True),
        _c("ecc_uncorrected", INTEGER, "within the window", null=True),
        _c("power_held_ns", INTEGER, "how long clocks were held down by the power cap", null=True),
        _c("thermal_held_ns", INTEGER, "the same, by temperature", null=True),
        _c("xids", TEXT, "JSON list of critical errors that the driver reported"),
        _c("lost", INTEGER, "1: it no longer answers"),
        _c("notes", TEXT, "JSON list of lines: what could not be read and why"),
        _c("ages", TEXT, "JSON list of [column, seconds]: figures older than the end of the window"),
        _c("performance_state", INTEGER, "0 is the fastest, 15 the slowest", null=True),
        _c(
            "instances",
            TEXT,
            "JSON list of its MIG devices: gpu, index, uuid, profile, gpu_instance, compute_instance,"
            " memory_used_bytes, memory_total_bytes, processes",
        ),
        _c("encoder_percent", REAL, "use of the encoders", null=True),
        _c("decoder_percent", REAL, "use of the decoders", null=True),
        _c("sm_active_percent", REAL, "SMs that had work, on average", null=True),
        _c("sm_occupancy_percent", REAL, "warps resident on them, of those there is room for", null=True),
        _c("tensor_percent", REAL, "time in which the tensor cores worked", null=True),
        _c("dram_percent", REAL, "bandwidth of device memory that was used", null=True),
        _c("memory_clock_mhz", INTEGER, "of its memory", null=True),
        _c("video_clock_mhz", INTEGER, "of its encoders and decoders", null=True),
        _c("energy_millijoules", INTEGER, "what it took within the window", null=True),
        _c("memory_temperature_celsius", REAL, "of its memory", null=True),
        _c("fan_percent", REAL, "the fastest of its fans, of what that is meant to do at most", null=True),
        _c("bar1_used_bytes", INTEGER, "what of its memory the host maps", null=True),
        _c(
            *("sync_boost_held_ns", INTEGER),
            *("how long clocks were held down to those of a slower GPU of the group",),
            null=True,
        ),
        _c("board_limit_held_ns", INTEGER, "the same, by the board's own limits", null=True),
        _c("reliability_held_ns", INTEGER, "the same, by its limits of voltage", null=True),
        _c("software_thermal_held_ns", INTEGER, "the same, by the driver for temperature", null=True),
        _c("hardware_thermal_held_ns", INTEGER, "the same, by the hardware for temperature", null=True),
        _c("power_brake_held_ns", INTEGER, "the same, since the power supply asked for it", null=True),
        _c("pcie_rx_bytes_per_second", INTEGER, "from the host", null=True),
        _c("pcie_tx_bytes_per_second", INTEGER, "to the host", null=True),
        _c("nvlinks_active", INTEGER, "links that are up", null=True),
        _c("nvlink_rx_bytes", INTEGER, "received over all links within the window", null=True),
        _c("nvlink_tx_bytes", INTEGER, "sent over all links within the window", null=True),
        _c("nvlink_errors", INTEGER, "CRC errors, replays and recoveries within the window", null=True),
        _c("ecc_corrected_lifetime", INTEGER, "since the board was made", null=True),
        _c("ecc_uncorrected_lifetime", INTEGER, "since the board was made", null=True),
        _c("retired_pages", INTEGER, "pages of memory that are out of use", null=True),
        _c("retirement_pending", INTEGER, "1: pages wait for a reset to be taken out of use", null=True),
        _c("remapped_corrected", INTEGER, "rows of memory replaced after corrected errors", null=True),
        _c("remapped_uncorrected", INTEGER, "rows of memory replaced after other errors", null=True),
        _c("remap_failed", INTEGER, "1: a row of memory could not be replaced", null=True),
        kind=Device,
    ),
    _part(
        "system",
        "What the host showed at the end of the window: one row; none of several hosts put together.",
        _c("cpus", INTEGER, "how many"),
        _c("cpu_percent", REAL, "busy share of all together", null=True),
        _c("cpu_each_percent", TEXT, "JSON list: of each"),
        _c("memory_total_bytes", INTEGER, "of the host"),
        _c("memory_used_bytes", INTEGER, "without what can be freed"),
        _c("swap_total_bytes", INTEGER, "of the host"),
        _c("swap_used_bytes", INTEGER, "of the host"),
        _c("load", TEXT, "JSON list: of 1, 5 and 15 minutes"),
        _c("uptime_seconds", REAL, "since the host was started", null=True),
        _c("clock_error_ns", INTEGER, "how far its clock may be off true time", null=True),
        kind=System,
    ),
    _part(
        "chains",
        "What was wrong: each chain as it was known when the window ended.",
        _c("chain_text_id", INTEGER, "what it says", *_CHAIN_TEXT, refers="chain_texts"),
        _c("severity", TEXT, "critical, high, medium, low or info"),
        _c("lost_ms_per_s", REAL, "what it costs", null=True),
        _c("confidence", REAL, "0 to 1", null=True),
        _c("figures", TEXT, "JSON list of [share, ns_per_s] of each of its links", "figures"),
        _c("p99_ns", INTEGER, "of the operation", null=True),
        _c("normal_p99_ns", INTEGER, "what was learned to be normal", null=True),
        _c("calls", INTEGER, "of the operation"),
        _c("since", REAL, "Unix time, s: when it was first seen", null=True),
        _c("seen", REAL, "when it was last seen", null=True),
        _c("open", INTEGER, "1: it went on"),
        kind=Chain,
    ),
)
"""Tables of which each row is one record of a window."""

PARTS: Final = (COUNTS, HISTOGRAMS, *RECORDS, LOSSES)
"""All tables of what belongs to one window."""
TABLES: Final = (ABOUT, *SHARED, WINDOWS, *PARTS)


def statements() -> Iterator[str]:
    """What makes an empty file."""
    yield f"PRAGMA application_id = {APPLICATION_ID}"
    yield f"PRAGMA user_version = {VERSION}"
    yield from (table.ddl for table in TABLES)
