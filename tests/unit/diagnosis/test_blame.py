"""Tests whom a chain blames over time: the first culprit is steady, and the shares add up."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stalltop.diagnosis.blame import Blame, culprit_of, remembered, rest
from stalltop.diagnosis.engine import Diagnosis, explain
from stalltop.diagnosis.links import Who
from stalltop.diagnosis.wording.culprits import MOST_CULPRITS, members, ranked
from stalltop.model.chain import OTHERS, Chain, Link
from stalltop.model.evidence import HOST_GAP, Evidence, ProcessUse
from stalltop.model.window import Window
from tests.unit.diagnosis.faults import LAUNCHES, faults, io
from tests.windows.evidence import BATCH, TRAIN, charge, row, window

MINUTE = 60
LOST_MS = 500.0
NEIGHBOURS = range(900, 906)
HOG, OTHER = Who(BATCH, 900, "stress"), Who("docker:dd", 901, "encode")


def second(number: int, taken: Mapping[int, float], *, victims: Sequence[int] = (100,)) -> Window:
    """Returns a second in which each of ``victims`` lost ``LOST_MS`` of CPU time to neighbours. ``taken`` has
    the relative share of each neighbour, by PID. Each neighbour is a tenant of its own."""
    whole = sum(taken.values())
    rows = [
        row(HOST_GAP, 40, running=990 - LOST_MS, runqueue=LOST_MS + 10 * turn, pid=pid)
        for turn, pid in enumerate(victims)
    ]
    charges = [
        charge(
            *("runqueue", LOST_MS * part / whole, pid),
            pid=victim,
            culprit_tenant=f"docker:{pid}",
            culprit_process=f"job{pid}",
        )
        for victim in victims
        for pid, part in taken.items()
    ]
    alive = [ProcessUse(f"docker:{pid}", pid, f"job{pid}", link=-1) for pid in taken]
    launches = [row("cudaLaunchKernel", 1000, running=10, pid=pid) for pid in victims]
    return window(
        [*launches, *rows], charges=charges, processes=alive, start=1_000.0 + number, cpus=(100, 100)
    )


def open_chain(one: Window) -> Chain | None:
    return next((chain for chain in one.chains if chain.open and chain.cause == "cpu_contention"), None)


def chains(seconds: Sequence[Window]) -> list[Chain]:
    diagnosis = Diagnosis()
    found = [open_chain(diagnosis.add(one)) for one in seconds]
    return [chain for chain in found if chain is not None]


def noisy(seed: int, seconds: int, *, victims: Sequence[int] = (100,)) -> list[Window]:
    """Returns windows of one second each. In each window, every neighbour takes a random share of the
    lost CPU time; within a window, the largest share is at most three times the smallest."""
    chance = random.Random(seed)
    return [
        second(number, {pid: chance.uniform(0.5, 1.5) for pid in NEIGHBOURS}, victims=victims)
        for number in range(seconds)
    ]


def firsts(found: Sequence[Chain]) -> list[int]:
    return [chain.culprits[0].pid for chain in found]


def changes(values: Sequence[int]) -> int:
    return sum(one != other for one, other in itertools.pairwise(values))


def assert_consistent(chain: Chain) -> None:
    """Asserts that summary, links and fixes name one culprit first, and that the shares of all add up."""
    first, *_ = culprits = chain.culprits
    assert f"that {first.tenant} holds" in chain.summary
    assert first.process in chain.fixes[0].text
    named = [link for link in culprits if not link.of_others]
    assert len(named) <= MOST_CULPRITS
    assert sum(link.share or 0.0 for link in culprits) == pytest.approx(1.0, abs=0.01)
    assert sum(link.ns_per_s or 0.0 for link in culprits) == pytest.approx(
        chain.lost_ms_per_s * 1e6, rel=0.03
    )
    if rest := culprits[len(named) :]:
        (one,) = rest
        assert one.text == f"others, {len(NEIGHBOURS) - len(named)} processes"


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 1 << 32), victims=st.sampled_from([(100,), (100, 102)]))
def test_noise_rarely_changes_the_first_culprit(seed: int, victims: Sequence[int]) -> None:
    found = chains(noisy(seed, 2 * MINUTE, victims=victims))
    # In five of six seconds, the neighbour that takes most is another one than in the second before.
    assert changes(firsts(found)) <= 2
    for chain in found:
        assert_consistent(chain)


def test_a_new_culprit_is_followed_within_seconds() -> None:
    before = [second(number, {900: 4, 901: 1}) for number in range(5 * MINUTE)]
    after = [second(5 * MINUTE + number, {900: 1, 901: 4}) for number in range(20)]
    found = chains([*before, *after])
    named = firsts(found)
    assert set(named[:-20]) == {900}
    assert named[-20:].index(901) < 8
    assert set(named[-20 + named[-20:].index(901) :]) == {901}
    for chain in found:
        assert_consistent_of_two(chain)


def assert_consistent_of_two(chain: Chain) -> None:
    first, second_ = chain.culprits
    assert f"that {first.tenant} holds" in chain.summary
    assert (first.share or 0.0) + (second_.share or 0.0) == pytest.approx(1.0, abs=0.01)


def test_an_ended_culprit_is_not_named_any_longer_than_rules_look_back() -> None:
    before = [second(number, {900: 4, 901: 1}) for number in range(MINUTE)]
    after = [second(MINUTE + number, {901: 5}) for number in range(10)]
    named = firsts(chains([*before, *after]))
    assert named[-10:].index(901) <= 3


def test_many_small_culprits_are_named_together_after_the_first() -> None:
    (chain,) = faults(explain(second(0, dict.fromkeys(range(900, 940), 1.0))))
    first, rest = chain.culprits
    assert f"that {first.tenant} holds" in chain.summary
    assert (rest.text, rest.process, rest.tenant, rest.pid) == ("others, 39 processes", OTHERS, "", 0)
    assert first.share == pytest.approx(1 / 40)
    assert rest.share == pytest.approx(39 / 40)


def test_users_of_a_disk_add_up_to_its_load() -> None:
    users = [io(f"docker:{pid}", pid, f"job{pid}", 400, requests=400) for pid in range(900, 910)]
    loaded = window(
        [LAUNCHES, row(HOST_GAP, 40, running=390, disk=600)],
        evidence=Evidence(block_io=(io(TRAIN, 100, "train.py", 590), *users)),
    )
    (chain,) = faults(explain(loaded))
    assert chain.cause == "slow_disk"
    assert [link.pid for link in chain.culprits] == [900, 901, 902, 0]
    assert chain.culprits[-1].text == "others, 8 processes"
    assert sum(link.share or 0.0 for link in chain.culprits) == pytest.approx(1.0)


def test_the_first_culprit_stays_until_another_one_took_clearly_more() -> None:
    taken = {HOG: 40.0, OTHER: 50.0}
    assert [who for who, _ in ranked(taken, 90.0)] == [OTHER, HOG]
    assert [who for who, _ in ranked(taken, 90.0, HOG)] == [HOG, OTHER]
    assert [who for who, _ in ranked({HOG: 30.0, OTHER: 60.0}, 90.0, HOG)] == [OTHER, HOG]
    compilers = {Who(BATCH, pid, "cc1"): 10.0 for pid in range(200, 208)}
    named = culprit_of(Link("culprit", "", tenant=BATCH, process="cc1 (5 processes)"))
    first, _ = ranked({**compilers, OTHER: 100.0}, 180.0, named)
    assert first == (Who(BATCH, 0, "cc1 (8 processes)"), 80.0)


def test_processes_that_follow_each_other_stay_one_culprit() -> None:
    """Compilers start and end all the time. The time that ended processes took is added to a running process
    of the same name."""
    ended = {Who(BATCH, pid, "cc1"): 10.0 for pid in range(200, 204)}
    now = {Who(BATCH, 300, "cc1"): 5.0, OTHER: 8.0}
    assert remembered({**ended, HOG: 9.0}, now, alive=()) == {
        Who(BATCH, 0, "cc1"): 40.0,
        **now,
    }
    (told, _) = ranked(remembered(ended, now, alive=()), 53.0)
    assert told == (Who(BATCH, 300, "cc1"), 45.0)
    assert rest(now | {Who(BATCH, 0, "cc1"): 40.0}, [told[0]]) == "others, 1 process"
    two = {**now, Who(BATCH, 301, "cc1"): 5.0}
    for many in (remembered(ended, two, alive=()), two):
        (told, _) = ranked(many, 53.0, Who(BATCH, 0, "cc1"))
        assert told[0] == Who(BATCH, 0, "cc1 (2 processes)")
        assert [who.pid for who in members(many, told[0])] == [300, 301]
    assert remembered({HOG: 9.0}, now, alive={HOG.pid}) == {HOG: 9.0, **now}
    assert remembered({OTHER: 2.0}, now, alive=()) == {**now, OTHER: 10.0}


def test_what_was_taken_fades() -> None:
    blame = Blame(HOG, {100: {HOG: 8.0}})
    assert blame.faded(0.0) == blame
    half = blame.faded(3.4657)
    assert half.first == HOG
    assert half.taken[100][HOG] == pytest.approx(4.0, rel=1e-3)
