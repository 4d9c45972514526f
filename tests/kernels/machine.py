"""Boots a kernel in QEMU, without KVM, and returns the guest's report on its checks."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.kernels.initrd import PYTHON, ROOT

SECONDS: Final = 420.0
"""After this time a guest counts as hung. Even on a busy host a guest needs only a fraction of it."""
MEMORY_MIB: Final = 1024
CPUS: Final = 2
_LAST_LINES: Final = 60
"""Number of lines from the end of the guest's console that a message shows."""
_KERNEL_OPTIONS: Final = (
    # no_timer_check: a busy host runs a guest's CPUs late, which looks like a broken timer. clearcpuid=141
    # disables cmpxchg16b (cx16), on which some kernels end in a double fault under QEMU 7.2.
    "loglevel=4 oops=panic panic=-1 no_timer_check clearcpuid=141 mitigations=off random.trust_cpu=on"
    " OPENBLAS_NUM_THREADS=1"
)


@dataclass(frozen=True, slots=True)
class Machine:
    """A kind of machine that QEMU emulates."""

    name: str
    qemu: str
    model: tuple[str, ...]
    console: str
    """Name, in the guest, of the first serial port, which is the guest's console."""
    report: str
    """Name, in the guest, of the second serial port, to which the checks write their report."""
    second_port: tuple[str, str]
    """QEMU's option that connects the second port to the character device ``report``."""
    python: str = str(PYTHON)
    """Path, in the guest, of Python, which the guest's kernel runs as its first program."""


X86_64: Final = Machine(
    "x86_64",
    "qemu-system-x86_64",
    # QEMU 7.2 faults on masked-out lanes of AVX2 gather loads, which numpy uses.
    ("-cpu", "max,avx2=off"),
    "ttyS0",
    "/dev/ttyS1",
    ("-serial", "chardev:report"),
)
AARCH64: Final = Machine(
    "aarch64",
    "qemu-system-aarch64",
    # pauth-impdef: QEMU's own algorithm for pointer authentication is much faster than the architected one.
    ("-machine", "virt,gic-version=3", "-cpu", "max,pauth-impdef=on"),
    "ttyAMA0",
    "/dev/ttyS0",
    ("-device", "pci-serial,chardev=report"),
    "/usr/bin/python3",
)


@dataclass
class GuestReport:
    """What the checks in a guest reported, and what its console showed."""

    console: str
    ended: str
    """How the guest ended if it did not end after its last check; '' if it did."""
    lines: list[dict[str, Any]] = field(default_factory=list)

    def of(self, kind: str, **facts: object) -> list[dict[str, Any]]:
        """Return the lines of the report that have the kind ``kind`` and all of ``facts``."""
        return [
            line
            for line in self.lines
            if line["kind"] == kind and all(line.get(name) == value for name, value in facts.items())
        ]

    def problem(self) -> str:
        """Return how the guest ended and the end of its console, for messages about missing results."""
        last = "\n".join(self.console.splitlines()[-_LAST_LINES:])
        return f"{self.ended or 'the guest ended by itself'}; the end of its console:\n{last}"


def boot(kernel: Path, initrd: Path, machine: Machine = X86_64) -> GuestReport:
    """Run the checks on ``kernel`` and return the report. If the guest fails, the report says so."""
    with tempfile.TemporaryDirectory(prefix="stalltop-guest-") as folder:
        console, report = Path(folder, "console"), Path(folder, "report")
        command = [
            *("nice", machine.qemu, *machine.model, "-accel", "tcg,thread=multi", "-smp", str(CPUS)),
            *("-m", str(MEMORY_MIB), "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
            *("-serial", f"file:{console}", "-chardev", f"file,id=report,path={report}"),
            *machine.second_port,
            *("-kernel", str(kernel), "-initrd", str(initrd)),
            *("-append", _options(machine)),
        ]
        ended = ""
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            if done.returncode:
                ended = f"{machine.qemu} ended with {done.returncode}: {done.stderr.strip()}"
        except subprocess.TimeoutExpired:
            ended = f"the guest did not end within {SECONDS:g} s"
        except OSError as error:
            ended = f"{machine.qemu} cannot be started: {error.strerror}"
        told = GuestReport(_text(console), ended)
        for line in _text(report).splitlines():
            try:
                told.lines.append(json.loads(line))
            except ValueError:  # the guest stopped in the middle of a line
                told.ended = told.ended or f"the guest wrote an incomplete line: {line!r}"
        if not told.ended and not told.of("end"):
            told.ended = "the guest ended before its checks did"
        return told


def _options(machine: Machine) -> str:
    guest = ROOT / "tests/kernels/guest.py"
    return f"console={machine.console} {_KERNEL_OPTIONS} rdinit={machine.python} -- -I -S {guest}"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").replace("\r", "")
    except OSError:
        return ""
