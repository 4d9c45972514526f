"""Tests when OOM kills and hanging calls are reported, and whom they blame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stalltop.diagnosis.engine import Diagnosis, explain
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.normals import KNOWN_WINDOWS, Normals
from stalltop.model.evidence import ProcessUse, TenantUse
from stalltop.model.thread_evidence import TRACED, Stop, ThreadEvidence, ThreadId
from tests.unit.diagnosis.host.faults import (
    faults,
    hung_call,
    oom_kill,
    plus,
    replace_evidence,
    waiting,
)
from tests.windows.evidence import (
    BATCH,
    TRAIN,
    window,
)


def test_a_hung_call_has_no_culprit() -> None:
    (chain,) = faults(explain(hung_call()))
    assert (chain.cause, chain.severity, chain.operation) == ("hung_call", "high", "cuStreamSynchronize")
    assert not chain.culprits
    assert "/proc/100/task/104" in chain.fixes[0].command


def test_a_call_of_a_stopped_process_does_not_hang() -> None:
    gdb = ThreadId(BATCH, 900, "gdb", 0)
    made = hung_call()
    evidence = replace(
        made.evidence,
        threads=ThreadEvidence(stops=(Stop(100, TRACED, gdb, still_ns=1_000_000_000),)),
        processes=(ProcessUse(TRAIN, 100, "train.py", link=0),),
    )
    made = replace(made, evidence=evidence)
    (chain,) = faults(explain(made))
    assert (chain.cause, chain.severity, chain.operation) == ("stopped", "critical", "cuStreamSynchronize")
    assert [link.pid for link in chain.culprits] == [900]


@pytest.mark.parametrize(
    ("use", "said", "raises"),
    [
        ({}, "trainer reached its memory limit of 96 MiB", True),
        ({"memory_version": 1}, "trainer reached its memory limit of 96 MiB", True),
        ({"limit_kills": 0}, "trainer reached its memory limit of 96 MiB", True),
        ({"limit_kills": 0, "limit_hits": 0}, "met no limit of its own", False),
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


@pytest.mark.parametrize(
    ("seconds", "longest_ms", "told"),
    [
        pytest.param(11, 20, True, id="far longer than before"),
        pytest.param(9, 20, False, id="below ten seconds"),
        pytest.param(11, 11_000, False, id="a long step"),
        pytest.param(120, 11_000, True, id="much longer than a long step"),
        pytest.param(30, None, False, id="no earlier call"),
        pytest.param(61, None, True, id="no earlier call, more than a minute"),
    ],
)
def test_a_call_hangs_if_such_calls_took_far_less(
    seconds: float, longest_ms: float | None, told: bool
) -> None:
    chains = faults(explain(waiting(seconds, longest_ms)))
    assert [chain.cause for chain in chains] == ["hung_call"] * told


def test_calls_of_the_same_family_set_the_expected_length() -> None:
    (chain,) = faults(explain(waiting(12, 20, operation="cuCtxSynchronize")))
    assert chain.cause == "hung_call"


def test_long_steps_are_remembered() -> None:
    """A call open for 13 s is no fault, because an earlier window had such a call of 12 s."""
    diagnosis = Diagnosis()
    look = diagnosis.add(waiting(0.5, 12_000))
    for second in range(1, 14):
        look = diagnosis.add(replace(waiting(second, None), start=1_000.0 + second))
        assert not faults(look.chains)
    # For a later process only the baseline is known: 12 s. A call counts as hung after ten times that.
    normals = Normals()
    for _ in range(KNOWN_WINDOWS):
        normals.learn(Facts(waiting(0.5, 12_000)))
    assert not faults(explain(waiting(100, None), normals=normals))
    assert faults(explain(waiting(121, None), normals=normals))
