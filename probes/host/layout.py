"""Declares the structs of ``bpf/host_layout.h`` for numpy."""

from __future__ import annotations

from typing import Final

import numpy as np

IO_KEY: Final = np.dtype(
    [("cgroup_id", "u8"), ("tgid", "u4"), ("device", "u4"), ("write", "u4"), ("reserved", "u4")]
)
"""``struct io_key``: process and cgroup of requests, their disk and their direction."""

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
"""``struct io``: sums over requests."""

USER: Final = np.dtype([("cgroup_id", "u8"), ("tgid", "u4"), ("reserved", "u4")])
"""``struct user``: a process in a cgroup."""

USE: Final = np.dtype(
    [("reclaims", "u8"), ("reclaim_ns", "u8"), ("forks", "u8"), ("execs", "u8"), ("exits", "u8")]
)
"""``struct use``: reclaims, forks, execs and exits of a process."""

SOCKET_KEY: Final = np.dtype([("inode", "u8"), ("family", "u4"), ("reserved", "u4")])
"""``struct socket_key``: a socket and its IP version."""

COUNT: Final = np.dtype([("count", "u8")])
"""A single counter."""

VICTIM_KEY: Final = np.dtype([("pid", "u4"), ("reserved", "u4")])
"""``struct victim_key``: the PID of an OOM victim."""

VICTIM: Final = np.dtype([("time_ns", "u8"), ("cgroup_id", "u8"), ("name", "S16")])
"""``struct victim``: when and in which cgroup the OOM killer chose a process."""
