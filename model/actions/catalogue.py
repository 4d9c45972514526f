"""The catalogue of commands, as data: the text of each command, what it does, and how to undo it.

A command applies to a process or tenant if all of its placeholders are known there: ``{tool}`` is known for
containers of Docker and Podman, ``{job}`` for jobs of Slurm, and so on (``placeholders`` reads them from a
window). Values of placeholders are quoted for the shell.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter
from typing import Final, Literal

Target = Literal["process", "tenant"]
Resource = Literal["cpu", "disk", "memory", "gpu"]

CPU: Final[tuple[Resource, ...]] = ("cpu",)
DISK: Final[tuple[Resource, ...]] = ("disk",)
MEMORY: Final[tuple[Resource, ...]] = ("memory",)
RUNNING: Final[tuple[Resource, ...]] = ("cpu", "disk", "gpu")
"""Resources that a process does not use while it is stopped. It keeps its memory and its device memory."""
ALL: Final[tuple[Resource, ...]] = ("cpu", "disk", "memory", "gpu")

PERIOD_US: Final = 100_000
"""The Linux kernel's default period of a CPU quota, us."""


@dataclass(frozen=True, slots=True)
class HostCommand:
    """One command of the catalogue."""

    id: str
    of: Target
    command: str
    """Text of the command with placeholders in braces."""
    does: str
    """What the command does, in one line; may have placeholders, too."""
    undo: str
    """The command that undoes it, with placeholders; '' if nothing undoes it."""
    frees: tuple[Resource, ...]
    """Resources of which other processes get more after the command."""
    lasting: str = ""
    """If ``undo`` is '': what the screen shows instead, such as how to undo the command by hand."""
    ends: bool = False
    """True if the purpose of the command is to end, restart or move its target, or to keep further pods away
    from the node. Only such commands make sense for the victim of a problem; all others would slow the victim
    down further."""
    usual: bool = False
    """True if the undo always restores the usual default, because windows never have the present value."""
    needs: tuple[str, ...] = ()
    """Values that must be known in addition to the placeholders of ``command``."""
    look: bool = False
    """True if the command only shows more about its target."""
    stops: bool = False
    """True if the command stops or ends its target. Such commands are offered after all others."""

    @property
    def placeholders(self) -> frozenset[str]:
        """The values that must be known for the command to apply."""
        return _fields(self.command) | set(self.needs)

    @property
    def for_undo(self) -> frozenset[str]:
        """The values that must be known to undo the command."""
        return _fields(self.undo)

    def applies(self, values: Collection[str]) -> bool:
        """Returns True if all placeholders of the command are among ``values``."""
        return self.placeholders <= set(values)

    def text(self, values: Mapping[str, str]) -> str:
        """Returns the command with ``values``; '' if it does not apply."""
        return self.command.format_map(values) if self.applies(values) else ""


def _fields(text: str) -> frozenset[str]:
    return frozenset(name for _, name, _, _ in Formatter().parse(text) if name)


_TASKS = "$(ls /proc/{pid}/task)"
_PATCH = (
    """-p '{{"spec":{{"containers":[{{"name":"{kube_container}","""
    """"resources":{{"limits":{{"cpu":"%s"}}}}}}]}}}}'"""
)
_RESIZE = "kubectl -n {namespace} patch pod {pod} --subresource resize "
_NODE = "$(kubectl -n {namespace} get pod {pod} -o jsonpath='{{.spec.nodeName}}')"

