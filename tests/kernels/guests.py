"""The guests of a run: a kernel and a compiler each, booted when a test asks for it, once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from demo.build import build
from tests.kernel.relays import compile_relay
from tests.kernel.traced_program import compile_program, compile_waiter
from tests.kernels.compiled import Compiler
from tests.kernels.fetch import Wanted, fetched
from tests.kernels.initrd import import_path, write_initrd
from tests.kernels.machine import Told, boot

_SHELL: Final = (Path("/bin/sh"), Path("/bin/true"))
REFUSED: Final = ("vmlinuz-6.11.0-17-generic",)
"""Kernels on which a return probe kills a process under a seccomp filter: stalltop does not trace there."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of Debian, fetched when it is needed, or any other image."""

    name: str
    wanted: Wanted | None = None
    path: Path | None = None

    @property
    def refused(self) -> bool:
        """Whether stalltop must refuse to trace on it."""
        return self.path is not None and self.path.name in REFUSED

    def image(self) -> Path:
        """Its image. Raises FetchError."""
        if self.path is not None:
            return self.path
        assert self.wanted is not None
        return fetched(self.wanted)


@dataclass
class Guests:
    """What booted so far, and what all of them are made of."""

    folder: Path
    """For what is built; guests have it at the same path."""
    told: dict[tuple[str, str], Told] = field(default_factory=dict)
    """By kernel and compiler."""
    _initrds: dict[str, Path] = field(default_factory=dict)

    def boot(self, kernel: Kernel, compiler: Compiler) -> Told:
        """What the guest with ``kernel`` tells of the programs that ``compiler`` made. Raises FetchError."""
        key = kernel.name, compiler.name
        if key not in self.told:
            image = kernel.image()
            self.told[key] = boot(image, self._initrd(compiler))
        return self.told[key]

    def _initrd(self, compiler: Compiler) -> Path:
        if compiler.name not in self._initrds:
            compiled = compiler.compile(self.folder)
            native = self.folder / "native"
            native.mkdir(exist_ok=True)
            driver, relay, waiter = compile_program(native), compile_relay(native), compile_waiter(native)
            built = build(native)
            settings = {
                "import_path": import_path(),
                "programs": {
                    "driver": str(driver),
                    "waiter": str(waiter),
                    "relay": str(relay),
                    "standin": str(built.folder),
                },
                "environment": {"STALLTOP_CACHE_DIR": str(compiled)},
            }
            programs = [driver, driver.with_name("libtraced.so"), waiter, relay]
            programs += [built.caller, built.cuda, built.cudart, *_SHELL]
            path = self.folder / f"{compiler.name}.initrd"
            write_initrd(path, settings, programs, [file for file in compiled.rglob("*") if file.is_file()])
            self._initrds[compiler.name] = path
        return self._initrds[compiler.name]
