"""Identifies the tenant of a cgroup from the cgroup's path. One table has the patterns of runtimes and
schedulers.

A path may match several patterns (a container inside a Slurm step inside a session). Containers, pods and
jobs take precedence over units and sessions. Of matches with the same precedence, the deepest wins: of nested
containers, the inner one is the tenant. Paths are as in ``/proc/PID/cgroup``, of cgroup v1 or v2.

Below the slice of a user, that user can make cgroups of any name. So a container there belongs to that user,
whatever its id. Patterns of what only root runs (pods, Slurm's jobs, ECS) are ignored there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from stalltop.model.tenant import Kind
from stalltop.model.text.clean import clean

SHORT_ID = 12
"""Number of characters of a container's id that are shown, as in ``docker ps``."""


USERS = "user:"
"""Prefix of the ids of tenants below the slice of a user, whatever names their cgroups have."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The tenant that one path identifies. Fields are those of `model.tenant.Tenant`; ``uid`` is the user id
    if the path contains one, else None."""

    id: str
    name: str
    kind: Kind
    runtime: str
    container_id: str = ""
    pod: str = ""
    uid: int | None = None
    cgroup_path: str = ""
    """The tenant's own cgroup: the path up to the end of the match."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One row of the table. ``regex`` is searched anywhere in the path. ``build`` makes an Identity from a
    match."""

    name: str
    regex: re.Pattern[str]
    build: Callable[[re.Match[str]], Identity]


_END = r"(?=/|$)"
_HEX = r"(?P<id>[0-9a-f]{64})"
_UID = r"(?:[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"

KUBERNETES_POD = re.compile(rf"/[^/]*kubepods[^:]*?[/-]pod(?P<pod>{_UID})(?:\.slice)?(?=[/:]|$)")
"""Matches a pod, by its UID (a hash for static pods), in any QoS class and with either cgroup driver."""
PODMAN_POD = re.compile(r"/[^/]*libpod_pod_(?P<pod>[0-9a-f]{64})(?:\.slice)?" + _END)
ECS_TASK = re.compile(
    r"/(?:ecs|(?i:ecstasks)\.slice)(?:/[^/]+?)??[/-](?P<pod>[0-9a-f-]{32,36})(?:\.slice)?" + _END
)

_USER_SLICE = re.compile(r"/user-(?P<uid>\d+)\.slice/")
_ROOTS_OWN = ("kubernetes", "slurm", "ecs")
"""Runtimes that only root runs."""


