"""Boots guests. A guest is a kernel with the programs of one compiler; each boots once per run."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

from stalltop.demo.build import Built, build
from tests.kernel.relays import compile_relay
from tests.kernel.traced_program import compile_program, compile_waiter
from tests.kernels import arm64
from tests.kernels.compiled import Compiler
from tests.kernels.fetch import DebianKernel, fetched
from tests.kernels.initrd import import_path, write_initrd
from tests.kernels.machine import AARCH64, X86_64, GuestReport, Machine, boot

_SHELL: Final = (Path("/bin/sh"), Path("/bin/true"))
AT_ONCE: Final = 2
"""Number of guests that run at the same time: a guest that boots keeps one CPU of the host busy."""
REFUSED: Final = ("vmlinuz-6.11.0-17-generic",)
"""Kernels on which stalltop must refuse to trace: return probes kill processes under a seccomp filter."""


@dataclass(frozen=True, slots=True)
class GuestKernel:
    """A kernel of Debian (``wanted``), which is fetched when it is needed, or the kernel image ``path``."""

    name: str
    wanted: DebianKernel | None = None
    path: Path | None = None

    @property
    def refused(self) -> bool:
        """Whether stalltop must refuse to trace on this kernel."""
        return self.path is not None and self.path.name in REFUSED

    @property
    def machine(self) -> Machine:
        """The machine that the kernel is built for."""
        return AARCH64 if self.wanted is not None and self.wanted.architecture == "arm64" else X86_64

    def image(self) -> Path:
        """Return the kernel's image. Raises FetchError."""
        if self.path is not None:
            return self.path
        assert self.wanted is not None
        return fetched(self.wanted)


@dataclass
class Guests:
    """Boots guests and stores their reports."""

    folder: Path
    """Folder of the compiled programs, which guests have at the same path."""
    told: dict[tuple[str, str], GuestReport] = field(default_factory=dict)
    """Reports by kernel and compiler."""
    _initrds: dict[str, Path] = field(default_factory=dict)
    _making: Lock = field(default_factory=Lock)
    _begun: dict[tuple[str, str], Future[GuestReport]] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(AT_ONCE))

    def begin(self, wanted: Iterable[tuple[GuestKernel, Compiler]]) -> None:
        """Boot guests in this order in the background, ``AT_ONCE`` at a time."""
        for kernel, compiler in wanted:
            self._begun[kernel.name, compiler.name] = self._pool.submit(self._boot, kernel, compiler)

    def report(self, kernel: GuestKernel, compiler: Compiler) -> GuestReport:
        """Wait for the report of a guest that was begun. Raises FetchError."""
        key = kernel.name, compiler.name
        self.told[key] = self._begun[key].result()
        return self.told[key]

    def close(self) -> None:
        """Wait for the guests that run, and boot no others."""
        self._pool.shutdown(cancel_futures=True)

    def _boot(self, kernel: GuestKernel, compiler: Compiler) -> GuestReport:
        image = kernel.image()
        with self._making:
            initrd = self._initrd(kernel.machine, compiler)
        return boot(image, initrd, kernel.machine)

    def _initrd(self, machine: Machine, compiler: Compiler) -> Path:
        name = f"{machine.name}-{compiler.name}"
        if name not in self._initrds:
            path = self.folder / f"{name}.initrd"
            if machine is AARCH64:
                self._write_arm64(path)
            else:
                self._write(path, compiler)
            self._initrds[name] = path
        return self._initrds[name]

    def _write(self, path: Path, compiler: Compiler) -> None:
        compiled = compiler.compile(self.folder)
        native = Native.built(self.folder / "native")
        write_initrd(
            path, native.settings(X86_64, import_path(), compiled), [*native.files, *_SHELL], _files(compiled)
        )

    def _write_arm64(self, path: Path) -> None:
        tree = arm64.tree()
        compiled = self.folder / "arm64-compiled"
        arm64.compile_programs(compiled)
        with arm64.cross_compiling():
            native = Native.built(self.folder / "arm64-native")
        settings = native.settings(AARCH64, arm64.import_path(tree), compiled)
        arm64.write_initrd(path, settings, [*native.files, *_files(compiled)])


@dataclass(frozen=True, slots=True)
class Native:
    """The programs that the checks trace."""

    driver: Path
    waiter: Path
    relay: Path
    standin: Built

    @classmethod
    def built(cls, folder: Path) -> Native:
        """Compile the programs into ``folder``, by the compiler that CC names or by this machine's."""
        folder.mkdir(exist_ok=True)
        return cls(compile_program(folder), compile_waiter(folder), compile_relay(folder), build(folder))

    @property
    def files(self) -> list[Path]:
        """Return all files of the programs."""
        standin = (self.standin.caller, self.standin.cuda, self.standin.cudart)
        return [self.driver, self.driver.with_name("libtraced.so"), self.waiter, self.relay, *standin]

    def settings(self, machine: Machine, path: list[str], compiled: Path) -> dict[str, object]:
        """Return the settings of a guest, which `guest.py` and `checks.py` read."""
        return {
            "import_path": path,
            "report": machine.report,
            "programs": {
                "driver": str(self.driver),
                "waiter": str(self.waiter),
                "relay": str(self.relay),
                "standin": str(self.standin.folder),
            },
            "environment": {"STALLTOP_CACHE_DIR": str(compiled)},
        }


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]
