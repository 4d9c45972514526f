"""Reads pods and containers from the container runtime: Container Runtime Interface (CRI), v1.

The numbers of fields are those of k8s.io/cri-api/pkg/apis/runtime/v1/api.proto.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stalltop.model.text.clean import clean
from stalltop.probes.kubelet.call import KubeletCallError, call
from stalltop.probes.kubelet.pod import MOST_BYTES, MOST_PODS, Pod, PodContainer, kept_labels, object_name
from stalltop.probes.kubelet.protobuf import messages, number, text
from stalltop.probes.tenants.unix_socket import why_no_socket

SOCKETS: Final = (
    ("containerd", "run/containerd/containerd.sock"),
    ("CRI-O", "run/crio/crio.sock"),
    ("containerd of k3s", "run/k3s/containerd/containerd.sock"),
    ("containerd of k0s", "run/k0s/containerd.sock"),
    ("containerd of MicroK8s", "var/snap/microk8s/common/run/containerd.sock"),
    ("cri-dockerd", "run/cri-dockerd.sock"),
)
"""Runtimes and their sockets, as paths below the root of the host's files."""
SANDBOXES: Final = "/runtime.v1.RuntimeService/ListPodSandbox"
CONTAINERS: Final = "/runtime.v1.RuntimeService/ListContainers"
SECONDS: Final = 2.0
_READY: Final = 0
_RUNNING: Final = 1


def read(path: Path) -> tuple[Pod, ...]:
    """Returns the pods that have a running sandbox or container, from the runtime at the socket ``path``.

    Raises KubeletCallError, or ValueError if the answer cannot be parsed.
    """
    if why := why_no_socket(path):
        raise KubeletCallError(why)
    # Containers are read before sandboxes: the sandbox of each listed container existed before the container,
    # so the later list has it, unless it was removed in between.
    containers = messages(call(path, CONTAINERS, seconds=SECONDS, most_bytes=MOST_BYTES), 1)
    sandboxes = messages(call(path, SANDBOXES, seconds=SECONDS, most_bytes=MOST_BYTES), 1)
    within: dict[str, list[PodContainer]] = {}
    for one in containers:
        metadata = b"".join(messages(one, 3))
        running = number(one, 6) == _RUNNING
        container = PodContainer(object_name(text(metadata, 1)), clean(text(one, 1)), running)
        within.setdefault(text(one, 2), []).append(container)
    found: dict[str, Pod] = {}
    for one in sandboxes[:MOST_PODS]:
        own = within.get(text(one, 1), [])
        if number(one, 3) != _READY and not any(container.running for container in own):
            # The pod has ended. The runtime still lists it for a while, and another pod may already have its
            # name.
            continue
        metadata = b"".join(messages(one, 2))
        uid = clean(text(metadata, 2))
        before = found[uid].containers if uid in found else ()
        found[uid] = Pod(
            uid=uid,
            namespace=object_name(text(metadata, 3)),
            name=object_name(text(metadata, 1)),
            labels=kept_labels(one, 5),
            containers=(*before, *own),
        )
    found.pop("", None)
    return tuple(found.values())
