"""Compiles the programs before anybody needs them, or tells whether that was done.

    python -m probes.precompile            compile what is not kept yet, for any kernel of this architecture
    python -m probes.precompile --kept     end with 0 where the next start needs no compiler, else with 1

Packages and images run the first with ``STALLTOP_CACHE_DIR=bpf/compiled``; the launcher asks the second where
there is no BCC.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from model.errors import CannotTrace
from probes import program_cache
from probes.host_events import recipe, value_name
from probes.host_parts import BLOCK_CGROUP, PARTS
from probes.preparing import prepare
from probes.programs import pid_namespace
from probes.recipes import Recipe, tracing
from probes.task_offsets import TaskOffsets

OF_TASKS = list(TaskOffsets(*[0] * len(TaskOffsets.__slots__)).values())


def recipes() -> Iterator[Recipe]:
    """Of what counts, for kernels that tell their types and for those that do not, and of the host part."""
    yield tracing(OF_TASKS, [])
    yield tracing([], [])
    members = [*(part.members for part in PARTS), BLOCK_CGROUP]
    named = {
        value_name(struct, one) for structs in members for struct, names in structs.items() for one in names
    }
    yield recipe(PARTS, named)


def is_kept() -> bool:
    """Whether this host's next start needs no compiler."""
    try:
        return program_cache.find(tracing(OF_TASKS, list(pid_namespace()))) is not None
    except program_cache.Unusable:
        return False


def main(arguments: list[str]) -> int:
    """Do what is asked for; returns the exit code."""
    if arguments == ["--kept"]:
        return not is_kept()
    if arguments:
        print(__doc__, file=sys.stderr)  # noqa: T201
        return 2
    try:
        for recipe in recipes():
            if complaint := prepare(recipe).complaint:
                print(f"precompile: {complaint}", file=sys.stderr)  # noqa: T201
                return 1
    except CannotTrace as reason:
        print(f"precompile: {reason}", file=sys.stderr)  # noqa: T201
        return reason.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
