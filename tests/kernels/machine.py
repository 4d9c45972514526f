"""Boots a kernel in QEMU, without KVM, and gives what the guest told of its checks."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.kernels.initrd import PYTHON, ROOT

SECONDS: Final = 420.0
"""How long a guest may take before it counts as hung: several times what it takes on a busy machine."""
MEMORY_MIB: Final = 1024
CPUS: Final = 2
_LAST_LINES: Final = 60
"""Of the console, in a message."""
_KERNEL_OPTIONS: Final = (
    # A busy host does not give a guest its CPUs at once: no doubts about timers then. Without feature 141
    # (cx16) the kernel does without cmpxchg16b, at which some end in a double fault under QEMU 7.2.
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
    """The terminal of the first serial port, in the guest."""
    report: str
    """The same of the second."""
    second_port: tuple[str, str]
    """QEMU's option that makes it, for what is called ``report``."""
    python: str = str(PYTHON)
    """The first program, in the guest."""


X86_64: Final = Machine(
    "x86_64",
    "qemu-system-x86_64",
    # QEMU 7.2 faults in gathering loads of AVX2 whose masked-out lanes have no address, which numpy makes.
    ("-cpu", "max,avx2=off"),
    "ttyS0",
    "/dev/ttyS1",
    ("-serial", "chardev:report"),
)
AARCH64: Final = Machine(
    "aarch64",
    "qemu-system-aarch64",
    # With QEMU's own algorithm for signed addresses: the architected one takes most of the time.
    ("-machine", "virt,gic-version=3", "-cpu", "max,pauth-impdef=on"),
    "ttyAMA0",
    "/dev/ttyS0",
    ("-device", "pci-serial,chardev=report"),
    "/usr/bin/python3",
)


@dataclass
class Told:
    """What a guest told."""

    console: str
    ended: str
    """How the machine ended; empty where it did so after its last check."""
    lines: list[dict[str, Any]] = field(default_factory=list)

    def of(self, kind: str, **facts: object) -> list[dict[str, Any]]:
        """Lines of this kind with these facts."""
        return [
            line
            for line in self.lines
            if line["kind"] == kind and all(line.get(name) == value for name, value in facts.items())
        ]

    def problem(self) -> str:
        """What to say where something is missing: how it ended, and the end of its console."""
        last = "\n".join(self.console.splitlines()[-_LAST_LINES:])
        return f"{self.ended or 'the guest ended by itself'}; the end of its console:\n{last}"


def boot(kernel: Path, initrd: Path, machine: Machine = X86_64) -> Told:
    """Run the checks on ``kernel``. Never raises because of the guest."""
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
        told = Told(_text(console), ended)
        for line in _text(report).splitlines():
            try:
                told.lines.append(json.loads(line))
            except ValueError:  # a machine that stopped in the middle of one
                told.ended = told.ended or f"the guest told half of a line: {line!r}"
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
