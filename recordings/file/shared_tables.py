"""The tables whose rows many windows share, described as data."""

from __future__ import annotations

from typing import Final

from stalltop.model.chain import Chain
from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Device
from stalltop.model.evidence import TenantUse
from stalltop.model.stacks.stack import StackCount
from stalltop.model.window import Coverage
from stalltop.recordings.file.device_columns import device_figures
from stalltop.recordings.file.table import INTEGER, REAL, TEXT, shared
from stalltop.recordings.file.table import column as _c

SERIES_FIELDS: Final = ("tenant", "pid", "process", "layer", "operation", "nested", "device")
"""Fields of a record that identify its series."""
PROCESS_FIELDS: Final = ("tenant", "pid", "process")
"""Fields of a record that identify its process."""
WHICH: Final = (
    "number of the GPU on its host, or `0:3` for MIG device 3 of GPU 0; its UUID if another device has that"
    " number at the end of the window"
)
"""Description of each column that has the label of a device."""

SHARED: Final = (
    shared(
        "hosts",
        "Hosts of windows and rows.",
        _c("name", TEXT, "host name; for merged windows of several hosts, all names"),
        _c("clock_offset_ns", INTEGER, "its clock minus the clock of the file's first host", null=True),
        _c("clock_error_ns", INTEGER, "error of this offset", null=True),
    ),
    shared(
        "tenants",
        "Containers, pods, jobs, units: the owners of calls. If the description of a tenant changes (a name"
        " that became known later), the tenant has a row for each description.",
        _c("host_id", INTEGER, "the host it is on", refers="hosts"),
        _c("id", TEXT, "stable key, such as `docker:4f1c…`; empty for the host itself"),
        _c("described", INTEGER, "0: only its id is known"),
        _c("name", TEXT, "its name for display"),
        _c("kind", TEXT, "container, pod, job, unit, session, process or host"),
        _c("runtime", TEXT, "docker, containerd, slurm … or empty"),
        _c("container_id", TEXT, "its id in the container runtime"),
        _c("pod", TEXT, "pod name, else the pod's UID"),
        _c("namespace", TEXT, "of the pod"),
        _c("cgroup_id", INTEGER, "cgroup v2 id (inode); 0 if only a path is known"),
        _c("cgroup_path", TEXT, "its path below the root of the hierarchy"),
        _c("container", TEXT, "name of the container within its pod"),
        _c("pod_uid", TEXT, "UID of the pod; a new pod of the same name has another UID"),
        _c("user", TEXT, "owner of the job or session"),
        _c("labels", TEXT, "JSON list of [name, value], sorted by name: labels of the container or pod"),
    ),
    shared(
        "processes",
        "Processes to which other tables refer.",
        _c("tenant_id", INTEGER, "its tenant", refers="tenants"),
        _c("pid", INTEGER, "process id; 0: several ended processes, or not known"),
        _c("process", TEXT, "its name"),
    ),
    shared(
        "series",
        "Series: each is one operation of one process, with counts of its own.",
        _c("host_id", INTEGER, "the host it is on", refers="hosts"),
        _c("tenant_id", INTEGER, "its tenant", refers="tenants"),
        _c("pid", INTEGER, "process id"),
        _c("process", TEXT, "name of the process"),
        _c("layer", TEXT, "runtime, driver, nccl or host"),
        _c("operation", TEXT, "such as `cudaLaunchKernel`; `host gap` is the time between calls"),
        _c("nested", INTEGER, "1: calls made inside another traced call; totals leave them out"),
        _c("device", TEXT, f"where they ran: {WHICH}; empty where that was not measured"),
    ),
    shared("kernels", "Names of CUDA kernels.", _c("name", TEXT, "demangled; empty if not known")),
    shared(
        "stack_texts",
        "Stacks of calls: which lines of source code made them.",
        _c("frames", TEXT, "JSON list of [function, file, line, language], innermost first"),
        _c("cut", TEXT, "why outer frames are missing; empty if the stack is complete"),
        kind=StackCount,
    ),
    shared(
        "coverage",
        "What is traced, what is not, and what else stays the same from window to window.",
        _c("attached", INTEGER, "attached probes"),
        _c("functions", INTEGER, "functions probed"),
        _c("libraries", TEXT, "JSON list of probed files: path, layer, functions, processes"),
        _c(
            "missing",
            TEXT,
            "JSON list of what should be traced and is not: what, reason, remedy, pid, tenant",
        ),
        _c("processes", INTEGER, "processes whose calls are counted"),
        _c("probe_ns", REAL, "time that one counted call spends in its probes, ns", null=True),
        _c("way", TEXT, "multi or perf; empty if nothing is traced"),
        _c("tracing", TEXT, "empty while tracing works, else why not"),
        _c(
            "scheduled",
            TEXT,
            "JSON list of tenant ids: a scheduler has reported all devices allocated to these tenants",
        ),
        _c("schedulable", TEXT, "JSON list of UUIDs of the devices that a scheduler gives to tenants"),
        _c(
            "tracer",
            TEXT,
            "JSON object with pid, user, since and command of the process that traced, if another one wrote"
            " the file",
            null=True,
        ),
        _c("driver", TEXT, "version of the GPU driver"),
        _c("devices_unavailable", TEXT, "why there are no devices; empty if there are some"),
        _c("unknown", TEXT, "JSON list of lines: what is not measured here and why"),
        _c("tenants", TEXT, "JSON list of the numbers of all tenants that the window describes"),
        kind=Coverage,
    ),
    shared(
        "limits",
        "Limits of a tenant's cgroup, and which files set them.",
        _c("cpu_quota", REAL, "CPUs that it may use", null=True),
        _c("quota_cgroup", TEXT, "path of the cgroup that has this quota"),
        _c("memory_limit_bytes", INTEGER, "the tightest memory limit", null=True),
        _c("memory_cgroup", TEXT, "path of the cgroup that has this limit"),
        _c("cpu_folder", TEXT, "directory whose files set the quota"),
        _c("cpu_version", INTEGER, "cgroup version, 1 or 2; 0 without a directory"),
        _c("memory_folder", TEXT, "directory whose files set the memory limit"),
        _c("memory_version", INTEGER, "cgroup version, 1 or 2; 0 without a directory"),
        _c("cpuset", TEXT, "CPUs that it may use, as the Linux kernel lists them"),
        kind=TenantUse,
    ),
    shared(
        "gpus",
        "Properties and settings of a GPU that never or rarely change.",
        _c("number", INTEGER, "its index on the host, from 0", "index"),
        _c("uuid", TEXT, "its UUID, from the driver"),
        _c("name", TEXT, "model"),
        _c("pci_bus_id", TEXT, "its address on the PCI bus"),
        _c("virtualization", TEXT, "none, passthrough, vGPU, vGPU host, vSGA host; empty if unknown"),
        _c("compute_mode", TEXT, "default, exclusive process, exclusive thread, prohibited"),
        _c("host", TEXT, "its host; empty: that of the window"),
        *device_figures(of_board=True),
        kind=Device,
    ),
    shared(
        "allotments",
        "Devices that schedulers gave to containers, stored once while they do not change.",
        _c("namespace", TEXT, "of the pod"),
        _c("pod", TEXT, "its name"),
        _c(
            "pod_uid", TEXT, "UID of the pod; empty if it is not known which of the pods with this name it is"
        ),
        _c("container", TEXT, "name of the container within the pod"),
        _c("resource", TEXT, "such as `nvidia.com/gpu` or `nvidia.com/mig-1g.10gb`"),
        _c("devices", TEXT, "JSON list: UUIDs of GPUs or MIG devices, with `::N` for a replica"),
        _c(
            "tenant_id",
            INTEGER,
            "its tenant; if none was seen, a row with an empty id",
            "tenant",
            refers="tenants",
        ),
        kind=Allocation,
    ),
    shared(
        "chain_texts",
        "Parts of a chain that do not change from window to window.",
        _c("id", TEXT, "id of the chain; it stays the same while the chain is open, and when it opens again"),
        _c("cause", TEXT, "one of the causes in docs/causes.md"),
        _c("title", TEXT, "the cause in a few words"),
        _c("summary", TEXT, "one line: who loses what to whom"),
        _c("process_id", INTEGER, "who loses", *PROCESS_FIELDS, refers="processes"),
        _c("layer", TEXT, "of the operation"),
        _c("operation", TEXT, "the operation that loses time; empty if it is not an operation"),
        _c("links", TEXT, "JSON list of its steps: role, text, tenant, pid, process, device, depth"),
        _c("fixes", TEXT, "JSON list of what helps: text, command, look, short"),
        _c("unknown", TEXT, "JSON list of lines: what is not known about it"),
        _c(
            "rows",
            TEXT,
            "JSON list of the affected rows, each a list of host, tenant, pid, process, layer, operation,"
            " nested, device",
        ),
        kind=Chain,
    ),
)
"""Tables whose rows are shared: windows refer to them by number. Rows never change."""


def fields_of(name: str) -> tuple[str, ...]:
    """Return the fields of a record that are stored in rows of the shared table ``name``."""
    (table,) = (table for table in SHARED if table.name == name)
    return tuple(field for column in table.columns[1:-1] for field in column.names)
