"""Makes problems and alerts for tests."""

from __future__ import annotations

from dataclasses import replace

from stalltop.model.chain import Chain, Fix, Link, Severity
from stalltop.model.window import Window
from stalltop.serving.notify.alerts import ProblemAlert, alerts_of
from tests.windows.by_hand import window

NOW = 1_700_000_000.0


def problem(
    cause: str = "cpu_contention",
    tenant: str = "docker:aa",
    culprit: str | None = "cri:bb",
    *,
    process: str = "encode",
    pid: int = 21_741,
    severity: Severity = "high",
    lost: float = 516.0,
    since: float = NOW - 100.0,
    open_: bool = True,
) -> Chain:
    links = [Link("effect", "launches are slow", 1.0, lost * 1e6, tenant, depth=0)]
    if culprit is not None:
        links.append(Link("culprit", "has its CPU", 1.0, lost * 1e6, culprit, pid, process))
    return Chain(
        id=f"{cause}:{tenant}",
        cause=cause,
        title="CPU contention",
        severity=severity,
        summary="train waits for a CPU",
        tenant=tenant,
        pid=100,
        process="python3",
        layer="runtime",
        operation="cudaLaunchKernel",
        lost_ms_per_s=lost,
        confidence=0.93,
        links=tuple(links),
        fixes=(Fix("Move encode to other CPUs.", "taskset -cp 3 21741"),),
        since=since,
        seen=NOW,
        open=open_,
    )


def with_problems(*chains: Chain, end: float = NOW) -> Window:
    """Returns a window that ends at ``end``."""
    return replace(window(start=end - 1.0), chains=chains)


def alerts(*chains: Chain) -> tuple[ProblemAlert, ...]:
    return alerts_of(with_problems(*chains))
