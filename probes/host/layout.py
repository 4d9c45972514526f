"""Structs, enums and constants of ``bpf/host/layout.h``, for numpy.

``scripts/write_layout.py`` writes this file: change the header, not this.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

HOST_ENTRIES: Final = 8192
"""Number of elements of each hash."""

IO_KEY: Final = np.dtype(
    [
        ("cgroup_id", "u8"),
        ("tgid", "u4"),
        ("device", "u4"),
        ("write", "u4"),
        ("reserved", "u4"),
    ]
)
"""``struct io_key``: Identifies who submitted requests, to which disk, and in which direction."""

IO: Final = np.dtype(
    [
        ("requests", "u8"),
        ("bytes", "u8"),
        ("queued_ns", "u8"),
        ("service_ns", "u8"),
        ("max_ns", "u8"),
        ("idle_ns", "u8"),
    ]
)
"""``struct io``: The completed requests of one struct io_key."""

USER: Final = np.dtype(
    [
        ("cgroup_id", "u8"),
        ("tgid", "u4"),
        ("reserved", "u4"),
    ]
)
"""``struct user``: A process in a cgroup."""

USE: Final = np.dtype(
    [
        ("reclaims", "u8"),
        ("reclaim_ns", "u8"),
        ("forks", "u8"),
        ("execs", "u8"),
        ("exits", "u8"),
    ]
)
"""``struct use``: Events of the processes of one struct user."""

SOCKET_KEY: Final = np.dtype(
    [
        ("inode", "u8"),
        ("family", "u4"),
        ("reserved", "u4"),
    ]
)
"""``struct socket_key``: A socket."""

VICTIM_KEY: Final = np.dtype(
    [
        ("pid", "u4"),
        ("reserved", "u4"),
    ]
)
"""``struct victim_key``: A process that was killed for lack of memory."""

VICTIM: Final = np.dtype(
    [
        ("time_ns", "u8"),
        ("cgroup_id", "u8"),
        ("name", "S16"),
    ]
)
"""``struct victim``: Facts about a process that was killed for lack of memory."""

STOP_KEY: Final = np.dtype(
    [
        ("cgroup_id", "u8"),
        ("tgid", "u4"),
        ("reserved", "u4"),
    ]
)
"""``struct stop_key``: Identifies what was stopped: a process by a signal, or a cgroup (v2) by its
freezer."""

STOP: Final = np.dtype(
    [
        ("time_ns", "u8"),
        ("cgroup_id", "u8"),
        ("tgid", "u4"),
        ("signal", "u4"),
        ("name", "S16"),
    ]
)
"""``struct stop``: The process that last stopped a process or a cgroup."""

CGROUP_PATH: Final = np.dtype(
    [
        ("text", "S384"),
    ]
)
"""``struct cgroup_path``: Where a cgroup of v2 is, as in /proc/PID/cgroup. Those of pods have some
200 characters."""


class HostLoss(IntEnum):
    """``enum host_loss``: What `lost` counts."""

    HOST_DROPPED = 0
    HOST_FORGOTTEN = 1
    HOST_ACTIVE = 2
    HOST_LOSSES = 3
