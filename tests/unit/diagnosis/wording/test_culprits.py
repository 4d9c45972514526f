"""Tests the names of culprits in the text of chains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Who
from stalltop.diagnosis.wording.culprits import named, ranked
from stalltop.diagnosis.wording.fixes import keep_off
from stalltop.model.tenant import Tenant
from tests.unit.diagnosis.faults import cpu_contention, plus
from tests.windows.evidence import window

ENCODE = Who("docker:dd", 300, "encode")


def test_many_processes_of_one_name_are_named_together() -> None:
    """Compilers start and end all the time, so no single process is named as the culprit."""
    compilers = {Who("docker:cc", pid, "cc1"): 10.0 for pid in range(200, 208)}
    many = Who("docker:cc", 0, "cc1 (8 processes)")
    assert ranked({ENCODE: 40.0, **compilers}, 120.0) == [(many, 80.0), (ENCODE, 40.0)]
    few = dict(list(compilers.items())[:2])
    assert [who for who, _ in ranked(few | {ENCODE: 40.0}, 60.0)] == [ENCODE, *few]


@pytest.mark.parametrize(
    ("who", "text"),
    [
        (ENCODE, "encode (pid 300) of docker:dd"),
        (Who("process:0/cc1", 7, "cc1"), "cc1 (pid 7)"),
        (Who("process:0/cc1", 0, "cc1 (8 processes)"), "cc1 (8 processes)"),
        (Who("", 0, "others"), "the rest"),
    ],
)
def test_a_culprit_without_a_container_is_named_once(who: Who, text: str) -> None:
    outside = Tenant("process:0/cc1", "cc1")
    facts = Facts(replace(window(), tenants={outside.id: outside}))
    assert named(facts, who) == text


def test_many_processes_of_one_name_are_limited_by_their_cgroup() -> None:
    facts = Facts(plus(cpu_contention(), window(cpus=(100, 100, 100, 100))))
    swarm = ENCODE._replace(tenant=sorted(facts.window.tenants)[0], pid=0)
    fix = keep_off(facts, 100, swarm)
    assert facts.name(swarm.tenant) in fix.text
    assert "taskset" not in fix.command