# fmt: off
ACTIONS: Final = (
    # ---- one process
    HostCommand("threads", "process", "top -H -p {pid}",
           "shows which of its threads take CPU time", "", (), look=True),
    HostCommand("affinity", "process", "taskset -acp {cpus} {pid}",
           "keeps all its threads on {on_cpus}",
           "taskset -acp {allowed} {pid}", CPU),
    HostCommand("nice", "process", f"renice -n 19 -p {_TASKS}",
           "gives it CPU time after all other processes of its own cgroup",
           f"renice -n {{nice}} -p {_TASKS}", CPU),
    HostCommand("idle_io", "process", f"ionice -c3 -p {_TASKS}",
           "lets it use disks only while nobody else does; needs BFQ",
           f"ionice -c0 -p {_TASKS}", DISK, usual=True),
    HostCommand("signal_stop", "process", "kill -STOP {pid}",
           "stops it; it keeps its memory and GPU memory; others wait for it",
           "kill -CONT {pid}", RUNNING, stops=True),
    HostCommand("signal_continue", "process", "kill -CONT {pid}",
           "lets it run again", "kill -STOP {pid}", (), needs=("stopped",)),
    HostCommand("end", "process", "kill -TERM {pid}",
           "asks it to end; what it has not saved is lost", "", ALL,
           lasting="none: start it again", ends=True, stops=True),
    # ---- containers of Docker and Podman
    HostCommand("container_stats", "tenant", "{tool} stats --no-stream {container}",
           "shows its use of CPU, memory, network and disks", "", (), look=True),
    HostCommand("container_cpus", "tenant", "{tool} update --cpus {limit} {container}",
           "limits all its processes together to {limit} CPUs",
           "{tool} update --cpus {limit_before} {container}", CPU),
    HostCommand("container_cpuset", "tenant", "{tool} update --cpuset-cpus {cpus} {container}",
           "keeps all its processes on {on_cpus}",
           "{tool} update --cpuset-cpus {cpuset} {container}", CPU),
    HostCommand("container_weight", "tenant", "{tool} update --cpu-shares 2 {container}",
           "gives it the least share of CPU time while others want the CPU",
           "{tool} update --cpu-shares 1024 {container}", CPU, usual=True),
    HostCommand("container_memory", "tenant",
           "{tool} update --memory {memory_mib}m --memory-swap {swap_mib}m {container}",
           "sets its memory limit to {memory_mib} MiB", "", MEMORY,
           lasting="the same command with the previous limit"),
    # Docker sets such limits only when it creates a container.
    HostCommand("container_reads", "tenant",
           "{podman} update --device-read-bps {device_path}:{read_rate_1024} {container}",
           "limits what it reads from {device_path} to {read_rate_1024}/s", "", DISK,
           lasting="the same command with a higher rate"),
    HostCommand("container_writes", "tenant",
           "{podman} update --device-write-bps {device_path}:{write_rate_1024} {container}",
           "limits what it writes to {device_path} to {write_rate_1024}/s", "", DISK,
           lasting="the same command with a higher rate"),
    HostCommand("container_pause", "tenant", "{tool} pause {container}",
           "freezes all its processes; they keep their memory and GPU memory",
           "{tool} unpause {container}", RUNNING, stops=True),
    HostCommand("container_unpause", "tenant", "{tool} unpause {container}",
           "lets all its processes run again", "{tool} pause {container}", (), needs=("stopped",)),
    HostCommand("container_stop", "tenant", "{tool} stop {container}",
           "ends the container; what it has not saved is lost",
           "{tool} start {container}", ALL, ends=True, stops=True),
    # ---- units of systemd
    HostCommand("unit_status", "tenant", "{systemctl} status {unit}",
           "shows its processes, its memory and the end of its log", "", (), look=True),
    HostCommand("unit_cpus", "tenant", "{systemctl} set-property --runtime {unit} CPUQuota={limit_percent}",
           "limits all its processes together to {limit} CPUs until a reboot",
           "{systemctl} set-property --runtime {unit} CPUQuota={percent_before}", CPU),
    HostCommand("unit_cpuset", "tenant", "{systemctl} set-property --runtime {unit} AllowedCPUs={cpus}",
           "keeps all its processes on {on_cpus} until a reboot",
           "{systemctl} set-property --runtime {unit} AllowedCPUs={allowed_before}", CPU),
    HostCommand("unit_weight", "tenant", "{systemctl} set-property --runtime {unit} CPUWeight=1",
           "gives it the least share of CPU time until a reboot",
           "{systemctl} set-property --runtime {unit} CPUWeight=", CPU, usual=True),
    HostCommand("unit_memory", "tenant", "{systemctl} set-property --runtime {unit} MemoryMax={memory_mib}M",
           "sets its memory limit to {memory_mib} MiB until a reboot",
           "{systemctl} set-property --runtime {unit} MemoryMax=", MEMORY, usual=True),
    HostCommand("unit_reads", "tenant",
           "{systemctl} set-property --runtime {unit} 'IOReadBandwidthMax={device_path} {read_rate_1000}'",
           "limits reads from {device_path} to {read_rate_1000}B/s until reboot",
           "{systemctl} set-property --runtime {unit} IOReadBandwidthMax=", DISK, usual=True),
    HostCommand("unit_writes", "tenant",
           "{systemctl} set-property --runtime {unit} 'IOWriteBandwidthMax={device_path} {write_rate_1000}'",
           "limits writes to {device_path} to {write_rate_1000}B/s until reboot",
           "{systemctl} set-property --runtime {unit} IOWriteBandwidthMax=", DISK, usual=True),
    HostCommand("unit_freeze", "tenant", "{systemctl} freeze {unit}",
           "freezes all its processes; they keep their memory and GPU memory",
           "{systemctl} thaw {unit}", RUNNING, stops=True),
    HostCommand("unit_thaw", "tenant", "{systemctl} thaw {unit}",
           "lets all its processes run again", "{systemctl} freeze {unit}", (), needs=("stopped",)),
    HostCommand("unit_stop", "tenant", "{systemctl} stop {unit}",
           "ends the unit; what it has not saved is lost",
           "{systemctl} start {unit}", ALL, ends=True, stops=True, needs=("service",)),
    # ---- cgroups that no tool is known to manage
    HostCommand("cgroup2_pressure", "tenant", "grep . {folder_2}/*.pressure",
           "shows how long its processes wait for CPU, memory and disks", "", (), look=True),
    HostCommand("cgroup2_cpus", "tenant", "echo '{limit_us} 100000' > {cpu_folder_2}/cpu.max",
           "limits all its processes together to {limit} CPUs",
           "echo '{us_before_2} 100000' > {cpu_folder_2}/cpu.max", CPU),
    HostCommand("cgroup1_cpus", "tenant",
           "echo 100000 > {cpu_folder_1}/cpu.cfs_period_us && "
           "echo {limit_us} > {cpu_folder_1}/cpu.cfs_quota_us",
           "limits all its processes together to {limit} CPUs",
           "echo {us_before_1} > {cpu_folder_1}/cpu.cfs_quota_us", CPU),
    HostCommand("cgroup2_weight", "tenant", "echo 1 > {cpu_folder_2}/cpu.weight",
           "gives it the least share of CPU time while others want the CPU",
           "echo 100 > {cpu_folder_2}/cpu.weight", CPU, usual=True),
    HostCommand("cgroup2_memory", "tenant", "echo {memory_mib}M > {memory_folder_2}/memory.max",
           "sets its memory limit to {memory_mib} MiB", "", MEMORY,
           lasting="the same command with the previous limit, or max"),
    HostCommand("cgroup1_memory", "tenant", "echo {memory_mib}M > {memory_folder_1}/memory.limit_in_bytes",
           "sets its memory limit to {memory_mib} MiB", "", MEMORY,
           lasting="the same command with the previous limit, or -1"),
    HostCommand("cgroup2_freeze", "tenant", "echo 1 > {folder_2}/cgroup.freeze",
           "freezes all its processes; they keep their memory and GPU memory",
           "echo 0 > {folder_2}/cgroup.freeze", RUNNING, stops=True),
    HostCommand("cgroup2_thaw", "tenant", "echo 0 > {folder_2}/cgroup.freeze",
           "lets all its processes run again", "echo 1 > {folder_2}/cgroup.freeze", (), needs=("stopped",)),
    # ---- pods of Kubernetes
    HostCommand("pod_describe", "tenant", "kubectl -n {namespace} describe pod {pod}",
           "shows its limits, its state and its last events", "", (), look=True),
    HostCommand("workload_cpus", "tenant",
           "kubectl -n {namespace} set resources {workload} -c {kube_container} --limits=cpu={limit}",
           "limits each of its pods to {limit} CPUs, and restarts them in turn",
           "kubectl -n {namespace} rollout undo {workload}", CPU),
    HostCommand("pod_cpus", "tenant", _RESIZE + _PATCH % "{limit}",
           "limits it to {limit} CPUs without a restart; needs Kubernetes 1.33",
           _RESIZE + _PATCH % "{limit_before}", CPU),
    HostCommand("pod_delete", "tenant", "kubectl -n {namespace} delete pod {pod}",
           "ends the pod; its controller, if it has one, starts a new one",
           "", ALL, lasting="none: a pod without a controller does not come back", ends=True, stops=True),
    HostCommand("node_cordon", "tenant", f"kubectl cordon {_NODE}",
           "lets no new pod start on this node; pods that run here stay",
           f"kubectl uncordon {_NODE}", ALL, ends=True),
    # ---- jobs of Slurm
    HostCommand("job_show", "tenant", "scontrol show job {job}",
           "shows what it asked for and what it got", "", (), look=True),
    HostCommand("job_suspend", "tenant", "scontrol suspend {job}",
           "stops the job; it keeps its memory and GPU memory",
           "scontrol resume {job}", RUNNING, stops=True),
    HostCommand("job_requeue", "tenant", "scontrol requeue {job}",
           "ends the job and queues it again; it begins anew or at a checkpoint", "", ALL,
           lasting="none", ends=True, stops=True),
    HostCommand("job_cancel", "tenant", "scancel {job}",
           "ends the job; what it has not saved is lost", "", ALL,
           lasting="none: submit it again", ends=True, stops=True),
)
# fmt: on
"""All commands. In each section, commands that only look come first, then limits and priorities, then
commands that stop or resume something, then those that end something. ``node_cordon``, which concerns the
whole node, comes last for pods. `offers` puts all that only look first, and all that stop or end last."""

