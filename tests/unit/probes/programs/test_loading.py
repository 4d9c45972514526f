"""Tests that the error for a host that cannot be traced has a reason and a remedy."""

from __future__ import annotations

import errno
import os
import platform

import pytest

from stalltop.model.errors import TracingError
from stalltop.probes.programs import loading as programs
from stalltop.probes.programs.bpf_calls import BpfError


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Simulates a host that can be traced."""
    monkeypatch.setattr(programs, "_capabilities", lambda: (1 << 41) - 1)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "release", lambda: "6.1.0-13-amd64")
    return monkeypatch


def test_a_capable_host_passes_the_check(able: pytest.MonkeyPatch) -> None:
    programs.check_host()
    able.setattr(programs, "_capabilities", lambda: 1 << 38 | 1 << 39)
    able.setattr(platform, "release", lambda: "5.15.0")
    programs.check_host()


def test_an_unsupported_machine_is_refused(able: pytest.MonkeyPatch) -> None:
    able.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(TracingError) as told:
        programs.check_host()
    assert told.value.reason == "riscv64 is not supported"
    assert told.value.remedy
    assert told.value.exit_code == 3


def test_an_old_linux_kernel_is_blamed_only_after_a_failure(able: pytest.MonkeyPatch) -> None:
    failed = TracingError("the kernel refused a probe: Invalid argument")
    assert programs.explained(failed) is failed
    able.setattr(platform, "release", lambda: "5.14.21-150500-default")
    programs.check_host()
    told = programs.explained(failed)
    assert told.reason == (
        "the kernel (5.14.21-150500-default) is too old: the kernel refused a probe: Invalid argument"
    )
    assert told.remedy == "tracing needs Linux 5.15 or later"


@pytest.mark.parametrize("capabilities", [0, 1 << 39, 1 << 38, 1 << 12])
def test_a_user_without_the_capabilities_is_refused(able: pytest.MonkeyPatch, capabilities: int) -> None:
    able.setattr(programs, "_capabilities", lambda: capabilities)
    with pytest.raises(TracingError, match="needs root"):
        programs.check_host()


@pytest.mark.parametrize(
    ("error", "log", "reason"),
    [
        (errno.EPERM, "", "this user or container may not load eBPF programs (program call_begins: "),
        (errno.EACCES, "0: R1=ctx\nR1 invalid mem access\nprocessed 12 insns\n", "R1 invalid mem access"),
        (errno.E2BIG, "", "the kernel refused program call_begins: Argument list too long"),
    ],
)
def test_a_message_of_the_bpf_verifier_becomes_one_line(error: int, log: str, reason: str) -> None:
    refused = BpfError(OSError(error, os.strerror(error)), "program call_begins", log)
    message = programs.refusal(refused).reason
    assert reason in message
    assert "\n" not in message
    assert "processed" not in message
