"""Tests when OOM kills are reported, and whom they blame."""

from __future__ import annotations

from typing import Any

import pytest

from stalltop.diagnosis.engine import explain
from stalltop.model.evidence import TenantUse
from tests.unit.diagnosis.faults import faults, oom_kill, plus, replace_evidence
from tests.windows.evidence import BATCH, window


@pytest.mark.parametrize(
    ("use", "said", "raises"),
    [
        ({}, "trainer reached its memory limit of 96 MiB", True),
        ({"memory_version": 1}, "trainer reached its memory limit of 96 MiB", True),
        ({"limit_kills": 0}, "trainer reached its memory limit of 96 MiB", True),
        ({"limit_kills": 0, "limit_hits": 0}, "did not reach its own limit", False),
        ({"limit_kills": 0, "limit_hits": 0, "memory_limit_bytes": None}, "has no memory limit", False),
        (
            {"limit_kills": 0, "limit_hits": 0, "memory_limit_bytes": None, "memory_used_bytes": None},
            "memory ran out",
            False,
        ),
    ],
    ids=["limit killed", "version 1", "limit met", "limit not met", "no limit", "nothing known"],
)
def test_a_kill_is_blamed_on_a_limit_only_if_the_limit_was_met(
    use: dict[str, Any], said: str, raises: bool
) -> None:
    made = oom_kill()
    (chain,) = faults(explain(replace_evidence(made, events=made.evidence.events, **use)))
    assert said in chain.culprits[0].text
    assert any("--memory" in fix.command for fix in chain.fixes) is raises
    assert bool(chain.unknown) is bool(use)


def test_a_host_out_of_memory_names_the_largest_users() -> None:
    made = replace_evidence(
        oom_kill(), events=oom_kill().evidence.events, limit_kills=0, limit_hits=0, memory_limit_bytes=None
    )
    others = window(tenants=[TenantUse(BATCH, memory_used_bytes=40 << 30)])
    (chain,) = faults(explain(plus(made, others)))
    assert [link.text for link in chain.links if link.role == "factor"] == [
        "batch-job uses 40,960 MiB of the host's memory",
        "trainer uses 40 MiB of the host's memory",
    ]
    assert "batch-job" in chain.fixes[0].text
