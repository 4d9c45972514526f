"""Tests that cached BPF programs are used only if they are intact and nobody else could write them."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from stalltop.probes.programs import cache as program_cache
from stalltop.probes.programs.cache import CacheFileError, find, keep
from stalltop.probes.programs.compiled import KPROBE, Compiled, CompiledMap, CompiledProgram
from stalltop.probes.programs.recipes import Recipe, tracing

LOADS = bytes.fromhex("18010000000000000000000000000000")
ENDS = bytes.fromhex("b7000000000000009500000000000000")
RECIPE = Recipe("", {"program": KPROBE})
COMPILED = Compiled(
    (CompiledMap("slots", 2, 4, 16384, "SLOTS", 1024), CompiledMap("losses", 2, 4, 120, 1, 0)),
    (CompiledProgram("program", KPROBE, LOADS * 2 + ENDS, ((0, "slots"),), ((2, "TASK_PID"),)),),
    1.5,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sets an empty cache folder."""
    place = tmp_path / "kept"
    monkeypatch.setenv("STALLTOP_CACHE_DIR", str(place))
    return place


def test_a_cached_program_is_found(folder: Path) -> None:
    assert find(RECIPE) is None
    keep(RECIPE, COMPILED)
    assert find(RECIPE) == COMPILED
    assert find(Recipe("other", {"program": KPROBE})) is None


def test_map_descriptors_and_offsets_are_filled_in() -> None:
    code = COMPILED.programs[0].filled({"slots": 7}, {"TASK_PID": 0x1_0000_0002})
    assert code[:16].hex() == "1811000007000000" + "0" * 16
    assert code[16:32].hex() == "1801000002000000" + "0000000001000000"
    assert code[32:] == ENDS
    with pytest.raises(KeyError):
        COMPILED.programs[0].filled({"slots": 7}, {})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["folder", "file"])
def test_files_of_another_user_are_not_used(folder: Path, what: str) -> None:
    keep(RECIPE, COMPILED)
    (path,) = folder.glob("*.programs")
    os.chown(folder if what == "folder" else path, 65534, 65534)
    with pytest.raises(CacheFileError, match="belongs to user 65534"):
        find(RECIPE)


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_files_that_others_can_write_are_not_used(folder: Path, mode: int) -> None:
    keep(RECIPE, COMPILED)
    folder.chmod(mode)
    with pytest.raises(CacheFileError, match="other users may write"):
        find(RECIPE)
    with pytest.raises(CacheFileError, match="other users may write"):
        keep(RECIPE, COMPILED)
    folder.chmod(0o700)
    (path,) = folder.glob("*.programs")
    path.chmod(mode)
    with pytest.raises(CacheFileError, match="other users may write"):
        find(RECIPE)


def test_links_and_special_files_are_not_followed(folder: Path, tmp_path: Path) -> None:
    keep(RECIPE, COMPILED)
    (path,) = folder.glob("*.programs")
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CacheFileError):
        find(RECIPE)
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(CacheFileError, match="not a file of compiled programs"):
        find(RECIPE)
    real = folder.rename(tmp_path / "real")
    folder.symlink_to(real)
    with pytest.raises(CacheFileError):
        find(RECIPE)


def test_the_oldest_files_are_removed(folder: Path) -> None:
    recipes = [Recipe(str(number), {}) for number in range(40)]
    for age, recipe in enumerate(recipes):
        keep(recipe, COMPILED)
        os.utime(folder / (recipe.key() + ".programs"), (age, age))
    keep(recipes[-1], COMPILED)
    assert len(list(folder.glob("*.programs"))) == 32
    assert find(recipes[-1]) == COMPILED
    assert find(recipes[0]) is None


@given(some.integers(0, 2**32), some.integers(1, 40))
def test_damage_is_always_detected(seed: int, places: int) -> None:
    source = random.Random(seed)
    data = bytearray(COMPILED.to_bytes("key"))
    for _ in range(places):
        data[source.randrange(len(data))] = source.randrange(256)
    if bytes(data) == COMPILED.to_bytes("key"):
        return
    with pytest.raises(ValueError, match=r"damaged|version|something else"):
        Compiled.from_bytes(bytes(data), "key")


def test_the_key_depends_on_every_input(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [
        tracing(["TASK_PID"], []).key(),
        tracing(["TASK_PID", "TASK_TGID"], []).key(),
        tracing(["TASK_PID"], ["PID_NAMESPACE"]).key(),
        tracing([], []).key(),
    ]
    monkeypatch.setattr("platform.machine", lambda: "another")
    keys.append(tracing([], []).key())
    assert len(set(keys)) == len(keys)


def test_files_shipped_with_the_package_are_found(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "shipped"
    monkeypatch.setattr(program_cache, "SHIPPED", shipped)
    shipped.mkdir()
    path = shipped / (RECIPE.key() + ".programs")
    path.write_bytes(COMPILED.to_bytes(RECIPE.key()))
    assert find(RECIPE) == COMPILED
    path.write_bytes(b"damaged")
    assert find(RECIPE) is None


def test_a_file_compiled_from_other_source_is_not_used(folder: Path) -> None:
    keep(RECIPE, COMPILED)
    other = Recipe("other", {"program": KPROBE})
    (path,) = folder.glob("*.programs")
    path.rename(folder / (other.key() + ".programs"))
    with pytest.raises(CacheFileError, match="compiled from something else"):
        find(other)


def test_a_refusal_is_remembered_for_one_kernel_release(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not program_cache.is_refused(RECIPE)
    program_cache.note_refused(RECIPE)
    assert program_cache.is_refused(RECIPE)
    monkeypatch.setattr("platform.release", lambda: "another")
    assert not program_cache.is_refused(RECIPE)


@pytest.mark.parametrize("name", ["seconds", "a.programs"])
def test_special_files_are_not_opened(folder: Path, name: str) -> None:
    folder.mkdir(mode=0o700)
    os.mkfifo(folder / name, 0o600)
    assert program_cache.usual_seconds() == 3.0


def test_a_user_without_a_home_gets_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STALLTOP_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(CacheFileError, match="set STALLTOP_CACHE_DIR"):
        find(RECIPE)
    with pytest.raises(CacheFileError, match="set STALLTOP_CACHE_DIR"):
        keep(RECIPE, COMPILED)
    assert program_cache.usual_seconds() == 3.0


def test_leftovers_of_a_killed_start_are_removed(folder: Path) -> None:
    keep(RECIPE, COMPILED)
    left = folder / ".new-1-2"
    left.write_text("half of it")
    keep(RECIPE, COMPILED)
    assert left.exists()  # another start may still be writing it
    os.utime(left, (1, 1))
    keep(RECIPE, COMPILED)
    assert not left.exists()
