"""Lists the pods of this node: which pod has a name now, and which containers it has.

When the kubelet reports the devices of pods, it identifies the pods by namespace and name. A pod may be
replaced by a pod of the same name, as in a StatefulSet. Only their UIDs differ. Three sources have the UIDs,
and are read in this order: the kubelet's own list of pods (from Kubernetes 1.36 on), the container runtime
(CRI), and the folders in which the kubelet keeps logs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stalltop.model.text.clean import clean
from stalltop.probes.kubelet import cri, pods_api
from stalltop.probes.kubelet.call import KubeletCallError
from stalltop.probes.kubelet.folder import PODS, kubelet_folder
from stalltop.probes.kubelet.pod import Pod, PodContainer

LOGS: Final = "var/log/pods"
LINKS: Final = "var/log/containers"
"""Paths below the root of the host's files."""
_CONTAINERS_ID: Final = 64


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of this node that run, start or are ending. Pods that have ended are left out."""

    pods: tuple[Pod, ...] = ()
    source: str = ""
    """Source of the list; '' if no source answered."""
    silent: tuple[tuple[str, str], ...] = ()
    """Sources that were read before ``source`` and failed, each with the reason."""

    def uids(self) -> dict[tuple[str, str], str]:
        """Returns UIDs by namespace and name, for names that only one pod has."""
        found: dict[tuple[str, str], str] = {}
        for pod in self.pods:
            name = pod.namespace, pod.name
            found[name] = "" if found.get(name, pod.uid) != pod.uid else pod.uid
        return {name: uid for name, uid in found.items() if uid}


class PodReader:
    """Reads the pods of the node whose files are below ``root``. Used from one thread."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        api = pods_api.PodsApi(kubelet_folder(root) / pods_api.SOCKET)
        self._sources: list[tuple[str, Callable[[], tuple[Pod, ...]]]] = [
            ("the kubelet", api.read),
            *(self._runtime(name, path) for name, path in cri.SOCKETS),
            ("log folders", self._logged),
        ]

    def read(self) -> Pods:
        """Returns the pods, from the first source that answers. Never raises. A source that does not answer
        costs at most its time limit."""
        silent: list[tuple[str, str]] = []
        for name, ask in self._sources:
            try:
                return Pods(ask(), name, tuple(silent))
            except (KubeletCallError, ValueError, OSError) as error:
                silent.append((name, clean(str(error)) or type(error).__name__))
        return Pods(silent=tuple(silent))

    def _runtime(self, name: str, path: str) -> tuple[str, Callable[[], tuple[Pod, ...]]]:
        def ask() -> tuple[Pod, ...]:
            found = cri.read(self._root / path)
            if not found:  # The kubelet does not use this runtime.
                raise KubeletCallError("it runs no pods")
            return found

        return name, ask

    def _logged(self) -> tuple[Pod, ...]:
        alive = set(os.listdir(kubelet_folder(self._root) / PODS))
        containers: dict[str, list[PodContainer]] = {}
        for link in _listed(self._root / LINKS):  # The name is POD_NAMESPACE_CONTAINER-ID.log.
            container, _, identity = link.removesuffix(".log").rpartition("_")[2].rpartition("-")
            if len(identity) == _CONTAINERS_ID:
                uid = _uid_behind(self._root / LINKS / link)
                containers.setdefault(uid, []).append(PodContainer(clean(container), clean(identity)))
        found = []
        # The name is NAMESPACE_POD_UID; names of objects contain no underscore.
        for folder in os.listdir(self._root / LOGS):
            namespace, _, rest = folder.partition("_")
            name, _, uid = rest.partition("_")
            if uid in alive:
                known = tuple(containers.get(uid, ()))
                found.append(Pod(clean(uid), clean(namespace), clean(name), containers=known))
        return tuple(found)


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _uid_behind(link: Path) -> str:
    """Returns the UID of a pod from a link to one of its logs: ``…/NAMESPACE_POD_UID/CONTAINER/0.log``."""
    try:
        parts = os.readlink(link).split("/")
    except OSError:
        return ""
    return parts[-3].rpartition("_")[2] if len(parts) >= 3 else ""
