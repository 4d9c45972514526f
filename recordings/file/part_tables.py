"""The tables whose rows belong to one window, described as data."""

from __future__ import annotations

from typing import Final

from stalltop.model.calls import CapturedCall
from stalltop.model.chain import Chain
from stalltop.model.cuda_kernels import KernelCount
from stalltop.model.devices.activity import DeviceActivity, DeviceOverlap
from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Device, GoneDevice, System
from stalltop.model.evidence import BlockIo, Charge, Event, ProcessUse, Rank, TenantUse
from stalltop.model.network_ports import PORT_COUNTERS, NetworkPort
from stalltop.model.stacks.stack import StackCount
from stalltop.model.window import SPLITS, OpenCall
from stalltop.recordings.file.device_columns import device_figures
from stalltop.recordings.file.shared_tables import PROCESS_FIELDS, SERIES_FIELDS, WHICH, fields_of
from stalltop.recordings.file.table import BLOB, INTEGER, REAL, TEXT, part
from stalltop.recordings.file.table import column as _c

_SERIES: Final = _c(
    "series_id", INTEGER, "the series to which the row belongs", *SERIES_FIELDS, refers="series"
)
_PROCESS: Final = _c(
    "process_id", INTEGER, "the process to which the row belongs", *PROCESS_FIELDS, refers="processes"
)
_TENANT: Final = _c("tenant_id", INTEGER, "the tenant to which the row belongs", "tenant", refers="tenants")
_KERNEL: Final = _c("kernel_id", INTEGER, "the CUDA kernel", "kernel", refers="kernels")

