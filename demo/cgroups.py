"""Makes real cgroups for sample tenants, with the names that container runtimes use, and reliably removes
them.

Every directory made here carries an extended attribute that names the process that made it. The next process
that starts finds and removes by it what a killed process left behind.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import time
from pathlib import Path

from stalltop.model.errors import StalltopError
from stalltop.probes.tenants.cgroups import layout

MARK = "trusted.stalltop"
"""The attribute: ``own`` (a tenant's cgroup) or ``parent``, and the maker's process id, start time and PID
namespace. Others may have begun to use a parent: it is removed when it is empty, and nothing in it is ever
killed."""
REMOVE_SECONDS = 5.0
"""Seconds that killed processes may take to leave a cgroup."""
STARTED_SECONDS = 60.0
"""Seconds after which an empty cgroup is assumed to be abandoned: no start takes that long."""
_WALK_DIRECTORIES = 65_536


def container_id(seed: str = "") -> str:
    """Returns 64 hexadecimal digits, as runtimes generate them: the same for the same ``seed``, random
    without one."""
    return hashlib.sha256(seed.encode() if seed else os.urandom(32)).hexdigest()


def container_path(runtime: str, identity: str) -> str:
    """Returns the cgroup v2 path of a container, or of a job for ``slurm``, below the root of the hierarchy.

    ``identity`` is the container's 64-digit id (see `container_id`), or the job's number. Raises ValueError
    for an unknown runtime.
    """
    pod = pod_uid(identity).replace("-", "_")
    burstable = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{pod}.slice"
    paths = {
        "docker": f"system.slice/docker-{identity}.scope",
        "podman": f"machine.slice/libpod-{identity}.scope",
        "containerd": f"{burstable}/cri-containerd-{identity}.scope",
        "cri-o": f"{burstable}/crio-{identity}.scope",
        "slurm": f"system.slice/slurmstepd.scope/job_{identity}/step_0/user/task_0",
    }
    if runtime not in paths:
        raise ValueError(f"no cgroup path is known for the runtime {runtime!r}")
    return paths[runtime]


def pod_uid(identity: str) -> str:
    """Returns the UID of the pod that contains the container of this id, in `container_path`."""
    return "-".join((identity[:8], identity[8:12], identity[12:16], identity[16:20], identity[20:32]))


def hierarchy() -> Path:
    """Returns where the root of the cgroup v2 hierarchy is mounted. Raises StalltopError if it is not."""
    mount = layout().unified
    if mount is None:
        raise StalltopError("cgroup v2 is not mounted on this host", "mount -t cgroup2 none /sys/fs/cgroup")
    return mount.point


class Cgroups:
    """Makes cgroups; when closed, kills what runs in them and removes them.

    Raises StalltopError if none can be made. The constructor also removes what killed processes left behind.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root if root is not None else hierarchy()
        self._made: list[Path] = []
        sweep(self._root)

    def __enter__(self) -> Cgroups:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def make(self, path: str) -> Path:
        """Makes a new cgroup at ``path`` (below the root of the hierarchy), with its parents, and returns its
        directory.

        Raises StalltopError if it exists or cannot be made.
        """
        place = self._root / path.lstrip("/")
        try:
            self._make(place)
        except OSError as error:
            raise StalltopError(
                f"cannot make the cgroup {place}: {error.strerror}", "start it as root on the host"
            ) from error
        self._made.append(place)
        return place

    def remove(self, place: Path) -> None:
        """Kills what runs in one of the cgroups, and removes the cgroup."""
        self._made.remove(place)
        kill_all(place)
        _remove(place)
        _remove_empty_parents(place)

    def close(self) -> None:
        """Kills and removes everything that was made. May be called twice."""
        made, self._made = self._made, []
        for place in made:
            kill_all(place)
        for place in made:
            _remove(place)
            _remove_empty_parents(place)

    def _make(self, place: Path) -> None:
        # Another process may remove an empty parent between two steps; then begin again.
        for attempt in range(20):
            try:
                missing = [place]
                while not missing[-1].parent.exists():
                    missing.append(missing[-1].parent)
                for directory in reversed(missing):
                    _make_marked(directory, own=directory == place)
            except FileNotFoundError:
                if attempt == 19:
                    raise
            else:
                return


def kill_all(place: Path) -> None:
    """Sends SIGKILL to every process in this cgroup and below it. Does not wait."""
    with contextlib.suppress(OSError):
        (place / "cgroup.kill").write_text("1")
        return
    # Before Linux 5.14.
    for directory, _, _ in os.walk(place):
        for pid in _processes(Path(directory)):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def sweep(root: Path) -> int:
    """Removes the marked cgroups whose makers are gone, with the processes in them; returns how many were
    removed."""
    own: list[Path] = []
    parents: list[Path] = []
    for count, (directory, _, _) in enumerate(os.walk(root)):
        if count >= _WALK_DIRECTORIES:
            break
        with contextlib.suppress(OSError, ValueError):
            role, _, maker = os.getxattr(directory, MARK).decode().partition(" ")
            if _is_left(Path(directory), maker):
                (own if role == "own" else parents).append(Path(directory))
    for place in own:
        kill_all(place)
    for place in own:
        _remove(place)
    for place in reversed(parents):  # The walk goes from the root down.
        with contextlib.suppress(OSError):
            place.rmdir()
    return sum(not place.exists() for place in own + parents)


def _make_marked(directory: Path, *, own: bool) -> None:
    try:
        directory.mkdir()
    except FileExistsError:
        if own:
            raise
        return
    try:
        os.setxattr(directory, MARK, f"{'own' if own else 'parent'} {_maker()}".encode())
    except OSError:
        with contextlib.suppress(OSError):
            directory.rmdir()
        raise


def _maker(pid: int | None = None) -> str:
    pid = pid if pid is not None else os.getpid()
    stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    started = stat.rpartition(")")[2].split()[19]
    return f"{pid} {started} {os.readlink(f'/proc/{pid}/ns/pid')}"


def _is_left(place: Path, maker: str) -> bool:
    """Returns whether the maker of this cgroup has ended.

    A maker in another PID namespace cannot be seen. But its tenants end with it, and a running demo has
    processes in every cgroup, so the cgroup is abandoned if it has been empty for long.
    """
    pid, _, space = maker.split(" ")
    if space != os.readlink("/proc/self/ns/pid"):
        empty = "populated 0" in (place / "cgroup.events").read_text()
        return empty and time.time() - place.stat().st_ctime > STARTED_SECONDS
    try:
        return _maker(int(pid)) != maker
    except OSError:
        return True


def _processes(place: Path) -> list[int]:
    try:
        return [int(pid) for pid in (place / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _remove(place: Path) -> None:
    deadline = time.monotonic() + REMOVE_SECONDS
    while time.monotonic() < deadline:
        try:
            place.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            kill_all(place)
            time.sleep(0.005)
        else:
            return


def _remove_empty_parents(place: Path) -> None:
    """Removes empty parents that were made for a tenant; a cgroup that existed before carries no mark."""
    for parent in place.parents:
        try:
            os.getxattr(parent, MARK)
            parent.rmdir()
        except OSError:
            return
