"""Reads the names of containers, pods and users from state files that runtimes keep on this host.

Files need no socket and no client library; they can be read while a daemon is down, and a daemon cannot delay
the reading. If a file is missing, only the name is unknown. The layouts read here:

* Kubernetes (any runtime): names of the kubelet's log links, ``/var/log/containers`` and ``/var/log/pods``
* Docker: ``config.v2.json`` of the container, below its data root
* containerd, nerdctl, k3s: annotations in the OCI ``config.json`` of the running task
* Podman, Buildah, CRI-O: ``containers.json`` of containers/storage, of root and of the container's user, and
  ``volatile-containers.json`` for what is removed when it ends (``podman run --rm``)
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from stalltop.model.text.clean import clean
from stalltop.probes.regular_file import read_regular
from stalltop.probes.tenants.host_files import inside
from stalltop.probes.tenants.labels import Labels, bounded

MAX_BYTES = 8 << 20
"""Maximum size of a state file that is read, bytes; also of all parsed files in the cache together."""
_KEPT_FILES = 64


@dataclass(frozen=True, slots=True)
class Names:
    """The names that are known; '' for a name that is not known."""

    container: str = ""
    pod: str = ""
    namespace: str = ""
    labels: Labels = ()

    def filled_from(self, other: Names) -> Names:
        """Returns these names; those that are missing are taken from ``other``."""
        return Names(
            self.container or other.container,
            self.pod or other.pod,
            self.namespace or other.namespace,
            self.labels or other.labels,
        )

    @property
    def complete(self) -> bool:
        """Returns whether all three names are known."""
        return bool(self.container and self.pod and self.namespace)


class NameFiles:
    """Reads the state files below ``root``. Missing files and unexpected content raise no errors."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._parsed: dict[Path, tuple[tuple[int, int, int], object]] = {}

    def look_up(self, container_id: str, pod_uid: str = "", uid: int | None = None) -> Names:
        """Returns the names of a container (full id; may be '') and of its pod (UID; may be '').

        ``uid`` is the user to whom the runtime belongs; None for root. If it is given, only that user's files
        are read, because a user can give a cgroup the id of any container.
        """
        names = Names()
        sources = (self._kubernetes_link, self._docker, self._task, self._storage)
        if container_id:
            for source in (self._docker, self._storage) if uid else sources:
                names = names.filled_from(source(container_id, uid))
                if names.container:
                    break
        if pod_uid and not uid and not names.complete:
            names = names.filled_from(self._kubernetes_pod(pod_uid))
        return names

    def user(self, uid: int) -> str:
        """Returns the login name of user ``uid``; ``uid N`` if it is not known. Reads only local files,
        because a directory service may be slow."""
        for line in self._lines(f"run/systemd/users/{uid}"):
            if line.startswith("NAME="):
                return clean(line[5:]) or f"uid {uid}"
        for fields in self._accounts():
            if fields[2] == str(uid):
                return clean(fields[0]) or f"uid {uid}"
        return f"uid {uid}"

    # Where each runtime keeps names

    def _kubernetes_link(self, container_id: str, _uid: int | None) -> Names:
        # The name is POD_NAMESPACE_CONTAINER-ID.log; names of Kubernetes objects contain no underscore.
        suffix = f"-{container_id}.log"
        for name in self._listed("var/log/containers"):
            if name.endswith(suffix):
                pod, _, rest = name.removesuffix(suffix).partition("_")
                namespace, _, container = rest.partition("_")
                return Names(clean(container), clean(pod), clean(namespace))
        return Names()

    def _kubernetes_pod(self, pod_uid: str) -> Names:
        for name in self._listed("var/log/pods"):  # the name is NAMESPACE_POD_UID
            if name.endswith(f"_{pod_uid}"):
                namespace, _, pod = name.removesuffix(f"_{pod_uid}").partition("_")
                return Names("", clean(pod), clean(namespace))
        return Names()

    def _docker(self, container_id: str, uid: int | None) -> Names:
        roots = ["var/lib/docker", "var/snap/docker/common/var-lib-docker"]
        chosen = _text(self._json("etc/docker/daemon.json"), "data-root")
        if chosen:
            roots.insert(0, chosen.lstrip("/"))
        for root in self._users(uid, "docker") if uid else roots:
            state = self._json(f"{root}/containers/{container_id}/config.v2.json")
            names = docker_names(state)
            if names.container:
                return names
        return Names()

    def _task(self, container_id: str, _uid: int | None) -> Names:
        for state in ("run/containerd", "run/k3s/containerd", "var/snap/microk8s/common/run/containerd"):
            tasks = f"{state}/io.containerd.runtime.v2.task"
            for namespace in self._listed(tasks):
                spec = self._json(f"{tasks}/{namespace}/{container_id}/config.json")
                notes = _inside(spec, "annotations")
                names = Names(
                    clean(_text(notes, "io.kubernetes.cri.container-name") or _text(notes, "nerdctl/name")),
                    clean(_text(notes, "io.kubernetes.cri.sandbox-name")),
                    clean(_text(notes, "io.kubernetes.cri.sandbox-namespace")),
                )
                if names != Names():
                    return names
        return Names()

    def _storage(self, container_id: str, uid: int | None) -> Names:
        roots = self._users(uid, "containers") if uid else ["var/lib/containers"]
        for root, file in product(roots, ("containers.json", "volatile-containers.json")):
            listed = self._json(f"{root}/storage/overlay-containers/{file}")
            for entry in listed if isinstance(listed, list) else []:
                if _text(entry, "id") == container_id:
                    given = _inside(entry, "names")
                    name = given[0] if isinstance(given, list) and given else ""
                    return _from_parts(name if isinstance(name, str) else "")
        return Names()

    # Reading, within limits of time and memory

    def _users(self, uid: int, runtime: str) -> list[str]:
        """Returns the folders in which a runtime of a user other than root keeps its files, relative to
        ``root``."""
        home = next((fields[5].strip("/") for fields in self._accounts() if fields[2] == str(uid)), "")
        return [f"{home}/.local/share/{runtime}"] if home else []

    def _accounts(self) -> Iterator[list[str]]:
        for line in self._lines("etc/passwd"):
            fields = line.split(":")
            if len(fields) >= 7:
                yield fields

    def _lines(self, path: str) -> list[str]:
        return (
            (read_regular(inside(self._root, path), MAX_BYTES) or b"")
            .decode("utf-8", "surrogateescape")
            .splitlines()
        )

    def _listed(self, path: str) -> list[str]:
        try:
            return os.listdir(inside(self._root, path))
        except OSError:
            return []

    def _json(self, path: str) -> object:
        """Returns the content of a JSON file; None if it cannot be read or parsed. The file is parsed again
        only if it has changed."""
        file = inside(self._root, path)
        try:
            status = file.stat()
        except (OSError, ValueError):
            return None
        version = (status.st_ino, status.st_mtime_ns, status.st_size)
        before = self._parsed.get(file)
        if before is None or before[0] != version:
            kept = sum(size for (_, _, size), _ in self._parsed.values() if size <= MAX_BYTES)
            if len(self._parsed) >= _KEPT_FILES or kept + status.st_size > MAX_BYTES:
                # Users can write such files too, so their content must not fill the memory.
                self._parsed.clear()
            try:
                before = version, json.loads(read_regular(file, MAX_BYTES) or b"null")
            except (ValueError, RecursionError):
                before = version, None
            self._parsed[file] = before
        return before[1]


