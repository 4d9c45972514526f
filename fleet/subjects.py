"""The subjects of a fleet's messages, and the streams that keep them, as data (docs/fleet.md).

The first token of a subject, ``st1``, is the version of the subjects. Names of clusters, racks, hosts and
namespaces are tokens of a subject: characters that a token cannot have are written ``=XX``, the bytes of
their UTF-8 in hexadecimal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from stalltop.model.fleet.host_summary import HostAddress

VERSION: Final = "st1"
SUMMARY, NAMESPACE, WINDOW, PROBLEM, ROLLED, ASK = "sum", "ns", "win", "chain", "roll", "ask"
DIGEST, JOB = "dig", "job"
"""Digests for screens; requests among workers of ``stalltop rollup``."""
ALL: Final = "*"
"""Stands for every value of a token."""
INBOX: Final = "_INBOX."
"""How the subjects begin on which clients wait for answers."""
_PLAIN: Final = re.compile(r"[^A-Za-z0-9_-]")
_ESCAPED: Final = re.compile(r"((?:=[0-9A-F]{2})+)")
_MOST_TOKEN: Final = 256
"""Longest name in a subject, in characters of the token."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """A stream of JetStream: which messages it keeps, how many, and for how long."""

    name: str
    kind: str
    """Kind of the messages."""
    about: str
    storage: Literal["memory", "file"]
    max_age_seconds: float
    max_bytes: int
    per_subject: int = -1
    """Messages kept of each subject; -1: all."""
    duplicate_seconds: float = 0.0
    """For how long a message with an id that was there before is dropped; 0: never."""
    hub: bool = False
    """Whether a server beyond the racks has it. A stream there lets the messages of all racks come."""

    @property
    def subject(self) -> str:
        """The subjects of a server that has the whole fleet."""
        return every(self.kind)

    def subject_of(self, cluster: str, rack: str) -> str:
        """Returns the subjects of the server of a rack. It must have no others: a stream is interest, for
        which the servers of all other racks would send their messages here."""
        if self.kind == NAMESPACE:
            return ".".join((VERSION, NAMESPACE, token(cluster), ALL, token(rack), ">"))
        if self.kind.startswith(f"{ROLLED}."):
            return ".".join((VERSION, self.kind, token(cluster), token(rack)))
        return every(self.kind, cluster, rack)


STREAMS: Final = (
    StreamPlan(
        "ST1_SUM",
        SUMMARY,
        "the last summary of each host: what a screen shows at once when it joins",
        "memory",
        # The last message of a host that ended would stay, while the sequence numbers after it are deleted:
        # a gap that grows, and slows nats-server down. So messages have a greatest age.
        30.0,
        256 << 20,
        per_subject=1,
        hub=True,
    ),
    StreamPlan(
        "ST1_NS",
        NAMESPACE,
        "the last summary of each host and namespace: the part that its members may see",
        "memory",
        30.0,
        512 << 20,
        per_subject=1,
        hub=True,
    ),
    StreamPlan(
        "ST1_WIN",
        WINDOW,
        "the windows of each host, with their histograms: the past of a host, and what is rolled up",
        "file",
        3600.0,
        8 << 30,
        duplicate_seconds=120.0,
    ),
    StreamPlan(
        "ST1_CHAIN",
        PROBLEM,
        "problems when they open, change and close",
        "file",
        30 * 86_400.0,
        4 << 30,
        duplicate_seconds=120.0,
    ),
    StreamPlan(
        "ST1_ROLL_10S",
        f"{ROLLED}.10s",
        "windows of a rack merged, 10 s each",
        "file",
        12 * 3600.0,
        8 << 30,
    ),
    StreamPlan(
        "ST1_ROLL_1M",
        f"{ROLLED}.1m",
        "windows of a rack merged, 1 min each",
        "file",
        14 * 86_400.0,
        16 << 30,
    ),
)
"""Every stream. Streams that exist are left as they are: an operator may give them other limits."""
BY_NAME: Final = {stream.name: stream for stream in STREAMS}


def token(name: str) -> str:
    """Returns ``name`` as a token of a subject; ``=`` for an empty name."""
    return _PLAIN.sub(lambda one: "".join(f"={byte:02X}" for byte in one[0].encode()), name) or "="


def name_in(token: str) -> str:
    """Returns the name that ``token`` stands for. Raises ValueError if it is no such token."""
    if len(token) > _MOST_TOKEN:
        raise ValueError("a name in the subject is too long")
    if token == "=":
        return ""
    try:
        name = _ESCAPED.sub(lambda one: bytes.fromhex(one[0].replace("=", "")).decode(), token)
    except UnicodeDecodeError:
        raise ValueError("a name in the subject is not UTF-8") from None
    if not name.isprintable():
        raise ValueError("a name in the subject is not printable")
    return name


def of_host(kind: str, address: HostAddress) -> str:
    """Returns the subject of messages of ``kind`` (SUMMARY, WINDOW, PROBLEM) of a host."""
    return ".".join((VERSION, kind, *map(token, address)))


def of_namespace(address: HostAddress, namespace: str) -> str:
    """Returns the subject of the part of a host's summary that ``namespace`` may see. The rack is left out:
    permissions name the cluster and the namespace."""
    names = address.cluster, namespace, address.rack, address.host
    return ".".join((VERSION, NAMESPACE, *map(token, names)))


def asking(address: HostAddress) -> str:
    """Returns the subject of requests to a host."""
    return of_host(ASK, address)


def rolled(tier: str, cluster: str, rack: str) -> str:
    """Returns the subject of merged windows of a rack. ``tier`` is ``10s`` or ``1m``."""
    return ".".join((VERSION, ROLLED, tier, token(cluster), token(rack)))


def every(kind: str, cluster: str = "", rack: str = "") -> str:
    """Returns the subjects of all messages of ``kind``; of one cluster or rack if they are given."""
    if not cluster:
        return f"{VERSION}.{kind}.>"
    return ".".join((VERSION, kind, token(cluster), *([token(rack)] if rack else []), ">"))


def every_of_namespace(namespace: str, cluster: str = "") -> str:
    """Returns the subjects of what ``namespace`` may see, in all clusters or in one."""
    return ".".join((VERSION, NAMESPACE, token(cluster) if cluster else ALL, token(namespace), ">"))


def address_in(subject: str) -> HostAddress:
    """Returns the host of a message with this subject. Raises ValueError if the subject names none."""
    parts = subject.split(".")
    if len(parts) == 6 and parts[:2] == [VERSION, NAMESPACE]:
        cluster, _, rack, host = map(name_in, parts[2:])
        return HostAddress(cluster, rack, host)
    if len(parts) != 5 or parts[0] != VERSION:
        raise ValueError(f"{subject[:80]!r} is not the subject of a host")
    return HostAddress(*map(name_in, parts[2:]))
