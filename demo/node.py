"""Provides a stand-in NVML library and a stand-in kubelet for the node on which sample tenants run.

Both have the real interfaces. The monitor reads the GPUs through its own NVML bindings, and asks the kubelet
over the kubelet's socket. The stand-ins get their answers from files. These files are rewritten when tenants
start, end or are replaced.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stalltop.demo.build import Built
from stalltop.demo.cgroups import pod_uid
from stalltop.demo.scenario import PodPlan, ProcessPlan, Scenario

if TYPE_CHECKING:
    from stalltop.probes.options import MonitorOptions

NVML_VARIABLE: Final = "NVML_STANDIN_SCENARIO"
"""Environment variable with the path of the file from which the stand-in NVML gets its answers
(``native/libraries/nvml.h`` describes it)."""
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Present:
    """A tenant that runs."""

    identity: str
    """Id of the tenant's container."""
    pod: PodPlan | None
    processes: tuple[tuple[int, ProcessPlan], ...]
    """Pairs of a process id and the plan of that process."""


class DemoNode:
    """Provides stand-ins for the GPUs and pods of ``scenario`` until `close` is called, if the scenario has
    GPUs or pods."""

    def __init__(self, scenario: Scenario, built: Built) -> None:
        self._gpu = scenario.gpu
        self._pods = any(tenant.pod is not None for tenant in scenario.tenants)
        self._built = built
        self._folder = Path(tempfile.mkdtemp(prefix="stalltop-node-"))
        self._running = ExitStack()

    @property
    def _nvml(self) -> Path:
        return self._folder / "gpus"

    @property
    def _kubelet(self) -> Path:
        return self._folder / "pods.toml"

    def begin(self, present: Iterable[Present]) -> None:
        """Starts the stand-ins, which report the running tenants ``present``."""
        self.show(present)
        if self._pods:
            # Imported here, only when it is needed, because that takes a while.
            from stalltop.demo.kubelet import Node

            self._running.enter_context(Node(self._folder / "root", self._kubelet))

    def show(self, present: Iterable[Present], gpu: Mapping[str, str] | None = None) -> None:
        """Rewrites the files of the stand-ins so that they report the running tenants ``present``. The
        settings ``gpu`` are added to those of the scenario and override equal keys."""
        present = tuple(present)
        if self._gpu:
            _write(self._nvml, nvml_text({**self._gpu, **(gpu or {})}, present))
        if self._pods:
            _write(self._kubelet, pods_text(present))

    def options(self, options: MonitorOptions) -> MonitorOptions:
        """Returns ``options``, changed so that a monitor reads these stand-ins."""
        if self._gpu:
            library = {"LD_LIBRARY_PATH": str(self._built.nvml.parent), NVML_VARIABLE: str(self._nvml)}
            options = replace(options, nvml_environment=library)
        return replace(options, host_root=self._folder / "root") if self._pods else options

    def close(self) -> None:
        """Stops the stand-ins. May be called twice."""
        self._running.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def nvml_text(gpu: Mapping[str, str], present: Iterable[Present]) -> str:
    """Returns the content of the stand-in NVML's file: the settings of the scenario, and the processes on
    each device."""
    lists: dict[tuple[str, str], list[str]] = {}
    for tenant in present:
        for pid, process in tenant.processes:
            if process.gpu:
                key = process.gpu, "mps" if process.mps else "compute"
                lists.setdefault(key, []).append(f"{pid}:{process.memory_mib * _MIB}")
    lines = [f"{key}={value}" for key, value in gpu.items()]
    lines += [f"{label}.{kind}={','.join(found)}" for (label, kind), found in lists.items()]
    return "\n".join(lines) + "\n"


def pods_text(present: Iterable[Present]) -> str:
    """Returns the content of the stand-in kubelet's file: the pods of the running tenants, and the devices
    that each pod was given."""
    lines: list[str] = []
    for tenant in present:
        pod = tenant.pod
        if pod is None:
            continue
        lines += ["[[pods]]", f"namespace = {_quoted(pod.namespace)}", f"name = {_quoted(pod.name)}"]
        lines += [f"uid = {_quoted(pod_uid(tenant.identity))}"]
        lines += [f"ids = {{ {_quoted(pod.container)} = {_quoted(tenant.identity)} }}"]
        lines += [f"[pods.containers.{_quoted(pod.container)}]"]
        for resource, devices in pod.given.items():
            lines.append(f"{_quoted(resource)} = [{', '.join(map(_quoted, devices))}]")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Returns ``text`` as a basic string of TOML."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _write(path: Path, text: str) -> None:
    """Replaces the file atomically. A process that is reading the file at that moment reads the old
    content."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    os.replace(beside, path)
