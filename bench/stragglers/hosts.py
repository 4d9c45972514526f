"""Hosts that are parts of this machine, and a training job with a rank on each.

A host is a cgroup. Below it run its rank with a data loader, a data server beyond a network link, and a
neighbour. The host has its own copies of the libraries, its own stand-in GPU, a clock of its own, and a
tracer that sees only what runs in its cgroup. What hosts cannot have of their own here is divided: CPU time
by the weights of the cgroups, and the disk is read on one host at a time.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bench.faults.stage.controllers import Limits
from bench.faults.stage.device import StandInDevice
from bench.faults.stage.network import PrivateLink
from bench.faults.stage.stage import Files, Place, Stage
from bench.faults.stage.workloads import LAUNCH, latencies
from stalltop.cli.fleet.traced_host import HostPlan, TracedHost
from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from stalltop.demo.cgroups import hierarchy
from stalltop.demo.latencies import Latency
from stalltop.model.fleet.host_summary import HostAddress

HOSTS: Final = 4
CLUSTER, RACK = "bench", "rack"
CLOCKS_AHEAD: Final = (0.0, 0.4, -1.3, 0.025)
"""By how many seconds the clocks of the hosts are ahead of that of this machine."""
STEP: Final = (
    "!5000 cudaMemcpyAsync:1:1048576:1 cudaLaunchKernel:20:0 cudaEventSynchronize ncclAllReduce:2:6553600:7 "
    "cudaStreamSynchronize"
)
"""A training step: computes, waits for its own GPU, then for the collectives and so for the other ranks."""
GIVE: Final = "!700 @give:batches:4"
READS: Final = 8
"""Number of reads for a batch: enough that a fast disk, too, delays a batch by more than a step when it is
busy."""
HOST_WEIGHT: Final = 10.0
"""CPU weight of each host, as a multiple of the default: other programs of this machine disturb little. All
hosts have equal weights, so what one of them takes is taken from its own tenants first."""
NICE: Final = -10
"""Nice value of the tracers, the server and the reader, for the same reason."""
TENANTS: Final = ("train", "neighbour", "data-server")
"""Names of the tenants of each host."""
_GIB: Final = 1 << 30


class JobHost:
    """One host, and its part of the job."""

    def __init__(self, number: int, files: Files, built: Built, chance: random.Random, meeting: Path) -> None:
        """``built`` are the host's own copies of the libraries. Raises StalltopError."""
        self.number: Final = number
        self.address: Final = HostAddress(CLUSTER, RACK, f"node-{number + 1}")
        self._ends = ExitStack()
        self._below = f"stalltop-{os.getpid()}-node-{number + 1}"
        cpus = Limits(self._below, hierarchy() / self._below, ("cpu",))
        self.stage: Final = self._ends.enter_context(
            Stage(built, files, chance, below=self._below, shared=cpus)
        )
        self.device: Final = StandInDevice(self.stage.folder, built)
        self._speed = self.stage.folder / "gpu-speed"
        self._speed.write_bytes(bytes(4096))
        self.trainer: Final = self.stage.tenant(TENANTS[0])
        self.neighbour: Final = self.stage.tenant(TENANTS[1])
        self._started(self.neighbour, "idle")  # demos elsewhere take an empty cgroup for one that was left
        cpus.cpu_weight(HOST_WEIGHT)
        server = self._started(self.stage.tenant(TENANTS[2]), "server", own_network=True)
        self.link: Final = PrivateLink(server.pid)
        self._ends.callback(self.link.close)
        server.start(f"@serve:{self.link.peer}:7000")
        durations = {
            **latencies(6),
            "cuEventSynchronize": Latency("poll", "lognormal", 12e6, 0.1, path=self._speed),
            "cuStreamSynchronize": Latency("meet", ns=12e6, spread=float(HOSTS), path=meeting),
            "cuLaunchKernel": LAUNCH,
        }
        self.rank: Final = self._started(self.trainer, "train.py", latencies=durations)
        self.rank.do("load ncclCommInitRank cudaGetDevice")
        self.loader: Final = self._started(self.trainer, "pt_data_worker")
        self.read_from("memory")
        self.listed: Final = {"compute": f"{self.rank.pid}:{10 * _GIB}"}
        """What the stand-in GPU shows of its processes."""
        self.device.show(**self.listed)

    def plan(self, url: str, hosts: Sequence[JobHost]) -> HostPlan:
        """Returns how the host is traced. All ``hosts`` share the CPUs, so it may see tenants of others."""
        names = {
            place.identity: place.name if host is self else f"{place.name} of {host.address.host}"
            for host in hosts
            for place in host.places
        }
        ahead = CLOCKS_AHEAD[self.number % len(CLOCKS_AHEAD)]
        return HostPlan(
            url, *self.address, f"/{self._below}", names, self.device.environment, ahead, light=True
        )

    def join(self, communicator: str) -> None:
        """Lets the rank join its communicator."""
        self.rank.do(f"join {communicator} {self.number} {HOSTS}")

    def train(self) -> None:
        """Lets the rank make its steps."""
        ask = f"@ask:{self.link.peer}:7000:100"
        self.rank.start(f"@take:batches:4 @lock:shared:100 {ask} {STEP}")

    def read_from(self, where: str) -> None:
        """Lets the data loader read its batches from ``memory`` or from the ``disk``."""
        self.load(f"@{'cached' if where == 'memory' else 'read'}:data:131072:{READS} {GIVE}")

    def load(self, items: str) -> None:
        """Lets the data loader run ``items`` for each batch."""
        self.loader.do("finish")
        self.loader.start(items)

    def beside(self, name: str, items: str, threads: int = 1) -> Caller:
        """Starts a process of the neighbour."""
        started = self._started(self.neighbour, name)
        started.start(items, threads=threads)
        return started

    def _started(self, place: Place, name: str, **more: Any) -> Caller:
        """Starts a process without the priority of this one."""
        started = self.stage.process(place, name, **more)
        os.setpriority(os.PRIO_PROCESS, started.pid, 0)
        return started

    def gpu_takes(self, times: float) -> None:
        """Lets work on the GPU take ``times`` as long."""
        with self._speed.open("r+b") as file:
            file.write(struct.pack("d", times))

    @property
    def places(self) -> Sequence[Place]:
        """The tenants of the host."""
        return self.stage.places

    def close(self) -> None:
        """Ends everything of the host."""
        self._ends.close()


class SpreadJob:
    """A job on `HOSTS` traced hosts. Raises StalltopError if it cannot be started."""

    def __init__(self, built: Built, url: str, chance: random.Random) -> None:
        self.hosts: Final[list[JobHost]] = []
        self._tracers: list[TracedHost] = []
        self._files = Files(built)
        try:
            self._files.remember("data")
            meeting = self._files.folder / "meeting"
            meeting.touch()
            for number in range(HOSTS):
                own = self._files.folder / f"libraries-{number + 1}"
                shutil.copytree(built.folder, own)
                host = JobHost(number, self._files, Built(own), chance, meeting)
                self.hosts.append(host)
            self._tracers += [TracedHost(host.plan(url, self.hosts)) for host in self.hosts]
            for tracer in self._tracers:
                tracer.wait()
            for host in self.hosts:
                host.join(f"job-{os.getpid()}")
            for host in self.hosts:
                host.train()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the job, its tracers and its hosts. May be called twice."""
        hosts, tracers = list(self.hosts), list(self._tracers)
        self.hosts.clear()
        self._tracers.clear()
        for host in hosts:
            host.close()
        for tracer in tracers:
            tracer.end()
        for tracer in tracers:
            tracer.close()
        self._files.close()
