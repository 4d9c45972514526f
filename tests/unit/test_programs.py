"""Where nothing can be traced, the reason and the remedy are said."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from model.errors import CannotTrace
from probes import load_programs, programs


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A host on which everything is as it should be."""
    monkeypatch.setattr(programs, "_capabilities", lambda: (1 << 41) - 1)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "release", lambda: "6.1.0-13-amd64")
    return monkeypatch


def test_a_host_that_can_trace(able: pytest.MonkeyPatch) -> None:
    programs.check_host()
    able.setattr(programs, "_capabilities", lambda: 1 << 38 | 1 << 39)
    able.setattr(platform, "release", lambda: "5.15.0")
    programs.check_host()


def test_a_machine_that_cannot(able: pytest.MonkeyPatch) -> None:
    able.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(CannotTrace) as told:
        programs.check_host()
    assert told.value.reason == "riscv64 is not supported"
    assert told.value.remedy
    assert told.value.exit_code == 3


def test_a_kernel_is_too_old_only_where_it_failed(able: pytest.MonkeyPatch) -> None:
    failed = CannotTrace("the kernel refused a probe: Invalid argument")
    assert programs.explained(failed) is failed
    able.setattr(platform, "release", lambda: "5.14.21-150500-default")
    programs.check_host()
    told = programs.explained(failed)
    assert told.reason == (
        "the kernel (5.14.21-150500-default) is too old: the kernel refused a probe: Invalid argument"
    )
    assert told.remedy == "tracing needs Linux 5.15 or later"


@pytest.mark.parametrize("capabilities", [0, 1 << 39, 1 << 38, 1 << 12])
def test_a_user_that_may_not(able: pytest.MonkeyPatch, capabilities: int) -> None:
    able.setattr(programs, "_capabilities", lambda: capabilities)
    with pytest.raises(CannotTrace, match="needs root"):
        programs.check_host()


def test_bcc_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bcc", None)
    answer, descriptors = load_programs.load({"headers": "/nowhere"})
    assert (answer["failed"], descriptors) == ("import", [])
    told = programs._reason(answer["failed"], answer["detail"], "")
    assert "BCC is missing" in told.reason
    assert "apt install python3-bpfcc" in told.remedy


def test_what_the_compiler_says_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("bcc")
    monkeypatch.setattr(programs, "source_text", lambda: "int broken(void) { return nothing; }\n")
    with pytest.raises(CannotTrace, match="use of undeclared identifier 'nothing'"):
        programs.load(1, 1, multi=True)


def test_a_compiler_that_does_not_even_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    crashing = tmp_path / "crashing.py"
    crashing.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr(load_programs, "__file__", str(crashing))
    with pytest.raises(CannotTrace, match="exit status -11"):
        programs.load(1, 1, multi=True)


@pytest.mark.parametrize(
    ("failed", "detail", "told", "reason"),
    [
        ("load", "Need super-user privileges to run", "", "may not load eBPF programs"),
        (
            "compile",
            "Failed",
            "could not open bpf map: slots, error: Operation not permitted",
            "may not load",
        ),
        (
            "load",
            "Failed to load",
            "R1 invalid mem access\nprocessed 12 insns",
            "could not be loaded: Failed",
        ),
        (
            "compile",
            "Failed",
            "x.h:1:1: error: bad\n1 error generated.",
            "compiled: Failed: x.h:1:1: error: bad",
        ),
    ],
)
def test_what_bcc_says_becomes_one_line(failed: str, detail: str, told: str, reason: str) -> None:
    message = programs._reason(failed, detail, told).reason
    assert reason in message
    assert "\n" not in message