def unescape_unit(name: str) -> str:
    r"""Returns the name of a systemd unit as people write it: ``\x2d`` becomes a hyphen."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), name)


def _container(runtime: str) -> Callable[[re.Match[str]], Identity]:
    def build(match: re.Match[str]) -> Identity:
        full = clean(match["id"])
        short = full[:SHORT_ID] if re.fullmatch("[0-9a-f]{64}", full) else full
        return Identity(f"{runtime or 'container'}:{full}", short, "container", runtime, container_id=full)

    return build


def _pod(match: re.Match[str]) -> Identity:
    uid = match["pod"].replace("_", "-")
    return Identity(f"kubernetes:{uid}", uid, "pod", "kubernetes", pod=uid)


def _slurm(match: re.Match[str]) -> Identity:
    return slurm_job(match["job"], clean(match["step"] or ""), int(match["uid"]) if match["uid"] else None)


def slurm_job(job: str, step: str, uid: int | None) -> Identity:
    """Returns the identity of a step of a Slurm job, or of the job itself (``step`` is '')."""
    if not step:
        return Identity(f"slurm:job_{job}", f"job {job}", "job", "slurm", uid=uid)
    return Identity(f"slurm:job_{job}/step_{step}", f"job {job}.{step}", "job", "slurm", uid=uid)


def _unit(match: re.Match[str]) -> Identity:
    unit = clean(unescape_unit(match["unit"]))
    return Identity(f"systemd:{unit}", unit.removesuffix(".service"), "unit", "systemd")


def _user_unit(match: re.Match[str]) -> Identity:
    uid, unit = match["uid"], clean(unescape_unit(match["unit"]))
    return Identity(f"user:{uid}/{unit}", unit.removesuffix(".service"), "unit", "user", uid=int(uid))


def _session(match: re.Match[str]) -> Identity:
    uid, session = match["uid"], clean(match["session"])
    return Identity(f"user:{uid}/session-{session}", f"session {session}", "session", "user", uid=int(uid))


def _user(match: re.Match[str]) -> Identity:
    return Identity(f"user:{match['uid']}", "", "session", "user", uid=int(match["uid"]))


def _row(name: str, regex: str, build: Callable[[re.Match[str]], Identity]) -> Pattern:
    return Pattern(name, re.compile(regex), build)


PATTERNS: tuple[Pattern, ...] = (
    # Of two matches with the same depth, the one of the earlier row wins. So special patterns come before
    # general ones.
    _row(
        "ECS, systemd driver",
        rf"/(?i:ecstasks)-[0-9a-f-]{{32,36}}\.slice/docker-{_HEX}\.scope{_END}",
        _container("ecs"),
    ),
    _row("Docker, systemd driver", rf"/docker-{_HEX}\.scope{_END}", _container("docker")),
    _row("Docker, cgroupfs driver", rf"/docker/{_HEX}{_END}", _container("docker")),
    _row("containerd CRI, systemd driver", rf"/cri-containerd-{_HEX}\.scope{_END}", _container("containerd")),
    _row("containerd CRI, prefixed", rf":cri-containerd:{_HEX}{_END}", _container("containerd")),
    _row("nerdctl", rf"/nerdctl-{_HEX}\.scope{_END}", _container("containerd")),
    # `crio-conmon-` and `libpod-conmon-` do not match: these cgroups hold the monitor process of a container.
    _row("CRI-O", rf"/crio-{_HEX}(?:\.scope)?{_END}", _container("cri-o")),
    _row("Podman", rf"/libpod-(?:payload-)?{_HEX}(?:\.scope)?{_END}", _container("podman")),
    _row("ECS", rf"/ecs/(?:[^/]+/)?[0-9a-f-]{{32,36}}/{_HEX}{_END}", _container("ecs")),
    _row(
        "ECS, numbered container",
        rf"/ecs/(?:[^/]+/)?(?P<task>[0-9a-f-]{{32,36}})/(?P<id>(?P=task)-\d+){_END}",
        _container("ecs"),
    ),
    _row(
        "Kubernetes container, cgroupfs driver",
        rf"[/-]pod{_UID}(?:\.slice)?/{_HEX}{_END}",
        _container("kubernetes"),
    ),
    _row("container under a parent of its own", rf"/{_HEX}(?:\.scope)?{_END}", _container("")),
    _row("Kubernetes pod", KUBERNETES_POD.pattern, _pod),
    _row("LXC, Incus", rf"/lxc(?:/|\.payload[./])(?P<id>[^/]+){_END}", _container("lxc")),
    _row(
        "systemd-nspawn",
        rf"/machine\.slice/systemd-nspawn@(?P<id>[^/]+)\.service{_END}",
        _container("systemd"),
    ),
    _row(
        "Slurm",
        r"/(?:slurm(?:_[^/]+)?/uid_(?P<uid>\d+)|(?:[^/]+_)?slurmstepd\.scope)"
        rf"/job_(?P<job>\d+)(?:/step_(?P<step>[^/]+))?{_END}",
        _slurm,
    ),
    _row("login session", rf"/user-(?P<uid>\d+)\.slice/session-(?P<session>[^/]+)\.scope{_END}", _session),
    _row(
        "user manager",
        rf"/user-(?P<uid>\d+)\.slice(?:$|/user@\d+\.service(?:/init\.scope)?{_END})",
        _user,
    ),
    _row(
        "user's unit",
        rf"/user-(?P<uid>\d+)\.slice/user@\d+\.service/(?:[^/]+/)*(?P<unit>[^/]+\.(?:service|scope)){_END}",
        _user_unit,
    ),
    _row("systemd unit", rf"/(?P<unit>[^/]+\.(?:service|scope)){_END}", _unit),
)

_RANK: dict[Kind, int] = {"container": 2, "pod": 2, "job": 2}
_Place = tuple[int, int, int]
"""Sort key of matches: rank of the kind, depth in the path, and negative number of the row."""


def parse(path: str) -> Identity | None:
    """Returns the tenant of the cgroup at ``path``; None if no pattern matches. ``path`` may be any
    string."""
    found = _best(path)
    return found[1] if found else None


def parse_best(paths: Iterable[str]) -> Identity | None:
    """Returns the tenant that several paths of one process identify together. cgroup v1 has one path for each
    controller."""
    found = [best for path in paths if (best := _best(path))]
    return max(found, key=lambda best: best[0])[1] if found else None


@lru_cache(1024)
def _best(path: str) -> tuple[_Place, Identity] | None:
    found: list[tuple[_Place, Identity, re.Match[str]]] = []
    for row, pattern in enumerate(PATTERNS):
        for match in pattern.regex.finditer(path):
            identity = pattern.build(match)
            if identity.runtime in _ROOTS_OWN and _user_above(path, match):
                continue
            place = (_RANK.get(identity.kind, 1), path.count("/", 0, match.end()), -row)
            found.append((place, identity, match))
    if not found:
        return None
    place, identity, match = max(found, key=lambda candidate: candidate[0])
    if identity.kind == "container":
        uid = _user_above(path, match)
        identity = replace(
            identity,
            id=f"{USERS}{uid}/{identity.id}" if uid else identity.id,
            pod=_pod_around(path, match),
            uid=uid,
        )
    return place, replace(identity, cgroup_path=path[: match.end()])


def _user_above(path: str, match: re.Match[str]) -> int | None:
    """Returns the user, other than root, whose slice contains the match; None if there is none."""
    user = _USER_SLICE.search(path, 0, match.start() + 1)
    return int(user["uid"]) or None if user else None


def _pod_around(path: str, match: re.Match[str]) -> str:
    told_by = (PODMAN_POD,) if _user_above(path, match) else (KUBERNETES_POD, PODMAN_POD, ECS_TASK)
    pods = [pod for regex in told_by for pod in regex.finditer(path) if pod.end("pod") <= match.end()]
    return max(pods, key=lambda pod: pod.end())["pod"].replace("_", "-") if pods else ""
