"""Lists all faults: importing this module registers them."""

from __future__ import annotations

from typing import Final

from bench.faults.callers import cuda, devices, host, loaders, ranks
from bench.faults.real import checkpoints, interpreters, jobs, servers
from bench.faults.real import loaders as real_loaders
from bench.faults.stage.fault import FAULTS

GROUPS: Final = {
    name: tuple(cause for cause, one in FAULTS.items() if one.script.__module__ in modules)
    for name, modules in {
        "host": (host.__name__, loaders.__name__),
        "programs": (cuda.__name__, ranks.__name__),
        "devices": (devices.__name__,),
        "real": (
            real_loaders.__name__,
            interpreters.__name__,
            checkpoints.__name__,
            servers.__name__,
            jobs.__name__,
        ),
    }.items()
}
"""Names of the faults in each group. The groups are faults of the host (with those of data loading), of
programs' use of CUDA and NCCL, of devices, and of programs that use public packages."""
