"""Traces the library of native/worked.c, and collects the stacks of its calls with their lines."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from elftools.elf.elffile import ELFFile

from stalltop.demo.build import compiler
from stalltop.probes.confined.link import Here
from stalltop.probes.maps import kept_calls
from stalltop.probes.operations import Function
from stalltop.probes.stack_reading.stack_reader import ReadStack, StackReader
from stalltop.probes.stacks.layout import Stacks
from stalltop.probes.symbols.demangler import Demangler
from stalltop.probes.tracer.kernel_side import KernelSide, Point
from tests.kernel.traced_program import NATIVE, wait_until

WORKED = Function(1, "worked", 10, "driver")
_MOST = 1_000_000


def compile_library(folder: Path) -> Path:
    """Compile native/worked.c to a shared library."""
    library = folder / "libworked.so"
    command = [*compiler(), "-O1", "-shared", "-fPIC", "-o", str(library), str(NATIVE / "worked.c")]
    subprocess.run(command, check=True, timeout=60)
    return library


@contextlib.contextmanager
def tracing(library: Path) -> Iterator[KernelSide]:
    """Trace the library so that every call is captured with its stack."""
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("SLOW_A_SECOND", "SAMPLES_A_SECOND", "MOST_OF_SLOT"):
            patch.setattr(kept_calls, limit, _MOST)
        patch.setattr(kept_calls, "SHARE", 1.0)
        kernel = KernelSide(slots=256, threads=64, functions=(WORKED,), ring_bytes=32 << 20)
        try:
            with library.open("rb") as file:
                elf = ELFFile(file)
                dynsym: Any = elf.get_section_by_name(".dynsym")
                (symbol,) = dynsym.get_symbol_by_name("worked")
                offset = next(iter(elf.address_offsets(symbol["st_value"])))
            assert not kernel.attach(str(library), [Point(offset, WORKED.id)]).failed
            kernel.stacks.choose(Stacks.ALL)
            yield kernel
        finally:
            kernel.close()


@dataclass
class Collecting:
    """Collects the stacks of calls in a thread, as the monitor does."""

    kernel: KernelSide
    stacks: dict[tuple[int, int], ReadStack] = field(default_factory=dict)
    """By TID and start of the call (CLOCK_MONOTONIC, ns)."""

    def __post_init__(self) -> None:
        self._demangler = Demangler()
        self._reader = StackReader(self.kernel.stacks, Here(), self._demangler)
        self._over = threading.Event()
        self._rounds = 0
        self._thread = threading.Thread(target=self._collect)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self.stacks |= self._reader.take()
        self._demangler.close()

    def settle(self) -> None:
        """Wait until all calls of functions that were called before are captured."""
        begun = self._rounds
        wait_until(lambda: self._rounds > begun + 1, "stacks to be read")

    def _collect(self) -> None:
        while not self._over.wait(0.05):
            self.kernel.read()
            self._reader.look()
            self.stacks |= self._reader.take()
            self._rounds += 1


def collected(command: Sequence[str | Path], library: Path) -> Collecting:
    """Run a program that calls ``library`` and records its true stacks, and collect the stacks of its calls.

    The program writes a line when it is ready, waits for ``begin``, makes its calls, writes ``over``, and
    ends after one more line of input.
    """
    with tracing(library) as kernel:
        with Collecting(kernel) as collecting:
            program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdout.readline()
            collecting.settle()
            program.stdin.write("begin\n")
            program.stdin.flush()
            assert program.stdout.readline() == "over\n"
        program.communicate("end\n", timeout=60)
        assert kernel.losses()["no_stack"] == 0
    return collecting
