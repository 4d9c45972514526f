"""Makes real cgroups for sample tenants, with the names that container runtimes use. Removes them reliably.

Every cgroup directory that is made here has an extended attribute that names the process that made it. If
that process is killed, the next process that makes cgroups here finds these directories by the attribute and
removes them.
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
"""Name of the extended attribute that marks the cgroups made here. Its value begins with ``own`` (a tenant's
cgroup) or ``parent`` (a directory above such a cgroup). Process id, start time and PID namespace of the
process that made the cgroup follow. Programs outside the demo may have begun to use a parent. So a parent is
removed only when it is empty, and no process in it is killed."""
REMOVE_SECONDS = 5.0
"""Time in seconds that killed processes may take until they have left a cgroup."""
STARTED_SECONDS = 60.0
"""Age in seconds above which an empty cgroup, made in another PID namespace, is assumed to be abandoned. A
demo that starts puts a process into each of its cgroups much earlier."""
_WALK_DIRECTORIES = 65_536


def container_id(seed: str = "") -> str:
    """Returns 64 hexadecimal digits, like the container ids of runtimes. Equal values of ``seed`` give equal
    ids; without ``seed``, the id is random."""
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
    """Returns the UID of the pod to which the container ``identity`` belongs, according to
    `container_path`."""
    return "-".join((identity[:8], identity[8:12], identity[12:16], identity[16:20], identity[20:32]))


def hierarchy() -> Path:
    """Returns the mount point of the cgroup v2 hierarchy. Raises StalltopError if it is not mounted."""
    mount = layout().unified
    if mount is None:
        raise StalltopError("cgroup v2 is not mounted on this host", "mount -t cgroup2 none /sys/fs/cgroup")
    return mount.point


class Cgroups:
    """Makes cgroups. `close` kills the processes in them and removes them.

    The constructor also removes cgroups that killed demos have left. It raises StalltopError if cgroup v2 is
    not mounted.
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
        """Makes a new cgroup at ``path`` (below the root of the hierarchy), and its parents. Returns the
        directory of the cgroup.

        Raises StalltopError if the cgroup exists already or cannot be made.
        """
        place = self._root / path.lstrip("/")
        try:
            self._make(place)
        except OSError as error:
            raise StalltopError(
                f"cannot make the cgroup {place}: {error.strerror}", "start stalltop as root on the host"
            ) from error
        self._made.append(place)
        return place

    def remove(self, place: Path) -> None:
        """Kills all processes in the cgroup ``place``, which `make` has made, and removes the cgroup."""
        self._made.remove(place)
        kill_all(place)
        _remove(place)
        _remove_empty_parents(place)

    def close(self) -> None:
        """Kills all processes in the cgroups that `make` has made, and removes the cgroups. May be called
        twice."""
        made, self._made = self._made, []
        for place in made:
            kill_all(place)
        for place in made:
            _remove(place)
            _remove_empty_parents(place)

    def _make(self, place: Path) -> None:
        # Another demo may remove an empty parent before the directory below it is made. Then all of it is
        # tried again.
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
    # Linux before 5.14 has no cgroup.kill, so each process is killed by itself.
    for directory, _, _ in os.walk(place):
        for pid in _processes(Path(directory)):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def sweep(root: Path) -> int:
    """Removes the cgroups below ``root`` that have the attribute ``MARK`` and whose makers have ended. Kills
    the processes in those of them that are tenants' cgroups. Returns how many cgroups were removed."""
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
    # os.walk went from the root downwards, but children must be removed before their parents.
    for place in reversed(parents):
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
    """Returns whether the process that made this cgroup has ended.

    A maker in another PID namespace cannot be seen here. But its tenants end when it ends, and a running demo
    has processes in every tenant's cgroup. So such a cgroup counts as abandoned if it is empty and was last
    changed more than ``STARTED_SECONDS`` ago.
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
    """Removes empty parents of ``place`` that a demo has made. Stops at the first parent without the
    attribute ``MARK``, because that cgroup existed before the demo."""
    for parent in place.parents:
        try:
            os.getxattr(parent, MARK)
            parent.rmdir()
        except OSError:
            return
