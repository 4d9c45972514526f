"""Defines what simulated tenants do: which operations, how often, and how long these take. The numbers have
the order of magnitude of data-centre GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from stalltop.model.tenant import Kind


@dataclass(frozen=True, slots=True)
class Act:
    """One operation of a tenant. ``nested`` is the name of the driver call inside it, if there is one."""

    layer: str
    operation: str
    per_second: float
    median_ns: float
    sigma: float = 0.25
    """Standard deviation of the natural logarithm of the duration. With 0.25, p95 is 1.5 times the median."""
    bytes: int = 0
    nested: str = ""
    errors: float = 0.0
    """Share of calls that fail, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Habit:
    """How a kind of program uses a GPU."""

    process: str
    acts: tuple[Act, ...]
    processes: int = 1
    period_seconds: float = 60.0
    """Period in which the program's load rises and falls once, s."""
    quiet: float = 0.8
    """Lowest load of the program, as a share of its highest load."""


@dataclass(frozen=True, slots=True)
class Person:
    """A tenant of the simulated host."""

    name: str
    habit: str
    where: str
    """A key of ``PLACES``; or a key, a colon and a text that the cgroup path contains instead of a container
    id."""
    pod: str = ""
    namespace: str = ""
    container: str = ""
    """Name of the container within the pod."""


_PODS = "/kubepods.slice/kubepods-"
PLACES: dict[str, tuple[Kind, str]] = {
    "docker": ("container", "/system.slice/docker-{}.scope"),
    "podman": ("container", "/machine.slice/libpod-{}.scope"),
    "containerd": ("pod", f"{_PODS}burstable.slice/cri-containerd-{{}}.scope"),
    "cri-o": ("pod", f"{_PODS}besteffort.slice/crio-{{}}.scope"),
    "slurm": ("job", "/system.slice/slurmstepd.scope/{}/step_0"),
    "systemd": ("unit", "/system.slice/{}"),
    "user": ("session", "/user.slice/user-1003.slice/{}.scope"),
}
"""Kind and cgroup path of tenants, by what makes them: container runtimes, Slurm, systemd, logins of users.
``{}`` stands for the container id, or for the text in `Person.where`."""

