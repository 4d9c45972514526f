"""Where a kubelet keeps its files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from stalltop.probes.tenants.host_files import inside

FOLDER: Final = "var/lib/kubelet"
"""The usual place, below the root of the host's files."""
FOLDERS: Final = (FOLDER, "var/lib/k0s/kubelet", "var/snap/microk8s/common/var/lib/kubelet")
"""That, and those of k0s and MicroK8s."""
PODS: Final = "pods"
"""In it, a folder by UID for each pod that is not cleaned away."""
SOCKET: Final = "pod-resources/kubelet.sock"
"""In it, where the kubelet's PodResources service answers. Into a container its own folder has to be mounted,
not the socket: the kubelet makes a new one when it starts again."""


def kubelet_folder(root: Path) -> Path:
    """The kubelet's folder on a host whose files are below ``root``; the usual one where there is none."""
    for folder in FOLDERS:
        found = inside(root, folder)
        try:
            if found.is_dir():
                return found
        except OSError:
            continue
    return root / FOLDER


def is_node(root: Path) -> bool:
    """Whether a kubelet keeps pods on this host, or left a socket at which it told who was given what."""
    folder = kubelet_folder(root)
    try:
        return (folder / PODS).is_dir() or os.path.lexists(folder / SOCKET)
    except OSError:
        return False
