"""Lists the parts of ``bpf/host.c``, each with the figures that it measures and the struct members and
tracepoints that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from stalltop.probes.host import layout as host_layout


@dataclass(frozen=True, slots=True)
class Part:
    """One part of ``bpf/host.c``."""

    what: str
    """The figures that this part measures, in a few words."""
    flag: str
    """Macro that includes this part in the build."""
    members: Mapping[str, tuple[str, ...]]
    """By struct of the Linux kernel: its members that this part reads."""
    programs: Mapping[str, tuple[str, ...]]
    """BPF programs of this part, each with its tracepoints."""
    maps: Mapping[str, tuple[np.dtype[np.void], np.dtype[np.void]]] = field(default_factory=dict)
    """BPF hash maps of this part, with the dtypes of keys and values."""


MADE_CGROUPS: Final = "made_cgroups"
"""Name of the map of paths of new cgroups, which is read apart from the others."""
CGROUP_ID: Final = np.dtype([("cgroup_id", "u8")])
"""Map key that consists of the id of a cgroup."""
COUNT: Final = np.dtype([("count", "u8")])
"""Map value that consists of one counter."""
_USES: Final = {"use_of": (host_layout.USER, host_layout.USE)}
_TO_CGROUP_ID: Final = {"cgroup": ("kn",), "kernfs_node": ("id",)}

PARTS: Final = (
    Part(
        "block I/O",
        "WITH_BLOCK",
        {
            "request": ("q", "bio", "__data_len", "cmd_flags"),
            "request_queue": ("disk",),
            "gendisk": ("major", "first_minor"),
            "bio": ("bi_private",),
            "task_struct": ("flags",),
        },
        {
            "bio_queued": ("block_bio_queue",),
            "request_issued": ("block_rq_issue",),
            "request_done": ("block_rq_complete",),
        },
        {"io_of": (host_layout.IO_KEY, host_layout.IO)},
    ),
    Part(
        "direct reclaim of memory",
        "WITH_RECLAIM",
        {},
        {
            "reclaim_begins": ("mm_vmscan_direct_reclaim_begin", "mm_vmscan_memcg_reclaim_begin"),
            "reclaim_ends": ("mm_vmscan_direct_reclaim_end", "mm_vmscan_memcg_reclaim_end"),
        },
        _USES,
    ),
    Part(
        "kills for lack of memory",
        "WITH_VICTIMS",
        {"task_struct": ("tgid", "comm", "cgroups"), "css_set": ("dfl_cgrp",), **_TO_CGROUP_ID},
        {"victim_marked": ("mark_victim",)},
        {"victims": (host_layout.VICTIM_KEY, host_layout.VICTIM)},
    ),
    Part(
        "retransmitted TCP segments",
        "WITH_SOCKETS",
        {
            "sock": ("__sk_common", "sk_socket"),
            "sock_common": ("skc_family", "skc_v6_daddr"),
            "socket_alloc": ("vfs_inode",),
            "inode": ("i_ino",),
        },
        {"segment_sent_again": ("tcp_retransmit_skb",)},
        {"retransmits_of": (host_layout.SOCKET_KEY, COUNT)},
    ),
    Part(
        "beginnings and ends of processes",
        "WITH_LIVES",
        {"task_struct": ("pid", "tgid", "real_parent")},
        {
            "process_forked": ("sched_process_fork",),
            "program_started": ("sched_process_exec",),
            "process_ended": ("sched_process_exit",),
        },
        _USES,
    ),
    Part(
        "who stops processes",
        "WITH_STOPS",
        {"task_struct": ("tgid", "flags"), **_TO_CGROUP_ID},
        {"signal_sent": ("signal_generate",), "cgroup_frozen": ("cgroup_freeze",)},
        {"stops": (host_layout.STOP_KEY, host_layout.STOP)},
    ),
    Part(
        "names of containers that end within a second",
        "WITH_CGROUPS",
        {"cgroup": ("kn", "root"), "kernfs_node": ("id",), "cgroup_root": ("hierarchy_id",)},
        {"cgroup_made": ("cgroup_mkdir",)},
        {MADE_CGROUPS: (CGROUP_ID, host_layout.CGROUP_PATH)},
    ),
)

BLOCK_CGROUP: Final = {
    "bio": ("bi_blkg",),
    "blkcg_gq": ("blkcg",),
    "blkcg": ("css",),
    "cgroup_subsys_state": ("cgroup",),
    **_TO_CGROUP_ID,
}
"""Struct members that lead from a request to the cgroup for which a kernel thread submitted it. If the Linux
kernel lacks them, block I/O is measured without these cgroups."""
