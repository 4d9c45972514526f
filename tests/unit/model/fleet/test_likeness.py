"""Tests that a GPU which is unlike those of the other ranks of its job is told, as a hint, and no other."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from stalltop.fleet.messages.summary_message import decoded, encoded
from stalltop.formats.documents.fleet import fleet_document
from stalltop.formats.text.fleet import job_line, unlike_text
from stalltop.model.fleet.condensing import seen_by
from stalltop.model.fleet.fleet_state import FleetState
from stalltop.model.fleet.fleet_view import FleetView
from stalltop.model.fleet.host_summary import UNKNOWN, DeviceSummary
from stalltop.model.fleet.likeness import KEPT_SAMPLES, LEAST_GPUS, LEAST_SAMPLES
from tests.unit.model.fleet.summaries import NOW, at, rank, summary

ALIKE = DeviceSummary("3", "H100", 98.0, 70.0, 62.0, 640.0, 1980.0)
SLOW = ALIKE._replace(sm_clock_mhz=1200.0)


def seen(*gpus: DeviceSummary, seconds: int = KEPT_SAMPLES, seed: int = 0, device: str = "3") -> FleetView:
    """Returns a fleet of hosts with a rank on GPU 3 each, whose figures are those of ``gpus``, more or less,
    and which also have an idle GPU. ``device``: what the ranks are said to use."""
    state, random = FleetState(), Random(seed)
    for second in range(seconds):
        for number, gpu in enumerate(gpus):
            now = NOW + second
            near = gpu._replace(
                utilization_percent=min(gpu.utilization_percent * random.uniform(0.97, 1.0), 100.0),
                power_watts=gpu.power_watts * random.uniform(0.93, 1.07),
                temperature_celsius=gpu.temperature_celsius + random.uniform(-4, 4),
                sm_clock_mhz=UNKNOWN if gpu.sm_clock_mhz < 0 else gpu.sm_clock_mhz * random.uniform(0.98, 1),
            )
            idle = DeviceSummary("4", "H100", 0.0, 0.0, 35.0, 80.0, 345.0)
            known = rank(number, 500, 0.1)._replace(device=device, ranks=len(gpus))
            state.take(at(f"node-{number}"), summary(end=now, ranks=(known,), devices=(near, idle)), now)
    return state.view(NOW + seconds)


def told(*gpus: DeviceSummary, **more: Any) -> list[str]:
    (job,) = seen(*gpus, **more).jobs
    assert job_line(job) == ""  # a hint is no cause
    return [unlike_text(one) for one in job.unlike]


@pytest.mark.parametrize("one", [0, 3, 7])
@pytest.mark.parametrize("seed", range(3))
def test_a_gpu_with_a_low_clock_is_told(one: int, seed: int) -> None:
    gpus = [SLOW if number == one else ALIKE for number in range(8)]
    (said,) = told(*gpus, seed=seed)
    assert said.startswith(f"GPU 3 of node-{one} (rank {one}) runs at 11")
    assert said.endswith(" MHz")
    assert ", the others at 19" in said


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("gpus", [LEAST_GPUS, 8, 64])
def test_of_equal_gpus_none_is_told(gpus: int, seed: int) -> None:
    assert told(*[ALIKE] * gpus, seed=seed) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"power_watts": 300.0}, "draws 3"),
        ({"utilization_percent": 45.0}, "is busy 4"),
        ({"temperature_celsius": 90.0}, "has "),
        (
            {"throttle_reasons": "thermal, hardware"},
            "is throttled (thermal, hardware), most others are not for that",
        ),
    ],
)
def test_each_figure_is_compared(changed: dict[str, Any], said: str) -> None:
    (found,) = told(*[ALIKE] * 7, ALIKE._replace(**changed))
    assert found.startswith(f"GPU 3 of node-7 (rank 7) {said}")


@pytest.mark.parametrize(
    "changed",
    [{"sm_clock_mhz": 2600.0}, {"temperature_celsius": 35.0}, {"sm_clock_mhz": UNKNOWN}, {"name": "A100"}],
)
def test_a_gpu_that_is_better_unknown_or_of_another_model_is_not_told(changed: dict[str, Any]) -> None:
    assert told(*[ALIKE] * 7, ALIKE._replace(**changed)) == []


def test_idle_gpus_are_not_compared_with_busy_ones() -> None:
    idle = ALIKE._replace(utilization_percent=3.0, sm_clock_mhz=345.0, power_watts=80.0)
    assert told(*[ALIKE] * 7, idle) == []
    assert told(*[idle] * 7, ALIKE) == []
    # Without the idle ones, too few are left.
    assert told(*[ALIKE] * (LEAST_GPUS - 2), SLOW, idle, idle) == []
    assert len(told(*[ALIKE] * (LEAST_GPUS - 1), SLOW, idle, idle)) == 1


def test_two_kinds_of_ranks_are_not_unlike() -> None:
    assert told(*[ALIKE] * 5, *[SLOW] * 3) == []
    assert len(told(*[ALIKE] * 6, *[SLOW] * 2)) == 2


def test_a_reason_that_many_have_is_not_told() -> None:
    capped = ALIKE._replace(throttle_reasons="power cap")
    assert told(*[capped] * 8) == []
    assert told(*[capped] * 5, *[ALIKE] * 3) == []
    both = ALIKE._replace(throttle_reasons="power cap; power brake")
    (said,) = told(*[capped] * 7, both)
    assert "is throttled (power brake)" in said


def test_one_sample_is_no_reason() -> None:
    assert told(*[ALIKE] * 7, SLOW, seconds=LEAST_SAMPLES - 1) == []
    state = FleetState()
    for second in range(20):
        for number in range(8):
            # Each GPU is slow in one of six samples.
            gpu = SLOW if second % KEPT_SAMPLES == number % KEPT_SAMPLES else ALIKE
            known = rank(number, 500, 0.1)._replace(device="3")
            state.take(at(f"n{number}"), summary(ranks=(known,), devices=(gpu,)), NOW + second)
        (job,) = state.view(NOW + second).jobs
        assert job.unlike == ()


def test_a_rank_without_a_known_gpu_or_on_mig_is_not_compared() -> None:
    assert told(*[ALIKE] * 7, SLOW, device="") == []
    assert told(*[ALIKE] * 7, SLOW, device="3:1") == []


def test_a_silent_host_is_not_compared() -> None:
    state = FleetState()
    for second in range(20):
        for number in range(8):
            if number == 7 and second > 5:
                continue
            gpu = SLOW if number == 7 else ALIKE
            known = rank(number, 500, 0.1)._replace(device="3")
            state.take(at(f"n{number}"), summary(ranks=(known,), devices=(gpu,)), NOW + second)
    assert state.view(NOW + 19).jobs[0].unlike == ()


def test_the_document_calls_it_likeness() -> None:
    (job,) = fleet_document(seen(*[ALIKE] * 7, SLOW))["jobs"]
    (one,) = job["unlike"]
    assert one["confidence"] == "likeness"
    assert (one["host"], one["device"], one["rank"], one["figure"]) == ("node-7", "3", 7, "sm_clock_mhz")
    assert one["value"] < 1201 < 1900 < one["usual"]
    assert one["compared"] == 8
    assert one["sentence"].startswith("GPU 3 of node-7 (rank 7) runs at 1")
    (job,) = fleet_document(seen(*[ALIKE] * 7, ALIKE._replace(throttle_reasons="power brake")))["jobs"]
    assert (job["unlike"][0]["value"], job["unlike"][0]["reasons"]) == (None, "power brake")


def test_hosts_of_an_earlier_release_are_compared_by_what_they_say() -> None:
    old = DeviceSummary("3", "H100", 98.0, 70.0, 62.0, 640.0)
    assert (old.sm_clock_mhz, old.reasons) == (UNKNOWN, ())
    assert told(*[old] * 8) == []
    (said,) = told(*[old] * 7, old._replace(power_watts=300.0))
    assert "draws" in said


def test_figures_survive_the_wire_and_a_namespace_sees_the_gpus_of_its_ranks() -> None:
    hot = SLOW._replace(throttle_reasons="thermal, hardware; power cap")
    whole = summary(ranks=(rank(0, 1)._replace(device="3"),), devices=(hot, ALIKE._replace(label="5")))
    assert decoded(encoded(whole)) == whole
    assert hot.reasons == ("thermal, hardware", "power cap")
    assert seen_by(whole, "ml").devices == (hot,)
    assert seen_by(whole, "web").devices == ()
