"""Reads this host's control groups: how they are mounted, the path of each cgroup id, and the cgroups of a
process.

A cgroup v2 id, as `bpf_get_current_cgroup_id` returns it, is the inode of the cgroup's directory. The ids of
all directories are kept up to date. They are remembered for a while after a directory is removed, because its
counts are read later. If cgroup v1 is in use, the v2 id is often that of the root; then only the paths in
``/proc/PID/cgroup`` identify the cgroup.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from stalltop.probes.tenants.directory_watch import DirectoryWatch

Kind = Literal["unified", "hybrid", "legacy", "none"]

MAX_DIRECTORIES = 65_536
"""Maximum number of cgroups that are followed. No usual host has so many. The maximum bounds the memory if a
host has an endless number of cgroups."""
MAX_GONE = 4096
"""Maximum number of removed cgroups whose paths are remembered."""
_DELETED = " (deleted)"


class Mount(NamedTuple):
    """The relevant fields of one line of mountinfo."""

    point: Path
    root: str
    """Path, within the hierarchy, of the cgroup that is visible at ``point``."""


@dataclass(frozen=True, slots=True)
class CgroupLayout:
    """How control groups are mounted: only v2 (unified), v2 and v1 (hybrid), only v1 (legacy), or none."""

    kind: Kind
    unified: Mount | None = None


def layout(root: Path = Path("/")) -> CgroupLayout:
    """Returns the layout according to ``/proc/self/mountinfo`` below ``root``; its kind is ``none`` if the
    file cannot be read."""
    found = mounts(root)
    unified = found.pop(UNIFIED, None)
    if unified is None:
        return CgroupLayout("legacy" if found else "none")
    return CgroupLayout("hybrid" if found else "unified", unified)


UNIFIED: frozenset[str] = frozenset()
"""Key of the hierarchy of cgroup v2. The key of another hierarchy is the set of its controllers' names."""
_NO_CONTROLLER = {"rw", "ro", "xattr", "noprefix", "clone_children", "none"}


