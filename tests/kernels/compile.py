"""Compiles every variant of the programs into the cache, as a kernel in a guest asks for them there.

    STALLTOP_CACHE_DIR=FOLDER python -m tests.kernels.compile

What goes into them is the same for every kernel that has all members: nothing of it is of this host.
"""

from __future__ import annotations

import sys

from probes import host_events
from probes.host_parts import BLOCK_CGROUP, PARTS
from probes.preparing import prepare
from probes.recipes import tracing
from probes.task_offsets import TaskOffsets


def main() -> None:
    """Compile what is not in the cache yet."""
    of_tasks = list(TaskOffsets(*[0] * len(TaskOffsets.__slots__)).values())
    of_host = {
        host_events.value_name(struct, member)
        for members in (*(part.members for part in PARTS), BLOCK_CGROUP)
        for struct, names in members.items()
        for member in names
    }
    for recipe in (
        tracing(of_tasks, []),
        tracing([], []),
        host_events.recipe(PARTS, of_host),
    ):
        prepared = prepare(recipe)
        if prepared.complaint:
            sys.exit(prepared.complaint)


if __name__ == "__main__":
    main()