def docker_names(state: object) -> Names:
    """Returns the names in the description of a container, which comes from Docker's file, or from the socket
    of Docker or Podman."""
    labels = _inside(state, "Config", "Labels")
    kubernetes = _labelled(labels, "io.kubernetes.container.name", "io.kubernetes.pod.name")
    ecs = Names(
        clean(_text(labels, "com.amazonaws.ecs.container-name")),
        clean(_text(labels, "com.amazonaws.ecs.task-definition-family")),  # A task of ECS is shown as a pod.
        clean(_text(labels, "com.amazonaws.ecs.cluster")),
    )
    own = _from_parts(_text(state, "Name").lstrip("/"))
    kept = Names(labels=bounded(labels.items()) if isinstance(labels, dict) else ())
    return kubernetes.filled_from(ecs).filled_from(own).filled_from(kept)


def _from_parts(name: str) -> Names:
    """Returns the names that are parts of a container's name. The kubelet gives containers the names
    ``k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT``. Any other name is the container's own."""
    parts = re.fullmatch(r"k8s_([^_]+)_([^_]+)_([^_]+)_([^_]+)_\d+", name)
    if parts:
        return Names(clean(parts[1]), clean(parts[2]), clean(parts[3]))
    return Names(clean(name))


def _labelled(labels: object, container: str, pod: str) -> Names:
    return Names(
        clean(_text(labels, container)),
        clean(_text(labels, pod)),
        clean(_text(labels, "io.kubernetes.pod.namespace")),
    )


def _inside(value: Any, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: object, key: str) -> str:
    found = _inside(value, key)
    return found if isinstance(found, str) else ""
