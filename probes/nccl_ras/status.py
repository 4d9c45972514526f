"""Parses what NCCL's RAS answers to ``STATUS`` in JSON (NCCL 2.28.7 and later; docs.nvidia.com/deeplearning/
nccl/user-guide, "RAS"). The job's own processes write it: nothing in it is trusted."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Final, NamedTuple

MOST_BYTES: Final = 8 << 20
"""Longest answer that is read, in bytes: some 600 bytes a rank."""
RECEIVE_SECONDS: Final = 1.0
"""Maximum time for receiving an answer once its first bytes are there, s. RAS writes it at once."""
COLLECTIVES: Final = frozenset(
    ("AllGather", "AllReduce", "AlltoAll", "Broadcast", "Gather", "Reduce", "ReduceScatter", "Scatter")
)
"""Counts that are of collectives; others are of sends and receives."""
_MOST_RANKS: Final = 1 << 20


class RasRank(NamedTuple):
    """One rank of a communicator."""

    rank: int
    host: str
    """IP address."""
    pid: int
    """Process id in the PID namespace of the process."""
    collectives: int
    """Collectives that it has begun since the communicator was made."""


class RasCommunicator(NamedTuple):
    """One communicator."""

    hash: int
    """NCCL's hash of it, as in its logs."""
    size: int
    """Number of its ranks."""
    ranks: tuple[RasRank, ...]
    """The ranks that have answered."""


def received_status(connection: int) -> tuple[RasCommunicator, ...]:
    """Returns the communicators in the answer that comes over the descriptor ``connection``, until the other
    end closes it. Raises ValueError if that is no answer or takes too long, and OSError.

    Only reads: the confined process, which may do nothing else with a connection, can call this.
    """
    until = time.monotonic() + RECEIVE_SECONDS
    text = bytearray()
    while data := os.read(connection, 1 << 16):
        text += data
        if len(text) > MOST_BYTES or time.monotonic() > until:
            raise ValueError("it is too long")
    return read_status(bytes(text))


def read_status(text: bytes) -> tuple[RasCommunicator, ...]:
    """Returns the communicators in an answer. Raises ValueError if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {str(error)[:80]}") from None
    communicators = _list(_dict(found).get("communicators"))
    return tuple(_communicator(_dict(one)) for one in communicators)


def _communicator(plain: dict[str, Any]) -> RasCommunicator:
    text, size = plain.get("hash"), _whole(plain.get("size"))
    if not isinstance(text, str) or len(text) > 18 or not text.startswith("0x"):
        raise ValueError("a communicator without a hash")
    if not 0 < size <= _MOST_RANKS:
        raise ValueError("a communicator of no size")
    ranks = tuple(_rank(_dict(one)) for one in _list(plain.get("ranks")))
    if any(rank.rank >= size for rank in ranks):
        raise ValueError("a rank that its communicator cannot have")
    return RasCommunicator(int(text, 16), size, ranks)


def _rank(plain: dict[str, Any]) -> RasRank:
    counts = _dict(plain.get("collective_counts"))
    collectives = sum(_whole(count) for name, count in counts.items() if name in COLLECTIVES)
    host = plain.get("host")
    pid = plain.get("pid")
    if not isinstance(host, str) or type(pid) is not int:
        raise ValueError("a rank without a host or a process")
    return RasRank(_whole(plain.get("rank")), host[:64], pid, collectives)


def _dict(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("an object is missing")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list) or len(value) > _MOST_RANKS:
        raise ValueError("a list is missing, or too long")
    return value


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ValueError("a count is missing, or out of range")
    return value
