"""Tests that problems are grouped by cause and culprit, under ids that outlive restarts."""

from __future__ import annotations

from tests.unit.serving.notify.problems import alerts, problem


def test_victims_of_one_culprit_share_an_alert() -> None:
    (alert,) = alerts(
        problem(tenant="docker:aa", lost=100.0, since=50.0),
        problem(tenant="docker:cc", lost=900.0, severity="critical", since=70.0),
    )
    assert alert.victims == ("docker:cc", "docker:aa")
    assert (alert.severity, alert.lost_ms_per_s, alert.since) == ("critical", 1_000.0, 50.0)


def test_other_causes_and_other_culprits_have_alerts_of_their_own() -> None:
    found = alerts(
        problem(),
        problem(cause="slow_disk"),
        problem(culprit="docker:cc"),
        problem(culprit=None),
        problem(culprit=None, tenant="docker:cc"),
        problem(culprit="docker:aa"),  # the victim itself
        problem(culprit="", process="kworker (3 processes)"),
    )
    assert {alert.id for alert in found} == {
        "cpu_contention/serve",
        "slow_disk/serve",
        "cpu_contention/docker:cc",
        "cpu_contention/victim:train",
        "cpu_contention/victim:docker:cc",
        "cpu_contention/victim:train/encode",
        "cpu_contention/kworker",
    }


def test_an_id_has_no_pid() -> None:
    (one,), (other,) = alerts(problem(pid=1)), alerts(problem(pid=2))
    assert one.id == other.id


def test_facts_and_problems_that_are_over_are_no_alerts() -> None:
    assert alerts(problem(severity="info"), problem(open_=False)) == ()