COUNTS: Final = part(
    "counts",
    "The counts of each series.",
    _c("series_id", INTEGER, "the series to which the row belongs", refers="series"),
    _c("calls", INTEGER, "calls that returned"),
    _c("errors", INTEGER, "calls that returned an error"),
    _c("bytes", INTEGER, "bytes that these calls moved, allocated or sent"),
    _c("total_ns", INTEGER, "sum of the durations of these calls"),
    _c("max_ns", INTEGER, "the longest one"),
    *(_c(f"{name}_ns", INTEGER, f"part of total_ns: {name}", null=True) for name in SPLITS),
    _c("normal_p50_ns", INTEGER, "baseline of p50", null=True),
    _c("normal_p99_ns", INTEGER, "baseline of p99", null=True),
)
HISTOGRAMS: Final = part(
    "histograms",
    "Durations of the calls that are counted in the row of `counts` with the same window and place.",
    _c("payload", BLOB, "HdrHistogram V2, compressed: 1 ns to 2^37 - 1 ns, two significant digits"),
)
LOSSES: Final = part(
    "losses",
    "Losses by counter (docs/json.md).",
    _c("name", TEXT, "name of the counter"),
    _c("count", INTEGER, "number"),
)
RECORDS: Final = (
    part(
        "kernel_counts",
        "Launches of each CUDA kernel. If a launch of a series is in no row, its CUDA kernel is not known.",
        _SERIES,
        _KERNEL,
        _c("calls", INTEGER, "launches"),
        _c("errors", INTEGER, "calls that returned an error"),
        _c("total_ns", INTEGER, "time in the launching calls, not on the device"),
        _c("max_ns", INTEGER, "the longest one"),
        _c("buckets", TEXT, "JSON list of [bucket, calls]: four buckets per octave"),
        kind=KernelCount,
    ),
    part(
        "charges",
        "Time that a series spent off the CPU because of another process.",
        _c("series_id", INTEGER, "who lost the time", *SERIES_FIELDS, refers="series"),
        _c("kind", TEXT, "runqueue: the culprit had the CPU; any other kind: the culprit ended the wait"),
        _c(
            *(
                "culprit_id",
                INTEGER,
                "the process that caused the lost time",
                "culprit_tenant",
                "culprit_pid",
                "culprit_process",
            ),
            refers="processes",
        ),
        _c("ns", INTEGER, "time that was lost, ns"),
        _c("times", INTEGER, "number of waits"),
        kind=Charge,
    ),
    part(
        "block_io",
        "Requests of one process to one block device.",
        _PROCESS,
        _c("device", TEXT, "the Linux kernel's name of the device, such as `nvme0n1`"),
        _c("write", INTEGER, "1: writes"),
        _c("requests", INTEGER, "number"),
        _c("bytes", INTEGER, "bytes"),
        _c("queued_ns", INTEGER, "time from submission until the device got the requests"),
        _c("service_ns", INTEGER, "time from when the device got the requests until they completed"),
        _c("max_ns", INTEGER, "the longest request, from submission to completion"),
        kind=BlockIo,
    ),
    part(
        "tenant_use",
        "What a tenant's cgroup used, and what limits denied it.",
        _TENANT,
        _c("cpu_ns", INTEGER, "CPU time"),
        _c("periods", INTEGER, "periods of the CFS quota in which the cgroup ran"),
        _c("throttled_periods", INTEGER, "periods in which the quota stopped the cgroup"),
        _c("throttled_ns", INTEGER, "time for which the quota stopped the cgroup"),
        _c("reclaims", INTEGER, "direct reclaims"),
        _c("reclaim_ns", INTEGER, "time that its threads spent in direct reclaim"),
        _c("oom_kills", INTEGER, "processes killed for lack of memory"),
        _c("refaults", INTEGER, "file pages read again soon after they were dropped"),
        _c("limit_hits", INTEGER, "allocations that reached a memory limit"),
        _c("limit_kills", INTEGER, "processes in oom_kills that were killed because of a memory limit"),
        _c("forks", INTEGER, "processes started"),
        _c("execs", INTEGER, "programs started by exec"),
        _c("exits", INTEGER, "processes ended"),
        _c("memory_used_bytes", INTEGER, "memory in use at the end of the window", null=True),
        _c("limits_id", INTEGER, "its limits", *fields_of("limits"), refers="limits"),
        kind=TenantUse,
    ),
    part(
        "process_use",
        "Processes that make traced calls, wake threads that make such calls, are charged with the time of"
        " others, or are children of a process that sleeps between its calls.",
        _PROCESS,
        _c("cpu_ns", INTEGER, "CPU time"),
        _c("minor_faults", INTEGER, "page faults without I/O"),
        _c("major_faults", INTEGER, "page faults with I/O"),
        _c("retransmits_v4", INTEGER, "TCP segments retransmitted over IPv4"),
        _c("retransmits_v6", INTEGER, "TCP segments retransmitted over IPv6"),
        _c("allocations", INTEGER, "allocations of device memory"),
        _c("frees", INTEGER, "frees of device memory"),
        _c("allocated_bytes", INTEGER, "device memory allocated"),
        _c("freed_bytes", INTEGER, "device memory freed"),
        _c(
            "link",
            INTEGER,
            "0: makes traced calls; 1: wakes a process of link 0; 2 to 6: wakes a process of link 1 to 5;"
            " -1: none of these",
        ),
        _c("threads", INTEGER, "number of threads"),
        _c("allowed_cpus", INTEGER, "number of CPUs on which its main thread may run; 0 if unknown"),
        _c("allowed", TEXT, "list of the allowed CPUs, as the Linux kernel writes it"),
        _c("nice", INTEGER, "its nice value"),
        _c("rss_bytes", INTEGER, "resident memory"),
        _c("swap_bytes", INTEGER, "swapped-out memory"),
        _c("held_bytes", INTEGER, "device memory allocated and not freed while it was traced", null=True),
        _c("held", INTEGER, "number of the allocations in held_bytes"),
        _c("parent_pid", INTEGER, "process id of its parent"),
        kind=ProcessUse,
    ),
    part(
        "ranks",
        "Members of NCCL communicators.",
        _c("communicator", TEXT, "hash of its unique id, in hexadecimal"),
        _PROCESS,
        _c("rank", INTEGER, "rank of the process in the communicator"),
        _c("ranks", INTEGER, "number of ranks in the communicator"),
        _c("local_ranks", INTEGER, "ranks that are traced on this host"),
        _c("collectives", INTEGER, "collectives that it entered"),
        _c("joined", INTEGER, "collectives in which it was compared with other local ranks"),
        _c(
            "late_ns",
            INTEGER,
            "sum of its delays after the first local rank, over the collectives in `joined`",
        ),
        _c("last", INTEGER, "number of collectives, of those in `joined`, that it entered last"),
        _c("behind", INTEGER, "collectives that another local rank has entered and this one has not"),
        _c("since_entry_ns", INTEGER, "time since its last entry into a collective"),
        _c("entered", INTEGER, "collectives entered since the communicator was created"),
        _c(
            "entries",
            TEXT,
            "when it entered some collectives, the same on every host: number (from 0) and Unix time in µs, "
            "such as `1042:1795781030243455`, separated by blanks",
        ),
        _c(
            "nccl_hashes",
            TEXT,
            "how NCCL names the communicator in its logs and in its RAS: NCCL 2.26 and later, and earlier "
            "versions; empty if not known",
        ),
        kind=Rank,
    ),
    part(
        "events",
        "Events at one moment.",
        _c("time", REAL, "Unix time, s", null=True),
        _c("kind", TEXT, "oom_kill, xid, gpu_lost …"),
        _PROCESS,
        _c("text", TEXT, "one line of text"),
        kind=Event,
    ),
    part(
        "activity",
        "The time in which a tenant gave a GPU work or waited for it.",
        _c("device", TEXT, f"{WHICH}; empty where that is not known"),
        _TENANT,
        _c("active_ns", INTEGER, "time in which the tenant was active, exact to about a millisecond"),
        kind=DeviceActivity,
    ),
    part(
        "overlaps",
        "The time in which two tenants were active on one device at once. Pairs without such time have no"
        " row.",
        _c("device", TEXT, f"{WHICH}; only known devices have overlaps"),
        _TENANT,
        _c("other_id", INTEGER, "the other tenant", "other", refers="tenants"),
        _c("ns", INTEGER, "time in which both were active, in ns, exact to about a millisecond"),
        kind=DeviceOverlap,
    ),
    part(
        "allocations",
        "Devices that schedulers had given to containers when the window ended.",
        _c("allotment_id", INTEGER, "the allocation", *fields_of("allotments"), refers="allotments"),
        kind=Allocation,
    ),
    part(
        "calls",
        "Captured calls: slow ones, and a small random sample.",
        _SERIES,
        _c("tid", INTEGER, "thread id"),
        _c("start_ns", INTEGER, "Unix time, ns"),
        _c("duration_ns", INTEGER, "its duration"),
        _c(
            "split_ns",
            TEXT,
            "JSON list: the parts of its time, in the order of the columns of `counts`",
            null=True,
        ),
        _c("bytes", INTEGER, "bytes moved, allocated or sent"),
        _c("returned", INTEGER, "return value; 0 is success", null=True),
        _c("arguments", TEXT, "such as `copy=HtoD stream=0x55d0`"),
        _KERNEL,
        _c("why", TEXT, "slow or sample"),
        kind=CapturedCall,
    ),
    part(
        "stack_counts",
        "Captured calls, calls that had not returned for long, and samples of threads, by their stack.",
        _SERIES,
        _c("reason", TEXT, "why the stack was read, or what the thread did (docs/stacks.md)"),
        _c("calls", INTEGER, "calls with this stack; of samples, the waits or periods of CPU time"),
        _c(
            "ns", INTEGER, "sum of their durations; of open calls, of their ages; of samples, time of threads"
        ),
        _c(
            "durations",
            TEXT,
            "JSON list of [index of an HDR counter, calls]: how long calls took that have returned",
        ),
        _c("stack_text_id", INTEGER, "the stack", *fields_of("stack_texts"), refers="stack_texts"),
        kind=StackCount,
    ),
    part(
        "open_calls",
        "Calls that had not returned when the window ended.",
        _SERIES,
        _c("tid", INTEGER, "thread id"),
        _c("age_ns", INTEGER, "time from its start to the end of the window, or to the end of its thread"),
        _c("ended", INTEGER, "1: its thread ended inside the call"),
        kind=OpenCall,
    ),
    part(
        "devices",
        "Figures of each GPU at the end of the window, and its counters within the window.",
        _c("gpu_id", INTEGER, "the GPU", *fields_of("gpus"), refers="gpus"),
        _c("throttle_reasons", TEXT, "JSON list: what throttles the clocks"),
        _c(
            "processes",
            TEXT,
            "JSON list of the processes with a context on it: pid, kind, memory_bytes, tenant, resident_ns",
        ),
        _c("xids", TEXT, "JSON list of critical errors that the driver reported"),
        _c("lost", INTEGER, "1: it no longer answers"),
        _c("notes", TEXT, "JSON list of lines: what could not be read and why"),
        _c("ages", TEXT, "JSON list of [column, seconds]: figures older than the end of the window"),
        _c(
            "instances",
            TEXT,
            "JSON list of its MIG devices: gpu, index, uuid, profile, gpu_instance, compute_instance,"
            " memory_used_bytes, memory_total_bytes, processes, listed (whether the driver listed these)",
        ),
        *device_figures(of_board=False),
        kind=Device,
    ),
    part(
        "gone_devices",
        "GPUs and MIG devices that had gone before the end of a merged window; in the order in which they"
        " were last read.",
        _c("uuid", TEXT, "its UUID"),
        _c(
            "label",
            TEXT,
            "its last number; rows have its UUID instead if another device has got this number",
        ),
        _c("counts", TEXT, "JSON list of [column of `devices`, sum]: its counters in the window"),
        _c("xids", TEXT, "JSON list of critical errors that the driver reported"),
        kind=GoneDevice,
    ),
    part(
        "system",
        "Figures of the host at the end of the window: one row, none in windows merged from several hosts.",
        _c("cpus", INTEGER, "number"),
        _c("cpu_percent", REAL, "busy part of all CPUs", null=True),
        _c("cpu_each_percent", TEXT, "JSON list: busy part of each CPU"),
        _c("memory_total_bytes", INTEGER, "of the host"),
        _c("memory_used_bytes", INTEGER, "memory in use, without memory that can be freed at once"),
        _c("swap_total_bytes", INTEGER, "of the host"),
        _c("swap_used_bytes", INTEGER, "of the host"),
        _c("load", TEXT, "JSON list: load averages of 1, 5 and 15 minutes"),
        _c("uptime_seconds", REAL, "time since the host was started", null=True),
        _c("clock_error_ns", INTEGER, "maximum error of its clock", null=True),
        _c(
            "cpu_pressure_percent",
            REAL,
            "percent of the time since the previous sample in which a task waited for a CPU",
            null=True,
        ),
        _c(
            "memory_pressure_percent",
            REAL,
            "percent of the time since the previous sample in which a task waited for memory",
            null=True,
        ),
        _c(
            "io_pressure_percent",
            REAL,
            "percent of the time since the previous sample in which a task waited for block I/O",
            null=True,
        ),
        _c(
            "cpu_steal_percent",
            REAL,
            "part of `cpu_percent` in which the hypervisor ran something else on the CPUs",
        ),
        kind=System,
    ),
    part(
        "network_ports",
        "Network interfaces of the host, and ports of its RDMA adapters, with their counts in the window.",
        _c("name", TEXT, "such as `eth0`, or `mlx5_0/1` for port 1 of an adapter"),
        _c("kind", TEXT, "interface, infiniband, roce or rdma"),
        _c("host", TEXT, "its host; empty: that of the window"),
        _c("physical", INTEGER, "0: its bytes are also counted by another port"),
        _c("state", TEXT, "state of its link, such as up, down or active; empty if unknown"),
        _c("bits_per_second", INTEGER, "speed of its link", null=True),
        *(_c(one.name, INTEGER, one.about, null=True) for one in PORT_COUNTERS),
        kind=NetworkPort,
    ),
    part(
        "chains",
        "Chains (problems), each as it was when the window ended.",
        _c("chain_text_id", INTEGER, "its unchanging parts", *fields_of("chain_texts"), refers="chain_texts"),
        _c("severity", TEXT, "critical, high, medium, low or info"),
        _c("lost_ms_per_s", REAL, "its loss", null=True),
        _c("confidence", REAL, "0 to 1", null=True),
        _c("figures", TEXT, "JSON list of [share, ns_per_s], one for each of its links", "figures"),
        _c("p99_ns", INTEGER, "of the operation", null=True),
        _c("normal_p99_ns", INTEGER, "its baseline", null=True),
        _c("calls", INTEGER, "of the operation"),
        _c("since", REAL, "Unix time, s: when it was first seen", null=True),
        _c("seen", REAL, "when it was last seen", null=True),
        _c("open", INTEGER, "1: it was open"),
        kind=Chain,
    ),
)
"""Tables whose rows each store one record of a window. A record is an object of class ``kind``."""
