"""Tests the cache of compiled BPF programs: tracing starts whatever the cache holds, and bad files are
replaced."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.model.progress import Progress
from stalltop.probes.programs import preparing
from stalltop.probes.programs.compiled import Compiled, CompiledProgram
from stalltop.probes.programs.preparing import Prepared, prepare
from stalltop.probes.programs.recipes import Recipe, tracing
from stalltop.probes.tracer.kernel_side import KernelSide

pytestmark = pytest.mark.beside

COMPILED: dict[str, Compiled] = {}
"""Programs that were compiled in this module, by recipe."""


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile each recipe only once for all tests, since that takes seconds."""
    compile_programs = preparing._compile

    def compiled(recipe: Recipe, niceness: int) -> Compiled:
        key = json.dumps(recipe.request(0))
        if key not in COMPILED:
            COMPILED[key] = compile_programs(recipe, niceness)
        return COMPILED[key]

    monkeypatch.setattr(preparing, "_compile", compiled)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty folder as the cache of compiled programs."""
    place = tmp_path / "kept"
    monkeypatch.setenv("STALLTOP_CACHE_DIR", str(place))
    return place


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[Prepared]:
    """Return a list that gets, at each start of a kernel side, the programs that were prepared for it."""
    seen: list[Prepared] = []

    def noted(
        recipe: Recipe, *, anew: bool = False, niceness: int = 0, progress: Progress | None = None
    ) -> Prepared:
        seen.append(prepare(recipe, anew=anew, niceness=niceness, progress=progress))
        return seen[-1]

    monkeypatch.setattr("stalltop.probes.programs.loading.prepare", noted)
    return seen


def start() -> None:
    """Load all programs. ``KernelSide`` itself then traces a function of its own and checks the counts."""
    kernel = KernelSide(slots=8, threads=8)
    try:
        assert kernel.no_splits is None
        assert kernel.probe_time.call_ns > 0
    finally:
        kernel.close()


def test_the_second_start_needs_no_compiler(
    folder: Path, prepared: list[Prepared], monkeypatch: pytest.MonkeyPatch
) -> None:
    start()
    monkeypatch.setattr(preparing, "_compile", None)
    start()
    assert [one.kept for one in prepared] == [False, True]


def cut(path: Path) -> None:
    """Remove the end of the file."""
    path.write_bytes(path.read_bytes()[:5000])


def scramble(path: Path) -> None:
    """Change some bytes of the file."""
    data, source = bytearray(path.read_bytes()), random.Random(1)
    for _ in range(20):
        data[source.randrange(len(data))] ^= 0xFF
    path.write_bytes(data)


def give_away(path: Path) -> None:
    """Give the file to another user."""
    os.chown(path, 65534, 65534)


def refuse(path: Path) -> None:
    """Put a program into the file that the verifier refuses, since the program reads a register that was
    never written."""
    compiled = Compiled.from_bytes(path.read_bytes(), path.stem)

    def spoilt(program: CompiledProgram) -> CompiledProgram:
        return replace(program, code=bytes.fromhex("bf90000000000000") + program.code[8:])  # r0 = r9

    programs = tuple(spoilt(one) if one.name == "call_returns" else one for one in compiled.programs)
    path.write_bytes(replace(compiled, programs=programs).to_bytes(path.stem))


def replace_by_another(path: Path) -> None:
    """Replace the file by programs that were compiled from another recipe."""
    prepare(tracing((), ()))
    (other,) = set(path.parent.glob("*.programs")) - {path}
    other.rename(path)


@pytest.mark.parametrize("spoil", [cut, scramble, give_away, refuse, replace_by_another])
def test_a_file_that_cannot_be_used_is_compiled_again(
    spoil: Callable[[Path], None], folder: Path, prepared: list[Prepared]
) -> None:
    start()
    (path,) = folder.glob("*.programs")
    spoil(path)
    start()
    assert not prepared[-1].kept
    start()
    assert prepared[-1].kept


@pytest.fixture(params=["full", "read-only"])
def no_room(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """Mount a full or a read-only file system over the folder of the cache."""
    folder.mkdir(mode=0o700)
    options = "size=4k,mode=700" if request.param == "full" else "ro,mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)
    try:
        if request.param == "full":
            (folder / "other").write_bytes(bytes(4096))
        yield "No space left" if request.param == "full" else "Read-only"
    finally:
        subprocess.run(["umount", folder], check=True)


def test_tracing_starts_when_the_cache_cannot_be_written(
    no_room: str, folder: Path, prepared: list[Prepared]
) -> None:
    for _ in range(2):
        start()
        assert not prepared[-1].kept
        assert no_room in prepared[-1].complaint
    assert not [path for path in folder.iterdir() if path.name != "other"]
