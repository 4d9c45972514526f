"""Tests that BPF programs are compiled or taken from the cache, and that failures have a reason and a
remedy."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from stalltop.model.errors import TracingError
from stalltop.probes.programs import cache as program_cache
from stalltop.probes.programs import compiler, preparing
from stalltop.probes.programs.compiled import KPROBE, Compiled
from stalltop.probes.programs.preparing import prepare
from stalltop.probes.programs.recipes import Recipe, ordering

RECIPE = Recipe("int nothing(void *ctx) { return 0; }\n", {"nothing": KPROBE})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sets an empty cache folder in place of the host's."""
    place = tmp_path / "kept"
    monkeypatch.setenv("STALLTOP_CACHE_DIR", str(place))
    return place


def answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str) -> None:
    """Replaces the compiler of BPF programs by the Python code ``program``."""
    path = tmp_path / "compiler.py"
    path.write_text(program)
    monkeypatch.setattr(compiler, "__file__", str(path))


ANSWER = {
    "maps": [{"name": "m", "type": 2, "key_bytes": 4, "value_bytes": 8, "entries": 61, "flags": 0}],
    "programs": [{"name": "nothing", "code": "twAAAAAAAACVAAAAAAAAAA==", "maps": [], "values": []}],
}


def test_a_program_is_compiled_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = tmp_path / "asked"
    answers(
        monkeypatch,
        tmp_path,
        f"import json, sys\njson.load(sys.stdin)\nopen({str(counted)!r}, 'a').write('x')\n"
        f"print({json.dumps(json.dumps(ANSWER))})\n",
    )
    first, second = prepare(RECIPE), prepare(RECIPE)
    assert (first.kept, second.kept) == (False, True)
    assert first.compiled.seconds > 0
    assert first.compiled == second.compiled
    assert first.compiled.maps[0].entries == "SLOTS"
    assert (first.complaint, second.complaint) == ("", "")
    assert prepare(RECIPE, anew=True).kept is False
    assert counted.read_text() == "xx"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_an_unusable_cache_folder_only_costs_time(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, tmp_path, f"print({json.dumps(json.dumps(ANSWER))})\n")
    folder.write_text("a file in its place")
    for _ in range(2):
        prepared = prepare(RECIPE)
        assert not prepared.kept
        assert str(folder) in prepared.complaint
        assert prepared.compiled.programs


def test_a_cached_program_that_does_not_fit_is_compiled_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, tmp_path, f"print({json.dumps(json.dumps(ANSWER))})\n")
    whole = prepare(RECIPE).compiled
    (path,) = folder.glob("*.programs")
    content = path.read_bytes()
    for damaged in (
        b"",
        content[:-1],
        content[: len(content) // 2],
        content.replace(b"nothing", b"northing"),
    ):
        path.write_bytes(damaged)
        prepared = prepare(RECIPE)
        assert (prepared.kept, prepared.complaint) == (False, "")
        assert prepared.compiled.programs == whole.programs
        assert prepare(RECIPE).kept


def test_a_missing_bcc_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bcc", None)
    answer = compiler.compile_programs({"headers": "/nowhere"})
    assert answer["failed"] == "import"
    told = preparing._reason(answer["failed"], answer["detail"], "")
    assert "BCC is missing" in told.reason
    assert "apt install python3-bpfcc" in told.remedy


def test_the_error_of_the_compiler_is_reported() -> None:
    pytest.importorskip("bcc")
    broken = Recipe("int broken(void) { return nothing; }\n", {"broken": KPROBE})
    with pytest.raises(TracingError, match="use of undeclared identifier 'nothing'"):
        prepare(broken)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "exit status -11"),
        ("print('no JSON')\n", "exit status 0"),
        ("print('{}')\n", "exit status 0"),
    ],
)
def test_a_compiler_without_an_answer_is_reported(
    program: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, tmp_path, program)
    with pytest.raises(TracingError, match=reason):
        prepare(RECIPE)


@pytest.mark.parametrize(
    ("failed", "detail", "told", "reason"),
    [
        (
            "compile",
            "Failed",
            "could not open bpf map: slots, error: Operation not permitted",
            "may not load eBPF programs",
        ),
        (
            "compile",
            "Failed",
            "x.h:1:1: error: bad\n1 error generated.",
            "compiled: Failed: x.h:1:1: error: bad",
        ),
    ],
)
def test_a_message_of_bcc_becomes_one_line(failed: str, detail: str, told: str, reason: str) -> None:
    message = preparing._reason(failed, detail, told).reason
    assert reason in message
    assert "\n" not in message


def test_the_usual_compile_time_is_learned(folder: Path) -> None:
    assert program_cache.usual_seconds() == 3.0
    program_cache.keep(RECIPE, Compiled((), (), 7.5))
    assert program_cache.usual_seconds() == 7.5


@pytest.mark.parametrize(
    ("machine", "release", "flags"),
    [
        ("x86_64", "6.12.0", ()),
        ("aarch64", "5.15.0-1040-tegra", ()),
        ("aarch64", "5.18.0", ("-DORDERED_ATOMICS",)),
        ("aarch64", "6.1.0-56-cloud-arm64", ("-DORDERED_ATOMICS",)),
        ("aarch64", "unknown", ()),
    ],
)
def test_aarch64_gets_memory_barriers_from_linux_5_18_on(
    machine: str, release: str, flags: tuple[str, ...]
) -> None:
    assert ordering(machine, release) == flags
