"""Checks which runtimes and schedulers give names to tenants on this host."""

from __future__ import annotations

from typing import Final, NamedTuple

from stalltop.model.finding import Finding
from stalltop.model.text.clean import clean
from stalltop.probes.kubelet import pod_resources
from stalltop.probes.kubelet.folder import FOLDER, FOLDERS, PODS, SOCKET, is_node
from stalltop.probes.kubelet.node_labels import node_labels, sharing
from stalltop.probes.kubelet.pods import PodReader
from stalltop.probes.readiness.surroundings import Surroundings
from stalltop.probes.tenants.container_sockets import DaemonError, asked
from stalltop.probes.tenants.host_files import VARIABLE
from stalltop.probes.tenants.unix_socket import why_no_socket


class Runtime(NamedTuple):
    """A runtime or scheduler; paths are below the root of the host's files."""

    name: str
    signs: tuple[str, ...]
    """Files whose presence shows that the runtime is installed."""
    state: str = ""
    """Folder with the names of the runtime's containers; '' if cgroup paths contain the names."""
    socket: str = ""
    """Socket at which the runtime can be asked for names; '' if it has none."""


_STORAGE: Final = "var/lib/containers/storage/overlay-containers"
RUNTIMES: Final = (
    Runtime("Docker", ("run/docker.sock",), "var/lib/docker/containers", "run/docker.sock"),
    Runtime(
        "containerd", ("run/containerd/containerd.sock",), "run/containerd/io.containerd.runtime.v2.task"
    ),
    Runtime(
        "k3s", ("run/k3s/containerd/containerd.sock",), "run/k3s/containerd/io.containerd.runtime.v2.task"
    ),
    Runtime("CRI-O", ("run/crio/crio.sock",), _STORAGE),
    Runtime("Podman", ("run/podman/podman.sock", "run/libpod"), _STORAGE, "run/podman/podman.sock"),
    Runtime("kubelet", tuple(f"{folder}/{PODS}" for folder in FOLDERS), "var/log/pods"),
    Runtime("Slurm", ("var/spool/slurmd", "var/spool/slurm/d", "run/slurmd.pid")),
    Runtime("ECS", ("var/lib/ecs",)),
    Runtime("LXC", ("var/lib/incus/containers", "var/lib/lxd/containers", "var/lib/lxc")),
)


def runtimes(surroundings: Surroundings) -> Finding:
    """Reports which runtimes are installed, and for which of them the names of containers cannot be read."""
    if not surroundings.of_host("."):
        return Finding(
            "containers",
            "warn",
            f"{VARIABLE}: {clean(str(surroundings.files))} does not exist: names and GPU owners are unknown",
            "set it to the folder at which the host's / is mounted, or unset it",
        )
    here = [runtime for runtime in RUNTIMES if any(surroundings.of_host(sign) for sign in runtime.signs)]
    seen = ", ".join(runtime.name for runtime in here) or "none seen"
    nameless = []
    for runtime in here:
        if runtime.state and not surroundings.of_host(runtime.state):
            why = _no_answer(surroundings, runtime.socket)
            if why:
                nameless.append(f"{runtime.name} ({why})" if runtime.socket else runtime.name)
    if nameless:
        return Finding(
            "containers",
            "warn",
            f"{seen}; the names of {', '.join(nameless)} cannot be read: ids are shown",
            "run as root, with the runtime's state folders or its socket visible",
        )
    return Finding("containers", "ok", seen)


def _no_answer(surroundings: Surroundings, socket: str) -> str:
    """Returns why a socket does not answer; '' if it answers."""
    if not socket:
        return "no socket"
    path = surroundings.files / socket
    if why := why_no_socket(path):
        return f"its socket: {why}"
    try:
        asked(path, "/version")
    except DaemonError as reason:
        return f"its socket: {clean(str(reason))}"
    return ""


def pods(surroundings: Surroundings) -> Finding:
    """Reports which source lists the pods of this node."""
    if not is_node(surroundings.files):
        return Finding("pods", "ok", "no kubelet on this host")
    found = PodReader(surroundings.files).read()
    silent = "; ".join(f"{name}: {why}" for name, why in found.silent if why != "not there")
    if not found.source:
        return Finding(
            "pods",
            "warn",
            f"no source lists the pods of this host{f' ({silent})' if silent else ''}",
            "run as root, with /run/containerd, /run/crio or /var/log/pods visible",
        )
    seen = f"{len(found.pods)}, listed by {found.source}{f' ({silent})' if silent else ''}"
    return Finding("pods", "ok", seen)


def allocations(surroundings: Surroundings) -> Finding:
    """Reports whether the kubelet, if there is one, lists the GPUs of each pod."""
    found = pod_resources.read(surroundings.files)
    if found.unavailable:
        if not is_node(surroundings.files):
            return Finding("gpu allocations", "ok", found.unavailable)
        remedy = f"run as root, with the folder of /{FOLDER}/{SOCKET} visible"
        return Finding("gpu allocations", "warn", f"not known: {found.unavailable}", remedy)
    given_to = {(one.namespace, one.pod) for one in found.allocations}
    given = sum(len(one.devices) for one in found.allocations)
    there = sum(len(devices) for _, devices in found.allocatable)
    of = f" of {there}" if there else ""
    to = "1 pod" if len(given_to) == 1 else f"{len(given_to)} pods"
    seen = f"kubelet: {given}{of} GPUs or parts of them given to {to}"
    if shared := sharing(node_labels(surroundings.files)):
        seen += f"; labels of the node: {shared}"
    return Finding("gpu allocations", "ok", seen)
