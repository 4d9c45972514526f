"""The runbook: for each cause, how to confirm it without stalltop, what to do first, and whom to tell.
docs/runbook.md is made from it; docs/causes.md says more about each cause."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from stalltop.diagnosis.causes import CAUSES

Whom = Literal["culprit", "victim", "host", "hardware", "nobody"]
WHOM: Final[dict[Whom, str]] = {
    "culprit": "the owner of the culprit, before a limit is set; the owner of the victim, that jobs are slow",
    "victim": "the owner of the victim: only a change of the program or of its limits helps",
    "host": "whoever runs this host",
    "hardware": "whoever exchanges hardware; drain the host if jobs fail",
    "nobody": "nobody: there is nothing to mend",
}


class CauseSteps(NamedTuple):
    """What a person on call does about one cause. Capital letters in commands stand for what the alert
    names."""

    confirm: str
    """A command or observation that shows the cause without stalltop."""
    act: str
    """What to do first."""
    whom: Whom


RUNBOOK: Final[dict[str, CauseSteps]] = {
    # ---- the host
    "cpu_contention": CauseSteps(
        "`pidstat -u 1` shows the culprit on the victim's CPUs; the victim's `cpu.pressure` grows",
        "limit the culprit's CPUs, or keep the two on different CPUs",
        "culprit",
    ),
    "own_threads": CauseSteps(
        "`ps -L -o comm,psr,pcpu -p PID` shows more busy threads than CPUs",
        "lower OMP_NUM_THREADS or the number of workers, or give the container more CPUs",
        "victim",
    ),
    "cfs_throttling": CauseSteps(
        "`throttled_usec` in the cgroup's `cpu.stat` grows",
        "raise the quota (`cpu.max`, the container's CPU limit), or run fewer threads",
        "victim",
    ),
    "cpu_pinning": CauseSteps(
        "`taskset -cp PID` and `cpuset.cpus` of the cgroup leave out idle CPUs",
        "widen the set of CPUs",
        "victim",
    ),
    "tracer": CauseSteps(
        "`stalltop check` says what a call costs; the header of the screen says what probes cost now",
        "lower `--budget`, or sample operations with `--sample`",
        "host",
    ),
    "interrupts": CauseSteps(
        "`mpstat -I CPU 1` and `/proc/interrupts` show the CPU",
        "move the interrupts or the threads to other CPUs (`/proc/irq/N/smp_affinity_list`, `taskset`)",
        "host",
    ),
    "loader_disk": CauseSteps(
        "`iostat -x 1` shows a busy device; the workers are in state D",
        "limit the culprit's I/O (`io.max`), or keep the data set in memory or on a local disk",
        "culprit",
    ),
    "loader_cpu": CauseSteps(
        "`top -H -p PID` shows every worker at 100 % of a CPU",
        "more workers, if there are idle CPUs; else decode data beforehand or on the GPU",
        "victim",
    ),
    "loader_lock": CauseSteps(
        "`py-spy dump --pid PID` shows workers in one lock",
        "split the lock, or load with processes in place of threads",
        "victim",
    ),
    "loader_sleep": CauseSteps(
        "`py-spy dump --pid PID` shows workers in sleep",
        "raise the rate limit, or read further ahead",
        "victim",
    ),
    "workers_restarted": CauseSteps(
        "PIDs of the workers change with each epoch",
        "DataLoader(persistent_workers=True)",
        "victim",
    ),
    "remote_service": CauseSteps(
        "`ss -tnpi` shows the connection waiting for its server",
        "look at the server that the problem names: it is slow, far away or overloaded",
        "culprit",
    ),
    "late_rank": CauseSteps(
        "the other rank's own problems say why it is late",
        "go on with the problems of the rank that is named",
        "victim",
    ),
    "slow_disk": CauseSteps(
        "`iostat -x 1`: await and queue of the device",
        "limit who loads the device (`io.max`); if nobody does, check its health (`smartctl -a DEVICE`)",
        "culprit",
    ),
    "fsync": CauseSteps(
        "`strace -f -e fsync,fdatasync -T -p PID` shows long calls",
        "write checkpoints in another thread, to a faster device, or more rarely",
        "victim",
    ),
    "reclaim": CauseSteps(
        "`memory.pressure` and `pgscan` in `memory.stat` of the cgroup grow",
        "raise the memory limit, or make the culprit use less memory",
        "culprit",
    ),
    "major_faults": CauseSteps(
        "`pidstat -r 1`: majflt/s; `vmstat 1`: si",
        "more memory, no swap for this container, or lock its pages",
        "victim",
    ),
    "lock_contention": CauseSteps(
        "`perf trace -s -e futex -p PID`; the holder is in the problem",
        "shorten what the holder does with the lock",
        "victim",
    ),
    "gil": CauseSteps(
        "`top -H -p PID` shows the other thread at work",
        "move that thread's work to a process of its own",
        "victim",
    ),
    "stopped": CauseSteps(
        "state T in `ps -o stat -p PID`, or 1 in `cgroup.freeze`",
        "`kill -CONT PID`, or thaw the cgroup, if nobody meant it",
        "culprit",
    ),
    "tcp_retransmits": CauseSteps(
        "`nstat -az TcpRetransSegs`, `ethtool -S INTERFACE`: drops and errors",
        "check cable, switch port and queues of the path",
        "host",
    ),
    "unexplained_wait": CauseSteps(
        "nothing else is known: `stalltop open` the recording at that time",
        "watch it; tell the owner if it lasts",
        "victim",
    ),
    "oom_kill": CauseSteps(
        "`dmesg -T | grep -i oom`; `oom_kill` in the cgroup's `memory.events`",
        "raise the memory limit or use less; restart the job",
        "victim",
    ),
    "hung_call": CauseSteps(
        "the stack of the call (`stalltop explain`), `dmesg` for XIDs",
        "if the GPU reports errors, follow gpu_xid; else restart the process",
        "victim",
    ),
    # ---- how the GPU is used
    "host_bound": CauseSteps(
        "`nvidia-smi dmon`: sm stays low while one CPU is busy",
        "profile the program between its calls (`py-spy record`)",
        "victim",
    ),
    "allocation_storm": CauseSteps(
        "the rates of cudaMalloc and cudaFree in stalltop",
        "use the caching allocator, or allocate once",
        "victim",
    ),
    "memory_churn": CauseSteps(
        "the rates of cuMemMap and cuMemUnmap in stalltop",
        "settings of the allocator (PYTORCH_CUDA_ALLOC_CONF), or steadier sizes of batches",
        "victim",
    ),
    "gpu_memory_full": CauseSteps(
        "`nvidia-smi --query-gpu=memory.used,memory.total --format=csv`",
        "end what is not needed on this GPU before the next allocation fails",
        "culprit",
    ),
    "memory_leak": CauseSteps(
        "`nvidia-smi --query-compute-apps=pid,used_memory --format=csv` grows without end",
        "restart the process before the device is full; find the tensors that are kept",
        "victim",
    ),
    "pageable_copies": CauseSteps(
        "copies run at a few GB/s and keep a CPU busy",
        "pin the memory (pin_memory=True, cudaHostRegister)",
        "victim",
    ),
    "small_copies": CauseSteps(
        "many copies of few bytes each in stalltop",
        "gather them into one copy",
        "victim",
    ),
    "sync_storm": CauseSteps(
        "as many synchronizations as launches in stalltop",
        "remove `.item()`, prints and synchronizations from the loop",
        "victim",
    ),
    "launch_bound": CauseSteps(
        "tens of thousands of launches per second, and `nvidia-smi dmon` shows a low sm",
        "fuse kernels, capture a CUDA graph, or use larger batches",
        "victim",
    ),
    "cold_start": CauseSteps(
        "the process is young; it ends by itself",
        "nothing; to avoid it, keep the kernel cache (CUDA_CACHE_PATH) over restarts",
        "nobody",
    ),
    "graph_recapture": CauseSteps(
        "captures in every step in stalltop",
        "keep shapes fixed, so that a graph can be launched again",
        "victim",
    ),
    "graph_unlaunched": CauseSteps(
        "captures without launches in stalltop",
        "launch the graph, or do not capture it",
        "victim",
    ),
    "gpu_not_given": CauseSteps(
        "`kubectl get pods -A -o wide`, and the container's NVIDIA_VISIBLE_DEVICES",
        "end the process, or let the scheduler give it a GPU; forbid privileged pods",
        "culprit",
    ),
    "gpu_bound": CauseSteps("`nvidia-smi dmon`: sm is high", "nothing: the GPU has work", "nobody"),
    # ---- ranks
    "nccl_straggler": CauseSteps(
        "the problems of the rank that is named",
        "go on with these: what delays one rank delays all; else compare its clocks and its share of work",
        "victim",
    ),
    "nccl_hang": CauseSteps(
        "the rank that has not entered: `py-spy dump --pid PID` there",
        "if it is dead or waits for ever, restart the job",
        "victim",
    ),
    "small_collectives": CauseSteps(
        "many collectives of few bytes in stalltop",
        "larger buckets (bucket_cap_mb), fewer collectives",
        "victim",
    ),
    # ---- devices
    "gpu_power": CauseSteps(
        "`nvidia-smi -q -d PERFORMANCE`: SW Power Cap active",
        "raise the limit if the cooling allows it (`nvidia-smi -pl WATTS`), or share the load",
        "host",
    ),
    "gpu_thermal": CauseSteps(
        "`nvidia-smi -q -d TEMPERATURE,PERFORMANCE`: thermal slowdown active",
        "check fans, air flow and the inlet's temperature; move jobs meanwhile",
        "hardware",
    ),
    "gpu_hardware_slowdown": CauseSteps(
        "`nvidia-smi -q -d PERFORMANCE`: HW Slowdown or HW Power Brake active",
        "check power supplies and cables; move jobs meanwhile",
        "hardware",
    ),
    "gpu_clocks": CauseSteps(
        "`nvidia-smi -q -d CLOCK`: clocks below their maximum, or locked",
        "reset locked clocks (`nvidia-smi -rgc`); else see gpu_power and gpu_thermal",
        "host",
    ),
    "gpu_ecc": CauseSteps(
        "`nvidia-smi -q -d ECC,ROW_REMAPPER`",
        "uncorrected errors: end the jobs of this GPU and reset it; failed remapping: exchange it",
        "hardware",
    ),
    "gpu_xid": CauseSteps(
        "`dmesg -T | grep -i xid`; the number says what failed",
        "13, 31, 43 and 45 are mostly the program's own; others: drain the GPU and reset it",
        "hardware",
    ),
    "gpu_lost": CauseSteps(
        "`nvidia-smi` fails; `dmesg -T` says that the GPU has fallen off the bus",
        "drain the host and restart it; if it comes again, exchange the GPU",
        "hardware",
    ),
    "pcie_link": CauseSteps(
        "`nvidia-smi -q -d PCIE`, or `lspci -vv`: LnkSta below LnkCap under load",
        "reseat card or riser; check the BIOS",
        "hardware",
    ),
    "pcie_replays": CauseSteps(
        "`nvidia-smi --query-gpu=pcie.replay_counter --format=csv` grows",
        "reseat card or riser",
        "hardware",
    ),
    "gpu_neighbours": CauseSteps(
        "`nvidia-smi --query-compute-apps=gpu_uuid,pid --format=csv`: several tenants on one GPU",
        "place them on different GPUs, or divide the GPU (MIG)",
        "culprit",
    ),
}

OWN_ALERTS: Final = {
    "StalltopXid": ("A GPU reported a critical error", "see [gpu_xid](#gpu_xid)"),
    "StalltopDown": (
        "Prometheus cannot scrape stalltop metrics",
        "`systemctl status stalltop-metrics`; is the host up? Do token and certificate match?",
    ),
    "StalltopNoData": (
        "stalltop metrics answers, but has no new window",
        "the tracer of the host is stopped or stuck: `stalltop once` says which process it is",
    ),
    "StalltopNotTracing": (
        "The host is seen, but no call is traced",
        "`sudo stalltop check` says what is missing, and how to mend it",
    ),
    "StalltopMissesCalls": (
        "Calls were made that are not counted",
        "raise `--memory` of the tracer (docs/deployment.md), or see who is over quota in the coverage",
    ),
}
"""Alerts of deploy/prometheus-rules.yml about stalltop itself and about XIDs: what it means, and what to
do."""


def runbook_markdown() -> str:
    """Returns the sections of docs/runbook.md."""
    lines = []
    for cause in CAUSES.values():
        steps = RUNBOOK[cause.id]
        lines += [
            f"## {cause.id}",
            "",
            f"{cause.title}: {cause.about}. [More](causes.md#{_anchor(f'{cause.id}: {cause.title}')})",
            "",
            f"- **Confirm:** {steps.confirm}.",
            f"- **Do first:** {steps.act}.",
            f"- **Tell:** {WHOM[steps.whom]}.",
            "",
        ]
    for alert, (meaning, act) in OWN_ALERTS.items():
        lines += [f"## {alert}", "", f"{meaning}.", "", f"- **Do first:** {act}.", ""]
    return "\n".join(lines).rstrip()


def _anchor(heading: str) -> str:
    """Returns the anchor that Markdown viewers give a heading."""
    kept = "".join(one for one in heading.lower() if one.isalnum() or one in "_- ")
    return kept.replace(" ", "-")
