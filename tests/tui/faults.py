"""Makes windows with chains (problems), for tests of the screen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stalltop.model.chain import Chain, Fix, Link
from stalltop.model.evidence import HOST_GAP, HOST_LAYER
from stalltop.model.row_key import RowKey
from stalltop.model.window import OpenCall, Window
from tests.windows.by_hand import Calls, key, window

GAP = RowKey("gpu7", "docker:aa", 100, "python3", HOST_LAYER, HOST_GAP)
LAUNCH = RowKey("gpu7", "docker:aa", 100, "python3", "runtime", "cudaLaunchKernel")
REDUCE = RowKey("gpu7", "cri:bb", 200, "tritonserver", "nccl", "ncclAllReduce")


def chain(name: str, row: RowKey = LAUNCH, **rest: Any) -> Chain:
    """Return an open chain about ``row``; the cause, title and summary of the chain contain ``name``."""
    made = Chain(
        id=f"{name}/{row.tenant}",
        cause=name,
        title=f"title of {name}",
        severity="medium",
        summary=f"summary of {name}",
        tenant=row.tenant,
        pid=row.pid,
        process=row.process,
        layer=row.layer,
        operation=row.operation,
        lost_ms_per_s=12.0,
        confidence=0.8,
        links=(Link("effect", f"{row.operation} is slow", None, 13e6, row.tenant, row.pid, depth=0),),
        fixes=(),
        rows=(row,),
        since=990.0,
        seen=1_001.0,
    )
    return replace(made, **rest)


STARVED = chain(
    "loader_disk",
    GAP,
    severity="high",
    lost_ms_per_s=412.0,
    since=980.0,
    links=(
        Link("effect", "time between calls", None, 500e6, "docker:aa", 100, "python3", depth=0),
        Link("mechanism", "waits for a worker", 0.9, 450e6, "docker:aa", 100, "python3"),
        Link("reason", "the worker waits for a disk", 0.85, 425e6, "docker:aa", 101, "loader", "sda", 2),
        Link("culprit", "serve loads the disk", 0.8, 400e6, "cri:bb", 201, "dd", "sda", 3),
        Link("mechanism", "waits for a CPU", 0.05, 25e6, "docker:aa", 100, "python3"),
        Link("factor", "one worker only"),
    ),
    fixes=(Fix("use more workers"), Fix("slow dd down", "ionice -c 3 -p 201")),
    unknown=("what dd reads",),
    rows=(GAP, LAUNCH),
)
STORM = chain("sync_storm", LAUNCH)
LATE = chain("nccl_straggler", REDUCE, severity="critical", lost_ms_per_s=900.0, since=995.0)
OVER = chain("reclaim", REDUCE, severity="critical", open=False, since=900.0, seen=950.0)


def faulty(*chains: Chain, number: int = 0, calls: tuple[OpenCall, ...] = ()) -> Window:
    """Return a window of two tenants, the ``number``-th after the start, that contains ``chains`` and
    ``calls``."""
    made = window(
        [Calls(GAP, [80_000_000]), Calls(key(), [4_000, 5_000]), Calls(REDUCE, [45_000])],
        split=True,
        start=1_000.0 + number,
    )
    return replace(made, chains=chains, open_calls=calls)