BY_ID: Final[Mapping[str, HostCommand]] = {action.id: action for action in ACTIONS}


def command(ids: Collection[str], values: Mapping[str, str]) -> str:
    """Returns the command of the first action of ``ids`` that applies with ``values``; '' if none does."""
    return next((text for name in ids if (text := BY_ID[name].text(values))), "")


_BRIEFLY: Final = (
    (r"taskset |--cpuset-cpus |AllowedCPUs=", "move it to other CPUs"),
    (r"renice |--cpu-shares |CPUWeight=|/cpu\.weight$", "give CPU to others first"),
    (r"ionice ", "let others use disks first"),
    (r"--cpus |CPUQuota=|/cpu\.max$|/cpu\.cfs_quota_us$|limits=cpu=", "set its CPU limit"),
    (r"--memory |MemoryMax=|/memory\.", "set its memory limit"),
    (r"--device-read-bps |IOReadBandwidthMax=", "limit its reads"),
    (r"--device-write-bps |IOWriteBandwidthMax=", "limit its writes"),
    (r"kill -CONT |unpause |thaw |echo 0 > .*cgroup\.freeze$", "let it run again"),
    (r"kill -TERM ", "end it"),
    (r"nvidia-smi -i \d+ -pl ", "set the power cap"),
    (r"nvidia-smi .*--reset-gpu-clocks", "free the clocks"),
    (r"nvidia-smi .*--gpu-reset", "reset the GPU"),
    (r"/proc/irq/", "move the interrupt"),
    (r"nvidia-cuda-mps-control ", "start MPS"),
    (r"^(py-spy dump|gdb) ", "shows the line where it is"),
    (r"^(py-spy|perf) top ", "shows what it computes"),
    (r"^top ", "shows what takes CPU time"),
    (r"^cat /proc/\d+/task/", "shows where it is"),
    (r"ss -tinp ", "shows its connections"),
    (r"ip -s link$", "shows drops of its interfaces"),
    (r"^dmesg ", "shows what the driver or the kernel wrote"),
    (r"/environ \| grep ", "shows its settings"),
    (r"^ps ", "shows who started it"),
    (r"^redis-cli ", "shows its slow commands"),
    (r"query-compute-apps", "shows who holds the memory"),
    (r"query-gpu=.*clocks", "shows the clocks"),
    (r"nvidia-smi .*-d POWER", "shows draw and caps"),
    (r"nvidia-smi .*-d TEMPERATURE", "shows temperatures and limits"),
    (r"nvidia-smi .*-d CLOCK", "shows which clocks are set"),
    (r"nvidia-smi .*-d PERFORMANCE", "shows what holds the clocks down"),
    (r"nvidia-smi .*-d ECC", "shows the error counters"),
    (r"nvidia-smi .*pcie\.link", "shows what the link can do"),
    (r"nvidia-smi .*replay", "shows whether the counter rises"),
    (r"nvidia-smi .*mig -lgip$", "shows which instances there are"),
    (r"^ipmitool ", "shows the log of the BMC"),
    (r"rps_cpus$", "shows who steers packets to which CPUs"),
    (r"/proc/softirqs$", "shows the interrupts of its CPUs"),
)
"""What commands of fixes do or show, in a few words for narrow screens, each with a pattern of the
commands."""
_PAUSES: Final = re.compile(r"(^|[;&|] )(gdb|py-spy) ")


