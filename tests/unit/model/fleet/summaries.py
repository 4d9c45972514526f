"""Makes summaries of hosts by hand."""

from __future__ import annotations

from typing import Any

from stalltop.model.fleet.host_summary import HostAddress, HostSummary, ProblemSummary, RankSummary

NOW = 1_800_000_000.0


def at(host: str, rack: str = "r1", cluster: str = "prod") -> HostAddress:
    return HostAddress(cluster, rack, host)


def problem(cause: str = "slow_disk", lost: float = 100.0, **more: Any) -> ProblemSummary:
    values: dict[str, Any] = {
        "id": f"{cause}/train",
        "cause": cause,
        "severity": "high",
        "title": "Slow disk",
        "namespace": "ml",
        "victim": "train",
        "process": "python3",
        "operation": "cudaLaunchKernel",
        "culprit_namespace": "",
        "culprit": "storage-backup",
        "device": "nvme0n1",
        "lost_ms_per_s": lost,
        "since": NOW - 30,
        "summary": "train waits for its disk: storage-backup reads",
        "fix": "ionice -c 3 -p 4711",
    }
    return ProblemSummary(**values | more)


def summary(*problems: ProblemSummary, end: float = NOW, **more: Any) -> HostSummary:
    lost = sum(one.lost_ms_per_s for one in problems)
    values: dict[str, Any] = {"problems": problems, "problems_in_all": len(problems), "lost_ms_per_s": lost}
    return HostSummary(end, 1.0, **values | {"program": "0.1.0"} | more)


def rank(number: int, entered: int, since: float = 10.0, communicator: str = "c0ffee") -> RankSummary:
    return RankSummary(
        communicator, number, 4, "ml", "train", 100 + number, "python3", entered, round(since * 1e9)
    )
