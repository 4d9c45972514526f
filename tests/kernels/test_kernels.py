"""Tests that distributions' kernels load every program and that calls are counted, split and charged."""

from __future__ import annotations

import re
from typing import Any

import pytest

from stalltop.probes.programs.recipes import SESSION
from tests.kernels.checks import FIRST_WITH_MULTI, FIRST_WITH_SESSIONS
from tests.kernels.machine import SECONDS, GuestReport
from tests.kernels.matrix import MAX_INSTRUCTIONS

# The first test of a kernel also boots the guest, so its time limit includes the boot and all checks.
pytestmark = pytest.mark.timeout(SECONDS + 120)


def kernel_of(booted: GuestReport) -> tuple[dict[str, Any], tuple[int, int]]:
    """Return what the guest said of its kernel, and the kernel's version."""
    (kernel,) = booted.of("kernel") or [pytest.fail(booted.problem())]
    version = re.match(r"(\d+)\.(\d+)", kernel["release"])
    assert version
    return kernel, (int(version[1]), int(version[2]))


def variants(booted: GuestReport, *, without_splits: bool = True) -> list[str]:
    """Return the variants in which programs are loaded on the booted kernel.

    There is one for each way of attaching that the kernel has, and with ``without_splits`` another one
    without splits.
    """
    kernel, version = kernel_of(booted)
    new = version >= FIRST_WITH_MULTI
    assert kernel["knows_multi"] == new, "the BTF of the kernel does not show whether it has uprobe_multi"
    ways = ("multi", "perf") if new else ("perf",)
    kinds = ("with splits", "without splits") if without_splits else ("with splits",)
    return [f"{way}, {kind}" for way in ways for kind in kinds]


def passed(booted: GuestReport, check: str, **facts: object) -> dict[str, Any]:
    """Return what the check named ``check`` found in the guest; fail unless the check passed there."""
    for line in booted.of("failed", check=check, **facts):
        pytest.fail(f"in the guest: {line['why']}")
    found = booted.of("passed", check=check, **facts)
    assert found, f"the guest did not reach {check} {facts}: {booted.problem()}"
    return found[0]


def test_every_program_loads(booted: GuestReport) -> None:
    for variant in variants(booted):
        programs = booted.of("program", variant=variant)
        assert {"call_begins", "call_returns"} <= {program["name"] for program in programs}, booted.problem()
        for program in programs:
            assert not program["refused"], program
            assert 0 < program["instructions"] <= MAX_INSTRUCTIONS, program
        passed(booted, "loads", variant=variant)


def test_clocks_of_cpus_run_their_program(booted: GuestReport) -> None:
    for variant in variants(booted):
        passed(booted, "clocks", variant=variant)


def test_calls_of_several_threads_are_counted(booted: GuestReport) -> None:
    for variant in variants(booted):
        found = passed(booted, "counts", variant=variant)
        assert found["counted"] == found["made"] > 0


def test_calls_are_counted_if_only_some_are_timed(booted: GuestReport) -> None:
    kernel, version = kernel_of(booted)
    assert kernel["knows_sessions"] == (version >= FIRST_WITH_SESSIONS)
    if not kernel["knows_sessions"]:
        pytest.skip("the kernel has no sessions")
    for variant in ("multi, with splits", "multi, without splits"):
        found = passed(booted, "counts in sessions", variant=variant)
        assert found["counted"] == found["made"] > 0
        assert booted.of("program", variant=variant, name=SESSION)


def test_cuda_calls_are_counted_in_their_cgroup(booted: GuestReport) -> None:
    for variant in variants(booted, without_splits=False):
        found = passed(booted, "counts CUDA", variant=variant)
        assert found["counted"] == found["made"] > 0


def test_the_time_of_calls_is_split(booted: GuestReport) -> None:
    for variant in variants(booted, without_splits=False):
        passed(booted, "splits", variant=variant)


def test_waits_for_a_cpu_are_charged_to_the_culprit(booted: GuestReport) -> None:
    for variant in variants(booted, without_splits=False):
        passed(booted, "charges", variant=variant)


def test_events_of_the_host_are_counted(booted: GuestReport) -> None:
    programs = booted.of("program", variant="host")
    assert programs, booted.problem()
    for program in programs:
        assert not program["refused"], program
        assert 0 < program["instructions"] <= MAX_INSTRUCTIONS, program
    passed(booted, "host part")


@pytest.mark.refused
def test_a_kernel_whose_return_probes_kill_is_refused(booted: GuestReport) -> None:
    refused = booted.of("refused")
    assert {line["variant"] for line in refused} == set(variants(booted)), booted.problem()
    for line in refused:
        assert "seccomp" in line["reason"]
        assert "kernel" in line["remedy"]
    assert not booted.of("passed", check="counts")
