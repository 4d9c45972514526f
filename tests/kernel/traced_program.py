"""Runs native/driver.c, which makes the calls that a test asks for, and lists the traced functions."""

from __future__ import annotations

import select
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from stalltop.demo.build import compiler
from stalltop.probes.layout import Direction, Object, Size
from stalltop.probes.operations import Function, match
from stalltop.probes.tracer.kernel_side import Counts, KernelSide, Point, SlotKey

NATIVE = Path(__file__).resolve().parent / "native"
DEADLINE_SECONDS = 60.0

_SIMPLE = (
    *("plain", "pushing", "comparing", "marked", "jumping", "failing", "outer", "recursive"),
    *("waiting", "hanging", "leaving", "leaving_deeper", "calling_back"),
)
_NEXT = len(_SIMPLE) + 1
FUNCTIONS = (
    *(Function(number, symbol, 10 * number, "driver") for number, symbol in enumerate(_SIMPLE, 1)),
    Function(_NEXT, "sized", 10 * _NEXT, "driver", Size.ARGUMENT, 1),
    Function(_NEXT + 1, "sized32", 10 * (_NEXT + 1), "driver", Size.ARGUMENT32, 1, 0, 2),
    Function(_NEXT + 2, "copying", 10 * (_NEXT + 2), "runtime", Size.ARGUMENT, 2, 0, 0, Direction.KIND, 3),
    Function(
        _NEXT + 3, "copying_area", 10 * (_NEXT + 3), "runtime", Size.PRODUCT, 4, 5, 0, Direction.KIND, 6
    ),
    Function(
        _NEXT + 4,
        "copying_struct",
        10 * (_NEXT + 4),
        "runtime",
        Size.STRUCT,
        0,
        16,
        3,
        Direction.STRUCT_KIND,
        5,
    ),
    Function(_NEXT + 5, "collective", 10 * (_NEXT + 5), "nccl", Size.NCCL, 2, 3, pending=7),
    *(
        replace(traced, id=number, symbol=symbol, operation=10 * number, object=Object.NONE)
        for number, symbol, traced in (
            (_NEXT + 6, "extending", match("cudaMalloc3D", "runtime")),
            (_NEXT + 7, "filling", match("cudaMemset3D", "runtime")),
        )
        if traced is not None
    ),
)
"""The functions of native/traced.c."""

OPERATION = {function.symbol: function.operation for function in FUNCTIONS}
NAME = {function.operation: function.symbol for function in FUNCTIONS}


def compile_program(into: Path) -> Path:
    """Compile libtraced.so and, beside it, the program that calls it; return the program."""
    library, program = into / "libtraced.so", into / "driver"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        [*compiler(), *flags, "-shared", "-fPIC", "-o", library, NATIVE / "traced.c"], check=True, timeout=60
    )
    subprocess.run(
        [*compiler(), *flags, "-o", program, NATIVE / "driver.c", library, "-lpthread", f"-Wl,-rpath,{into}"],
        check=True,
        timeout=60,
    )
    return program


def compile_waiter(into: Path) -> Path:
    """Compile native/waiter.c into the folder ``into``."""
    program = into / "waiter"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-fno-optimize-sibling-calls", "-rdynamic"]
    command = [*compiler(), *flags, "-o", str(program), str(NATIVE / "waiter.c"), "-lpthread"]
    subprocess.run(command, check=True, timeout=60)
    return program


def points(library: Path, functions: Iterable[Function] = FUNCTIONS) -> list[Point]:
    """Return a point for each function: where it begins in the file ``library``."""
    with library.open("rb") as file:
        elf = ELFFile(file)
        symbols = elf.get_section_by_name(".dynsym")
        assert isinstance(symbols, SymbolTableSection)
        values = {
            symbol.name: symbol["st_value"]
            for symbol in symbols.iter_symbols()
            if symbol["st_shndx"] != "SHN_UNDEF"
        }
        offsets = {name: next(iter(elf.address_offsets(value)), 0) for name, value in values.items() if value}
    return [Point(offsets[function.symbol], function.id) for function in functions]


class TracedProgram:
    """A running test program, such as native/driver.c, that takes commands on its stdin.

    An answer of the program means that the command is done and its calls are counted. ``before`` runs in the
    new process before the program; ``words`` are the program's arguments.
    """

    def __init__(
        self, path: Path, before: Callable[[], None] | None = None, words: Iterable[object] = ()
    ) -> None:
        self.process = subprocess.Popen(
            [path, *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            preexec_fn=before,
        )
        self.pid = self.process.pid
        self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.end()

    def __call__(self, command: str) -> list[int]:
        """Run ``command`` and return the numbers of its answer."""
        self.send(command)
        return self._answer()

    def send(self, command: str) -> None:
        """Send ``command`` without waiting for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")

    def end(self) -> None:
        """Kill the process and wait for its end."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_SECONDS)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _answer(self) -> list[int]:
        assert self.process.stdout is not None
        poll = select.poll()
        poll.register(self.process.stdout, select.POLLIN)
        assert poll.poll(DEADLINE_SECONDS * 1000), "the program does not answer"
        words = self.process.stdout.readline().split()
        assert words[:1] == ["ok"], words
        return [int(word) for word in words[1:]]


def calls_of(kernel: KernelSide, *pids: int) -> dict[tuple[str, bool], int]:
    """Return the number of calls of the processes ``pids`` since the previous read.

    The keys are (function, whether the calls are nested).
    """
    return by_function(kernel, *pids, of="calls")


def read_calls(kernel: KernelSide) -> Counts:
    """Return what ``kernel`` counted since the previous read, without host gaps."""
    return kernel.read().take(lambda key: not key.between_calls)


def by_function(kernel: KernelSide, *pids: int, of: str) -> dict[tuple[str, bool], int]:
    """Return a column of the counts since the previous read for ``pids``; ``of`` names it, such as "calls".

    The keys are (function, whether the calls are nested).
    """
    counts = read_calls(kernel)
    assert counts.calls.tolist() == counts.histograms.totals().tolist()
    if counts.split_ns is not None:
        assert counts.split_ns.sum(axis=1).tolist() == counts.total_ns.tolist()
    result: dict[tuple[str, bool], int] = {}
    for key, value in zip(counts.keys, getattr(counts, of).tolist(), strict=True):
        if key.tgid in pids:
            name = function_name(key)
            result[name, key.nested] = result.get((name, key.nested), 0) + value
    return result


def function_name(key: SlotKey) -> str:
    """Return the name of the function; if its calls are counted by direction, `` kind N`` follows the
    name."""
    base = key.operation // 10 * 10
    kind = f" kind {key.operation - base - 1}" if key.operation != base else ""
    return NAME[base] + kind


def lost(kernel: KernelSide) -> dict[str, int]:
    """Return the losses since the previous call that are not zero.

    Leaves out ``no_slice`` and ``uncharged_ns``, since other load on the machine causes such losses.
    """
    left_out = ("no_slice", "uncharged_ns")
    return {name: count for name, count in kernel.losses().items() if count and name not in left_out}


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Poll ``condition``; raise AssertionError with ``what`` after DEADLINE_SECONDS."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.005)