_TRAINER = (
    Act("runtime", "cudaLaunchKernel", 9000, 4_600, 0.3, nested="cuLaunchKernel"),
    Act("runtime", "cudaStreamSynchronize", 22, 31_000_000, 0.18, nested="cuStreamSynchronize"),
    Act("runtime", "cudaMemcpyAsync HtoD", 88, 21_000, 0.4, 4 << 20, "cuMemcpyHtoDAsync"),
    Act("runtime", "cudaMemcpyAsync DtoH", 22, 14_000, 0.4, 4_096, "cuMemcpyDtoHAsync"),
    Act("nccl", "ncclAllReduce", 176, 38_000, 0.45, 25 << 20),
    Act("nccl", "ncclGroupStart", 22, 900, 0.2),
    Act("nccl", "ncclGroupEnd", 22, 61_000, 0.5),
    Act("runtime", "cudaStreamWaitEvent", 352, 1_900, 0.2, nested="cuStreamWaitEvent"),
    Act("runtime", "cudaMemsetAsync", 132, 4_100, 0.3, 1 << 20, "cuMemsetD8Async"),
    Act("driver", "cuLaunchKernelEx", 1400, 5_300, 0.3),
)
_INFERENCE = (
    Act("runtime", "cudaLaunchKernel", 9000, 3_900, 0.35, nested="cuLaunchKernel"),
    Act("runtime", "cudaStreamSynchronize", 420, 1_450_000, 0.5, nested="cuStreamSynchronize"),
    Act("runtime", "cudaGraphLaunch", 240, 62_000, 0.3, nested="cuGraphLaunch"),
    Act("runtime", "cudaMemcpyAsync HtoD", 420, 9_500, 0.3, 16_384, "cuMemcpyHtoDAsync"),
    Act("runtime", "cudaMemcpyAsync DtoH", 420, 8_800, 0.3, 8_192, "cuMemcpyDtoHAsync"),
    Act("runtime", "cudaEventSynchronize", 120, 310_000, 0.6, nested="cuEventSynchronize"),
    Act("runtime", "cudaMallocAsync", 210, 6_200, 0.5, 8 << 20, "cuMemAllocAsync"),
    Act("runtime", "cudaFreeAsync", 210, 4_400, 0.4, nested="cuMemFreeAsync"),
)
_NOTEBOOK = (
    Act("runtime", "cudaMemcpy HtoD", 4, 7_800_000, 0.7, 64 << 20, "cuMemcpyHtoD"),
    Act("runtime", "cudaMemcpy DtoH", 3, 5_200_000, 0.7, 32 << 20, "cuMemcpyDtoH"),
    Act("runtime", "cudaMalloc", 26, 240_000, 0.8, 96 << 20, "cuMemAlloc", errors=0.03),
    Act("runtime", "cudaFree", 24, 390_000, 0.7, nested="cuMemFree"),
    Act("runtime", "cudaLaunchKernel", 310, 6_100, 0.4, nested="cuLaunchKernel"),
    Act("runtime", "cudaDeviceSynchronize", 18, 12_000_000, 0.9, nested="cuCtxSynchronize"),
    Act("driver", "cuModuleLoadData", 0.02, 46_000_000, 0.5),
)
OTHERS = (
    Act("driver", "cuMemcpyDtoDAsync", 30, 5_200, 0.3, 1 << 20),
    Act("driver", "cuMemcpyPeerAsync", 12, 9_100, 0.4, 2 << 20),
    Act("driver", "cuMemPrefetchAsync", 2, 88_000, 0.5, 16 << 20),
    Act("driver", "cuMemHostAlloc", 0.6, 1_900_000, 0.6, 8 << 20),
    Act("driver", "cuMemHostRegister", 0.4, 2_600_000, 0.6, 16 << 20),
    Act("driver", "cuMemCreate", 1.5, 330_000, 0.5, 2 << 20),
    Act("driver", "cuMemMap", 1.5, 5_400, 0.3, 2 << 20),
    Act("driver", "cuMemSetAccess", 1.5, 96_000, 0.4, 2 << 20),
    Act("driver", "cuLaunchCooperativeKernel", 8, 7_900, 0.3),
    Act("driver", "cuEventSynchronize", 40, 260_000, 0.7),
    Act("driver", "cuLibraryLoadData", 0.01, 71_000_000, 0.4),
    Act("driver", "cuMemsetD32Async", 16, 4_300, 0.3, 1 << 20),
    Act("driver", "cuMemcpy2DAsync", 11, 8_200, 0.3, 1 << 18),
    Act("driver", "cuMemcpy3DAsync", 4, 9_900, 0.3, 1 << 19),
    Act("runtime", "cudaMemcpyPeerAsync", 3, 13_000, 0.4, 2 << 20),
    Act("runtime", "cudaMemPrefetchAsync", 1, 97_000, 0.5, 16 << 20),
    Act("runtime", "cudaHostAlloc", 0.5, 2_100_000, 0.6, 8 << 20),
    Act("runtime", "cudaMallocHost", 0.3, 2_300_000, 0.6, 8 << 20),
    Act("runtime", "cudaFreeHost", 0.3, 1_700_000, 0.6),
    Act("runtime", "cudaMallocManaged", 0.4, 610_000, 0.6, 32 << 20),
    Act("runtime", "cudaMemset", 5, 11_000, 0.4, 1 << 20),
    Act("runtime", "cudaMemcpy2DAsync", 9, 12_000, 0.3, 1 << 18),
    Act("runtime", "cudaLaunchCooperativeKernel", 6, 9_100, 0.3),
    Act("nccl", "ncclAllGather", 44, 41_000, 0.5, 12 << 20),
    Act("nccl", "ncclReduceScatter", 44, 43_000, 0.5, 12 << 20),
    Act("nccl", "ncclBroadcast", 2, 37_000, 0.5, 1 << 20),
    Act("nccl", "ncclSend", 12, 29_000, 0.5, 3 << 20),
    Act("nccl", "ncclRecv", 12, 30_000, 0.5, 3 << 20),
)
"""Further operations. They are used if a simulated process must have more operations than its habit lists."""

_JOB = tuple(act for act in _TRAINER if act.layer != "driver")
_ALONE = tuple(act for act in _TRAINER if act.layer != "nccl")

HABITS = {
    "trainer": Habit("python3 train.py", _TRAINER, processes=2, period_seconds=90, quiet=0.85),
    "trainer alone": Habit("python3 train.py", _ALONE, period_seconds=90, quiet=0.85),
    "inference": Habit("python3 serve.py", _INFERENCE, period_seconds=40, quiet=0.35),
    "notebook": Habit("ipykernel", _NOTEBOOK, period_seconds=50, quiet=0.05),
    "train.py": Habit("train.py", _TRAINER, period_seconds=90, quiet=0.85),
    "loader": Habit("train.py", _ALONE, period_seconds=90, quiet=0.85),
    "rank": Habit("train.py", _JOB, period_seconds=90, quiet=0.95),
    "serve.py": Habit("serve.py", _INFERENCE, period_seconds=40, quiet=0.7),
    "embed.py": Habit("embed.py", _INFERENCE, period_seconds=70, quiet=0.7),
    "no calls": Habit("", (), processes=0),
}
"""Habits by name. The simulated host with many tenants (`PEOPLE`) uses ``trainer``, ``inference`` and
``notebook``; the simulated scenarios use ``inference``, ``notebook`` and the others. A tenant without
calls is only seen if it disturbs others."""

PEOPLE = (
    Person("bert-trainer", "trainer", "docker"),
    Person("chat-server", "inference", "containerd", "chat-server-6c9f7d5b88-x2kqp", "serving"),
    Person("notebook-anna", "notebook", "podman"),
    Person("job 4711.0", "trainer", "slurm:job_4711"),
    Person("embedder", "inference", "cri-o", "embedder-0", "search"),
    Person("notebook-ben", "notebook", "docker"),
    Person("triton.service", "inference", "systemd:triton.service"),
    Person("job 4712.0", "trainer", "slurm:job_4712"),
    Person("carla (session)", "notebook", "user:session-7"),
    Person("reranker", "inference", "docker"),
)
