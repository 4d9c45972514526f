"""Tests that culprits are kept on CPUs where they disturb neither the victim nor each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Who
from stalltop.diagnosis.wording.fixes import keep_all_off
from stalltop.model.actions.cpu_places import CpuTarget, apart, idlest_half, reserved
from stalltop.model.cpu_list import cpus_of, list_of
from stalltop.model.evidence import ProcessUse, TenantUse
from stalltop.model.window import Window
from tests.windows.evidence import window

VICTIM = 100


def host(cpus: int, allowed: str = "", cpusets: tuple[str, ...] = ()) -> Window:
    """Returns a window of a host with a victim that may run on ``allowed`` and with tenants t0, t1 …"""
    return window(
        cpus=(50.0,) * cpus,
        processes=[ProcessUse("victim", VICTIM, "serve", allowed=allowed)],
        tenants=[TenantUse(f"t{at}", cpuset=cpuset) for at, cpuset in enumerate(cpusets)],
    )


_SETS = st.sets(st.integers(0, 9), max_size=10).map(list_of)


@given(cpus=st.integers(0, 10), allowed=_SETS, cpusets=st.lists(_SETS, max_size=5))
def test_no_fix_sends_two_culprits_to_one_cpu_or_to_the_victim(
    cpus: int, allowed: str, cpusets: list[str]
) -> None:
    made = host(cpus, allowed, tuple(cpusets))
    culprits = [Who(f"t{at}", 900 + at, "busy") for at in range(len(cpusets))]
    used: set[int] = set()
    every = frozenset(range(cpus))
    victims = reserved(made, VICTIM)
    assert not cpus or victims
    narrow = cpus_of(allowed) & every
    assert not narrow or narrow == every or victims == narrow
    for culprit, cpuset, fix in zip(
        culprits, cpusets, keep_all_off(Facts(made), VICTIM, culprits), strict=True
    ):
        program, *_, last = fix.command.split()
        assert str(culprit.pid) in last
        if program == "renice":
            assert "priority" in fix.text
            continue
        assert program == "taskset"
        sent = cpus_of(fix.command.split()[2])
        assert sent
        assert sent <= every
        assert not sent & victims
        assert not sent & used
        assert not cpuset or not cpus_of(cpuset) & every or sent <= cpus_of(cpuset)
        used |= sent


@given(cpus=st.integers(1, 64), number=st.integers(1, 8))
def test_culprits_share_all_cpus_that_the_victim_leaves(cpus: int, number: int) -> None:
    made = host(cpus, "0")
    culprits = [CpuTarget(f"t{at}", 900 + at) for at in range(number)]
    places = apart(made, reserved(made, VICTIM), culprits)
    assert frozenset().union(*places) == frozenset(range(1, cpus))
    sizes = [len(place) for place in places]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("cpus", "allowed", "kept"),
    [(4, "", "0-1"), (4, "0-3", "0-1"), (4, "2", "2"), (3, "0-7", "0-1"), (1, "", "0")],
)
def test_a_victim_that_may_run_anywhere_keeps_half_of_the_host(cpus: int, allowed: str, kept: str) -> None:
    assert list_of(reserved(host(cpus, allowed), VICTIM)) == kept


def test_the_most_restricted_culprit_chooses_first() -> None:
    made = host(4, "0", ("", "1"))
    places = apart(made, reserved(made, VICTIM), [CpuTarget("t0", 900), CpuTarget("t1", 901)])
    assert [list_of(place) for place in places] == ["2-3", "1"]


def test_a_row_is_moved_to_the_less_busy_half_of_its_cpus() -> None:
    made = window(cpus=(90, 10, 95, 12), processes=[ProcessUse("t0", 900, "busy", allowed="0-2")])
    assert idlest_half(made, CpuTarget("t0", 900)) == {1}
    assert idlest_half(made, CpuTarget("t0", 0)) == {1, 3}
    assert idlest_half(window(cpus=()), CpuTarget("t0", 900)) == frozenset()