def pauses(text: str) -> bool:
    """Returns whether the command ``text``, which only shows more, stops the process for a moment to read
    it."""
    return _PAUSES.search(text) is not None


_FIGURES: Final = re.compile(
    r"(?<=--cpus )[\d.]+|(?<=CPUQuota=)\d+|(?<=limits=cpu=)[\d.]+|(?<=\"cpu\":\")[\d.]+"
    r"|(?<=echo ')\d+(?= 100000')|(?<=echo )\d+(?= > \S*cfs_quota_us)"
    r"|(?<=--memory )\d+|(?<=--memory-swap )\d+|(?<=MemoryMax=)\d+|(?<=echo )\d+(?=M > )"
    r"|(?<=[a-z\d]:)\d+(?=[km]b \S+$)|(?<= )\d+(?=[KM]'$)|(?<=-pl )\d+"
)
"""Limits and rates in commands: figures that are computed from what was measured."""


def figures_of(text: str) -> tuple[str, tuple[float, ...]]:
    """Returns the command ``text`` without its limits and rates, and these figures."""
    return _FIGURES.sub("#", text), tuple(float(figure) for figure in _FIGURES.findall(text))


@lru_cache(maxsize=64)
def briefly(text: str) -> str:
    """Returns in a few words what the command ``text`` does; '' if that is not known."""
    return next((words for pattern, words in _BRIEFLY if re.search(pattern, text)), "")