def mounts(root: Path = Path("/")) -> dict[frozenset[str], Mount]:
    """Returns where each hierarchy is mounted. If a hierarchy is mounted several times, returns the mount
    that shows the largest part of it.

    The keys of cgroup v1 hierarchies are their controllers, as in ``/proc/PID/cgroup``. If ``mountinfo``
    cannot be read, nothing is returned.
    """
    try:
        text = (root / "proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return {}
    found: dict[frozenset[str], Mount] = {}
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, (kind, _, options) = before.split(" "), (*after.split(" "), "", "", "")[:3]
        if not separator or len(fields) < 5 or kind not in ("cgroup", "cgroup2"):
            continue
        hierarchy = UNIFIED if kind == "cgroup2" else frozenset(options.split(",")) - _NO_CONTROLLER
        mount = Mount(root / _unescaped(fields[4]).lstrip("/"), _unescaped(fields[3]))
        if hierarchy not in found or len(mount.root) < len(found[hierarchy].root):
            found[hierarchy] = mount
    return found


def _unescaped(field_of_mountinfo: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field_of_mountinfo)


@dataclass(frozen=True, slots=True)
class Membership:
    """The cgroups of one process: their paths in the hierarchies."""

    unified: str = ""
    """Path in the v2 hierarchy; '' if there is none."""
    legacy: tuple[str, ...] = ()
    """Paths in the v1 hierarchies, each once."""


def membership(pid: int, root: Path = Path("/")) -> Membership | None:
    """Returns the cgroups of the process (``/proc/PID/cgroup``), or None if it is gone or hidden."""
    try:
        with open(f"{root}/proc/{pid}/cgroup", "rb", buffering=0) as file:
            text = file.read().decode(errors="surrogateescape")
    except OSError:
        return None
    unified, legacy = "", dict[str, None]()
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        path = path.removesuffix(_DELETED)
        if number == "0" and not controllers:
            unified = path
        elif path:
            legacy[path] = None
    return Membership(unified, tuple(legacy))


@dataclass(slots=True)
class _Directory:
    id: int
    path: str
    """Path of the directory in the file system."""
    watch: int = 0
    """Number of its watch; 0 if it is not watched."""
    children: dict[str, _Directory] = field(default_factory=dict)


def cgroup_id_of(pid: int, root: Path = Path("/")) -> int:
    """Returns the id of the process's cgroup in the v2 hierarchy; 0 if the process is gone, or if it has none
    that is visible here."""
    member, mount = membership(pid, root), layout(root).unified
    return 0 if member is None or mount is None else _id_at(mount, member.unified)


def _id_at(mount: Mount, path: str) -> int:
    below = path if mount.root == "/" else path.removeprefix(mount.root)
    if not path.startswith("/") or (mount.root != "/" and below == path):
        return 0
    if ".." in path.split("/"):
        return 0
    try:
        return os.stat(f"{mount.point}{below}").st_ino
    except (OSError, ValueError):
        return 0


class CgroupTree:
    """The directories of one v2 mount, by id and by path. Used from one thread."""

    def __init__(self, mount: Mount) -> None:
        self._mount = mount
        self._point = str(mount.point)
        self._paths: dict[int, str] = {}
        self._gone: OrderedDict[int, str] = OrderedDict()
        self._root: _Directory | None = None
        self._watched: dict[int, _Directory] = {}
        """Directories by the number of their watch."""
        self._watch: DirectoryWatch | None = None
        """None if not all directories can be watched: then all are examined."""
        with contextlib.suppress(OSError):
            self._watch = DirectoryWatch()
        self.refresh()

    def path(self, cgroup_id: int) -> str | None:
        """Returns the path (as in ``/proc/PID/cgroup``) of a cgroup that is in the tree or was there until
        lately; otherwise None."""
        return self._paths.get(cgroup_id) or self._gone.get(cgroup_id)

    def made(self, cgroups: Mapping[int, str]) -> None:
        """Notes the paths of cgroups by their ids. They may be gone before `refresh` finds them."""
        for cgroup_id in cgroups.keys() - self._paths.keys():
            self._remember(cgroup_id, cgroups[cgroup_id])

    def has(self, cgroup_id: int) -> bool:
        """Returns whether the cgroup is in the tree now."""
        return cgroup_id in self._paths

    def id(self, path: str) -> int:
        """Returns the id of the cgroup that is at ``path`` now; 0 if there is no such cgroup, or if this
        mount does not show it."""
        return _id_at(self._mount, path)

    def refresh(self) -> None:
        """Finds cgroups that were created or removed since the last time.

        The Linux kernel reports which directories have changed; only these are listed. If there are more
        directories than it can watch, each is examined.
        """
        try:
            root = os.stat(self._point).st_ino
        except OSError:
            return
        if self._root is None or self._root.id != root:
            self._drop(self._root)
            self._root = _Directory(root, self._point)
            self._add(self._root)
            todo = [self._root]
        else:
            changed = None if self._watch is None else self._watch.changed()
            known = changed is not None
            todo = [self._watched[one] for one in changed or () if one in self._watched]
            todo += [] if known else self._examined(self._root)
        while todo:
            todo += self._list(todo.pop())

    def _examined(self, root: _Directory) -> list[_Directory]:
        """Returns the directories that have changed.

        Needs one `stat` for each directory, because its link count is the number of its children plus two.
        """
        found = []
        todo = [root]
        while todo:
            directory = todo.pop()
            now = {child.path: _status(child.path) for child in directory.children.values()}
            own = _status(directory.path)
            # Some file systems do not maintain the link count.
            changed = own is None or own.st_nlink < 2 or own.st_nlink - 2 != len(directory.children)
            for child in directory.children.values():
                status = now[child.path]
                if status is None or status.st_ino != child.id:
                    changed = True
                else:
                    todo.append(child)
            if changed:
                found.append(directory)
        return found

    def _list(self, directory: _Directory) -> list[_Directory]:
        """Lists ``directory`` again; returns its children that are new."""
        try:
            with os.scandir(directory.path) as entries:
                found = {
                    entry.name: (entry.path, entry.inode())
                    for entry in entries
                    if entry.is_dir(follow_symlinks=False)
                }
        except OSError:
            found = {}
        for name, child in list(directory.children.items()):
            if name not in found or found[name][1] != child.id:
                self._drop(directory.children.pop(name))
        new = []
        for name, (path, inode) in found.items():
            if name not in directory.children:
                if len(self._paths) >= MAX_DIRECTORIES:
                    break
                directory.children[name] = _Directory(inode, path)
                self._add(directory.children[name])
                new.append(directory.children[name])
        return new

    def _add(self, directory: _Directory) -> None:
        below = directory.path[len(self._point) :]
        root = "" if self._mount.root == "/" else self._mount.root
        self._paths[directory.id] = root + below or "/"
        self._gone.pop(directory.id, None)
        if self._watch is None:
            return
        # The directory is watched before it is listed, so no change is missed.
        try:
            directory.watch = self._watch.add(directory.path)
            self._watched[directory.watch] = directory
        except FileNotFoundError:
            pass  # The directory was removed just now: its parent has changed again.
        except OSError:
            self._watch.close()
            self._watch = None
            self._watched.clear()

    def _drop(self, directory: _Directory | None) -> None:
        todo = [directory] if directory is not None else []
        while todo:
            gone = todo.pop()
            todo += gone.children.values()
            self._watched.pop(gone.watch, None)
            path = self._paths.pop(gone.id, None)
            if path is not None:
                self._remember(gone.id, path)

    def _remember(self, cgroup_id: int, path: str) -> None:
        self._gone[cgroup_id] = path
        if len(self._gone) > MAX_GONE:
            self._gone.popitem(last=False)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=False)
    except OSError:
        return None
