"""Compiles the BPF programs in advance, or checks whether they are compiled.

    python -m stalltop.probes.precompile           compile what is not cached, for all Linux kernels
    python -m stalltop.probes.precompile --kept    exit 0 if the next start needs no compiler, else 1

Packages and images run the first command with ``STALLTOP_CACHE_DIR=bpf/compiled``; the launcher runs the
second one if BCC is missing.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Final

from stalltop.model.errors import TracingError
from stalltop.probes.host.events import recipe, value_name
from stalltop.probes.host.parts import BLOCK_CGROUP, PARTS
from stalltop.probes.programs import cache as program_cache
from stalltop.probes.programs.loading import pid_namespace
from stalltop.probes.programs.preparing import prepare
from stalltop.probes.programs.recipes import Recipe, tracing
from stalltop.probes.programs.task_offsets import BTF, TaskOffsets

OF_TASKS: Final = tuple(TaskOffsets(*[0] * len(TaskOffsets.__slots__)).values())
OF_NAMESPACE: Final = ("PID_NAMESPACE", "PID_NAMESPACE_DEVICE")
RELEASES: Final = ("5.15", "7.0")
"""Two Linux releases, one before and one after 5.18. Only this difference between releases changes the
programs (``recipes.ordering``)."""


def recipes() -> Iterator[Recipe]:
    """Yields every variant of the programs: with and without a PID namespace, for Linux kernels with and
    without BTF types."""
    for namespace in ((), OF_NAMESPACE):
        for release in RELEASES:
            yield tracing(OF_TASKS, namespace, release)
            yield tracing((), namespace, release)
        yield _of_host(namespace)


def is_kept() -> bool:
    """Returns whether the next start on this host needs no compiler."""
    namespace = tuple(pid_namespace())
    task = OF_TASKS if BTF.exists() else ()
    with contextlib.suppress(program_cache.CacheFileError):
        return all(program_cache.find(recipe) for recipe in (tracing(task, namespace), _of_host(namespace)))
    return False


def _of_host(namespace: Iterable[str]) -> Recipe:
    members = [*(part.members for part in PARTS), BLOCK_CGROUP]
    named = [(struct, name) for structs in members for struct, names in structs.items() for name in names]
    return recipe(PARTS, {*namespace, *(value_name(struct, name) for struct, name in named)})


def main(arguments: list[str]) -> int:
    """Runs the command; returns the exit code."""
    if arguments == ["--kept"]:
        return not is_kept()
    if arguments:
        print(__doc__, file=sys.stderr)  # noqa: T201
        return 2
    try:
        for one in {one.key(): one for one in recipes()}.values():
            if complaint := prepare(one).complaint:
                print(f"precompile: {complaint}", file=sys.stderr)  # noqa: T201
                return 1
    except TracingError as reason:
        print(f"precompile: {reason}", file=sys.stderr)  # noqa: T201
        return reason.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
