"""Tests the readiness check on many kinds of hosts, and its output."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from rich.cells import cell_len

from stalltop.formats.text.readiness import document, text
from stalltop.model.devices.device import Device, Devices
from stalltop.model.errors import TracingError
from stalltop.model.finding import Finding, can_trace
from stalltop.model.text.glyphs import ASCII, UNICODE, Glyphs
from stalltop.model.text.style import Style
from stalltop.probes.readiness.checks import BASICS, CHECKS, INITIAL_NAMESPACES, check
from stalltop.probes.readiness.surroundings import CudaUse, Surroundings, Terminal, this_host
from tests.unit.probes.tenants.fake_host import FakeHost

ALL_CAPABILITIES = "000001ffffffffff"


def raises(error: Exception) -> Callable[[], Any]:
    def call() -> Any:
        raise error

    return call


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """Returns a host on which every check passes."""
    host = FakeHost(tmp_path)
    status(host, 0, ALL_CAPABILITIES)
    for kind, inode in INITIAL_NAMESPACES.items():
        namespace(host, kind, inode)
    host.write("proc/sys/net/core/bpf_jit_enable", "1\n")
    host.write("proc/sys/kernel/perf_event_paranoid", "2\n")
    host.write("sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
    host.write("sys/kernel/btf/vmlinux", "BTF")
    host.write("sys/kernel/tracing/events/enable", "0")
    host.write("sys/bus/event_source/devices/uprobe/type", "8")
    return host


def status(host: FakeHost, uid: int, capabilities: str) -> None:
    host.write("proc/self/status", f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nCapEff:\t{capabilities}\n")


def namespace(host: FakeHost, kind: str, inode: int) -> None:
    link = host.root / f"proc/self/ns/{kind}"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(f"{kind}:[{inode}]")


def good(host: FakeHost) -> Surroundings:
    return Surroundings(
        root=host.root,
        release="6.8.0-45-generic",
        machine="x86_64",
        environment={"TERM": "xterm-256color", "COLORTERM": "truecolor"},
        terminal=Terminal(120, 40, "utf-8"),
        open_files=(1024, 1048576),
        bcc=lambda: "0.31.0",
        program=lambda name: f"/usr/bin/{name}",
        trial=lambda: ("a function was traced", ""),
        devices=lambda: Devices((Device(0, "u", "H100"), Device(1, "v", "H100")), driver="580.65.06"),
        cuda=lambda: CudaUse({"libcuda.so.1": 3, "libcudart.so.12": 1}),
    )


def test_a_good_host_passes_every_check(host: FakeHost) -> None:
    findings = check(good(host))
    assert [finding.verdict for finding in findings] == ["ok"] * (len(CHECKS) + 1)
    assert [finding.remedy for finding in findings] == [""] * len(findings)
    assert [finding.name for finding in findings][len(BASICS)] == "trial"
    assert can_trace(findings)
    seen = {finding.name: finding.seen for finding in findings}
    assert seen["gpu"] == "2 x H100, driver 580.65.06"
    assert seen["cuda libraries"] == "mapped: libcuda.so.1 in 3 processes, libcudart.so.12 in 1 process"
    assert seen["terminal"] == "xterm-256color, 120x40, UTF-8, 16 million colours"


class HostCase(NamedTuple):
    told: str
    """Words that the finding with the name ``name`` must contain; the finding must have the verdict
    ``verdict``."""
    name: str
    verdict: str
    files: Callable[[FakeHost], object] | None = None
    changes: dict[str, object] = {}


CASES = [
    HostCase("5.15 or later", "kernel", "warn", changes={"release": "5.10.0-28-amd64"}),
    HostCase("5.15 or later", "kernel", "warn", changes={"release": "nonsense"}),
    HostCase("Linux 5.15", "kernel", "ok", changes={"release": "5.15.0-rc1"}),
    HostCase("riscv64", "architecture", "fail", changes={"machine": "riscv64"}),
    HostCase("aarch64", "architecture", "ok", changes={"machine": "aarch64"}),
    HostCase("sudo", "privileges", "fail", lambda host: status(host, 1000, "0")),
    HostCase("perf_event_paranoid is 2", "privileges", "fail", lambda host: status(host, 1000, "0")),
    HostCase(
        "with the capabilities", "privileges", "ok", lambda host: status(host, 1000, "000000c000080000")
    ),
    HostCase(
        "grant CAP_SYS_PTRACE", "privileges", "warn", lambda host: status(host, 1000, "000000c000000000")
    ),
    HostCase("grant CAP_SYS_PTRACE", "privileges", "warn", lambda host: status(host, 0, "0000000000200000")),
    HostCase("CAP_PERFMON", "privileges", "fail", lambda host: status(host, 1000, "0000008000000000")),
    HostCase("--privileged", "privileges", "fail", lambda host: status(host, 0, "00000000a80425fb")),
    HostCase("sudo", "privileges", "fail", lambda host: (host.root / "proc/self/status").unlink()),
    HostCase("user namespace", "namespaces", "fail", lambda host: namespace(host, "user", 4026532300)),
    HostCase("--pid=host", "namespaces", "warn", lambda host: namespace(host, "pid", 4026532300)),
    HostCase("--cgroupns=host", "namespaces", "warn", lambda host: namespace(host, "cgroup", 4026532300)),
    HostCase("host's own", "namespaces", "ok", lambda host: shutil.rmtree(host.root / "proc/self/ns")),
    HostCase(
        "lockdown=integrity",
        "lockdown",
        "fail",
        lambda host: host.write("sys/kernel/security/lockdown", "none integrity [confidentiality]"),
    ),
    HostCase(
        "integrity",
        "lockdown",
        "ok",
        lambda host: host.write("sys/kernel/security/lockdown", "none [integrity] confidentiality"),
    ),
    HostCase("none", "lockdown", "ok", lambda host: (host.root / "sys/kernel/security/lockdown").unlink()),
    HostCase("python3-bpfcc", "bcc", "fail", changes={"bcc": raises(ImportError("No module named 'bcc'"))}),
    HostCase("No module named", "bcc", "fail", changes={"bcc": raises(ImportError("No module named 'bcc'"))}),
    HostCase("uprobe_multi", "uprobes", "ok", changes={"release": "6.6.1"}),
    HostCase("perf event per probe", "uprobes", "warn", changes={"release": "6.5.0"}),
    HostCase(
        "CONFIG_UPROBE_EVENTS",
        "uprobes",
        "fail",
        lambda host: shutil.rmtree(host.root / "sys/bus"),
        {"release": "6.1.0"},
    ),
    HostCase(
        "bpf_jit_enable=1",
        "bpf jit",
        "warn",
        lambda host: host.write("proc/sys/net/core/bpf_jit_enable", "0\n"),
    ),
    HostCase(
        "their time is not split",
        "btf",
        "warn",
        lambda host: (host.root / "sys/kernel/btf/vmlinux").unlink(),
    ),
    HostCase("not mounted", "tracefs", "ok", lambda host: shutil.rmtree(host.root / "sys/kernel/tracing")),
    HostCase("LimitNOFILE", "open files", "warn", changes={"open_files": (1024, 1024)}),
    HostCase("unlimited", "open files", "ok", changes={"open_files": (1024, -1)}),
    HostCase(
        "the kernel refused", "trial", "fail", changes={"trial": raises(TracingError("the kernel refused"))}
    ),
    HostCase("every start compiles", "trial", "warn", changes={"trial": lambda: ("traced", "No space left")}),
    HostCase("not needed", "bcc", "ok", changes={"bcc": raises(ImportError("No bcc")), "kept": lambda: True}),
    HostCase("KeyError", "trial", "warn", changes={"trial": raises(KeyError("x"))}),
    HostCase("v1 and v2", "cgroups", "ok", lambda host: FakeHost(host.root, "hybrid")),
    HostCase("v1;", "cgroups", "ok", lambda host: FakeHost(host.root, "legacy")),
    HostCase("mount -t cgroup2", "cgroups", "warn", lambda host: FakeHost(host.root, "none")),
    HostCase("none seen", "containers", "ok"),
    HostCase(
        "Docker, kubelet",
        "containers",
        "ok",
        lambda host: [
            host.write(path, "")
            for path in (
                "run/docker.sock",
                "var/lib/docker/containers/x",
                "var/lib/kubelet/pods/x",
                "var/log/pods/x",
            )
        ],
    ),
    HostCase("ids are shown", "containers", "warn", lambda host: host.write("run/docker.sock", "")),
    HostCase("processes that start later are found", "cuda libraries", "ok", changes={"cuda": CudaUse}),
    HostCase("3 processes could not", "cuda libraries", "ok", changes={"cuda": lambda: CudaUse({}, 3)}),
    HostCase(
        "not all processes", "cuda libraries", "ok", changes={"cuda": lambda: CudaUse({}, 0, complete=False)}
    ),
    HostCase(
        "no driver here", "gpu", "warn", changes={"devices": lambda: Devices(unavailable="no driver here")}
    ),
    HostCase(
        "power: not supported",
        "gpu",
        "ok",
        changes={"devices": lambda: Devices((Device(0, "u", "n", notes=("power: not supported",)),))},
    ),
    HostCase("RuntimeError: broken", "gpu", "warn", changes={"devices": raises(RuntimeError("broken"))}),
    HostCase("simulated", "compiler", "warn", changes={"program": lambda name: None}),
    HostCase("clang", "compiler", "ok", changes={"program": lambda name: name if name == "clang" else None}),
    HostCase("not a terminal", "terminal", "ok", changes={"terminal": None}),
    HostCase("stalltop once", "terminal", "warn", changes={"environment": {"TERM": "dumb"}}),
    HostCase("TERM is not set", "terminal", "warn", changes={"environment": {}}),
    HostCase("enlarge it to 60x15", "terminal", "warn", changes={"terminal": Terminal(59, 40, "UTF-8")}),
    HostCase("60x15", "terminal", "ok", changes={"terminal": Terminal(60, 15, "UTF-8")}),
    HostCase("C.UTF-8", "terminal", "warn", changes={"terminal": Terminal(80, 24, "ISO-8859-1")}),
    HostCase("NO_COLOR", "terminal", "ok", changes={"environment": {"TERM": "xterm", "NO_COLOR": "1"}}),
    HostCase(" 16 colours", "terminal", "ok", changes={"environment": {"TERM": "linux"}}),
    HostCase("256 colours", "terminal", "ok", changes={"environment": {"TERM": "tmux-256color"}}),
    HostCase("x[2J", "terminal", "ok", changes={"environment": {"TERM": "x\x1b[2J"}}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.told}")
def test_a_finding_has_its_words_and_verdict(host: FakeHost, case: HostCase) -> None:
    if case.files is not None:
        case.files(host)
    findings = check(replace(good(host), **case.changes))  # type: ignore[arg-type]
    [finding] = [finding for finding in findings if finding.name == case.name]
    assert case.told in f"{finding.seen} {finding.remedy}"
    assert finding.verdict == case.verdict
    # A failed check has a remedy, unless the failure could not be foreseen.
    assert finding.remedy or finding.verdict == "ok" or "Error" in finding.seen or finding.name == "trial"
    assert can_trace(findings) == (case.verdict != "fail")
    others = {other.name: other.verdict for other in findings if other is not finding}
    if case.verdict == "fail" and case.name != "trial":
        assert "trial" not in others  # tracing is not tried on a host that cannot be traced


def test_findings_follow_the_table_of_checks(host: FakeHost) -> None:
    assert [finding.name for finding in check(replace(good(host), machine="none"))] == [
        name for name, _ in CHECKS
    ]


def test_a_broken_check_costs_only_its_own_finding() -> None:
    class Broken:
        def __getattr__(self, name: str) -> object:
            raise ValueError("broken\x1b")

    findings = check(cast(Surroundings, Broken()))
    assert findings[len(BASICS)].name == "trial"
    assert (*findings[: len(BASICS)], *findings[len(BASICS) + 1 :]) == tuple(
        Finding(name, "warn", "could not be checked: ValueError: broken") for name, _ in CHECKS
    )


def test_the_check_runs_on_this_host() -> None:
    findings = check(replace(this_host(), trial=lambda: ("left out here: tests/kernel makes it", "")))
    assert len(findings) in (len(CHECKS), len(CHECKS) + 1)
    found = {finding.name: finding for finding in findings}
    assert os.uname().release in found["kernel"].seen
    assert not [finding for finding in findings if "could not be checked" in finding.seen]


PLAIN = Style(80, False, UNICODE)
FINDINGS = (
    Finding("kernel", "ok", "Linux 6.8.0"),
    Finding(
        "bcc", "fail", "BCC cannot be used: " + "very " * 30 + "long", "install the package python3-bpfcc"
    ),
    Finding("trial", "warn", "0.47 µs a call", "wait " * 40),
)


@pytest.mark.parametrize("width", [1, 40, 60, 80, 200])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_text_fits_the_width(width: int, glyphs: Glyphs) -> None:
    told = text(FINDINGS, Style(width, False, glyphs))
    assert all(cell_len(line) <= max(width, 40) for line in told.splitlines())
    assert told.isascii() or glyphs is UNICODE
    assert told.endswith(".\n")
    words = told.split()
    assert words.count("very") == 30
    assert words.count("wait") == 40


def test_text_has_marks_and_remedies() -> None:
    assert text(FINDINGS[:1], PLAIN) == "✓ kernel  Linux 6.8.0\n\nThis host can be traced.\n"
    assert (
        text(FINDINGS[:1], Style(80, False, ASCII))
        == "ok   kernel  Linux 6.8.0\n\nThis host can be traced.\n"
    )
    assert text(FINDINGS[:1], Style(80, True, UNICODE)).startswith("\x1b[32m✓\x1b[0m kernel  Linux")
    short = (Finding("gpu", "warn", "none", "buy one"), Finding("bpf jit", "fail", "off", "sysctl x=1"))
    assert text(short, PLAIN) == (
        "! gpu      none\n"
        "           → buy one\n"
        "✗ bpf jit  off\n"
        "           → sysctl x=1\n"
        "\n"
        "This host cannot be traced as it is: see bpf jit.\n"
    )
    assert text(short[:1], PLAIN).endswith("This host can be traced; something is missing: see gpu.\n")
    assert text((), PLAIN) == "\nThis host can be traced.\n"


def test_the_json_has_every_finding() -> None:
    told = json.loads(json.dumps(document(FINDINGS)))
    assert told["schema"] == "stalltop.readiness/1"
    assert told["can_trace"] is False
    assert told["findings"][0] == {"name": "kernel", "verdict": "ok", "seen": "Linux 6.8.0", "remedy": ""}
    assert document(FINDINGS[:1])["can_trace"] is True
