"""Finds where a kubelet keeps its files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from stalltop.probes.tenants.host_files import inside

FOLDER: Final = "var/lib/kubelet"
"""Path of the usual folder, below the root of the host's files."""
FOLDERS: Final = (FOLDER, "var/lib/k0s/kubelet", "var/snap/microk8s/common/var/lib/kubelet")
"""The usual folder, and those of k0s and MicroK8s."""
PODS: Final = "pods"
"""Subfolder in which each pod that is not cleaned up yet has a folder, named by the pod's UID."""
SOCKET: Final = "pod-resources/kubelet.sock"
"""Socket of the kubelet's PodResources service, in the kubelet's folder. If stalltop runs in
a container, the folder of the socket has to be mounted there, not the socket itself, because the kubelet
creates a new socket when it restarts."""


def kubelet_folder(root: Path) -> Path:
    """Returns the kubelet's folder on a host whose files are below ``root``; the usual one if none exists."""
    for folder in FOLDERS:
        found = inside(root, folder)
        try:
            if found.is_dir():
                return found
        except OSError:
            continue
    return root / FOLDER


def is_node(root: Path) -> bool:
    """Returns whether a kubelet keeps pods on this host, or has left its PodResources socket there."""
    folder = kubelet_folder(root)
    try:
        return (folder / PODS).is_dir() or os.path.lexists(folder / SOCKET)
    except OSError:
        return False
