"""Tests that a process with many libraries of its own holds up neither discovery nor windows."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from stalltop.probes.libraries import discovery, known_files
from stalltop.probes.maps import cuda_programs
from stalltop.probes.maps.cuda_programs import DriverUsers
from stalltop.probes.process_maps import MappedFiles
from stalltop.probes.tracer.attach import Point
from tests.kernel.children import Child, compile_library
from tests.unit.probes.libraries.discovered import Discovered, NoProbes, discovered

FILES = 40
NAME = "libcudart.so.12"
LIBRARY = "int cudaMalloc(void **result, unsigned long bytes) { return 0; }\n"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    compile_library(LIBRARY, tmp_path / NAME)
    made = [tmp_path / str(number) / NAME for number in range(FILES)]
    for path in made:
        path.parent.mkdir()
        shutil.copy(tmp_path / NAME, path)
    return made


def test_an_update_removes_the_probes_of_a_few_files_and_all_of_these_together(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    closes: list[NoProbes] = []
    monkeypatch.setattr(NoProbes, "close", lambda probes: closes.append(probes))
    monkeypatch.setattr(known_files, "LINGER_SECONDS", 0.0)
    with Child() as child:
        for path in files:
            child.load(path)
        with discovered(monkeypatch, child.pid) as found:
            libraries = found.libraries
            assert len(libraries.library_rows()) == FILES
            libraries._forget(child.pid)
            probed = []
            while libraries.library_rows():
                found.update()
                probed.append(len(libraries.library_rows()))
            # Each update removes the probes of as many files in one step.
            assert probed == [*range(FILES - known_files.MOST_DROPPED, 0, -known_files.MOST_DROPPED), 0]
            assert len(closes) == len(probed)


@pytest.mark.parametrize("slow", ["attach", "close"])
def test_a_new_process_waits_for_neither_the_attaching_nor_the_removal_of_anothers_files(
    files: list[Path], slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_files, "LINGER_SECONDS", 0.0)
    with Child() as many, Child() as new:
        for path in files[3:]:
            many.load(path)
        for path in files[:3]:
            new.load(path)
        found = Discovered(monkeypatch, many.pid, new.pid)
        libraries = found.libraries
        attach = found._attach

        def slow_attach(path: str, points: Sequence[Point]) -> NoProbes:
            time.sleep(0.06)
            return attach(path, points)

        def of_new() -> int:
            return sum(path in files[:3] for path in map(Path, found.attached))

        try:
            if slow == "attach":
                monkeypatch.setattr(discovery, "BUDGET_SECONDS", 0.05)
                monkeypatch.setattr(discovery, "START_SECONDS", 0.05)
                libraries._files._attach = slow_attach
                libraries.start()  # Each update finishes some files of the process whose turn it is.
                libraries.update()
                assert of_new() == 3
            else:
                libraries.start()
                libraries._forget(many.pid)
                libraries._forget(new.pid)
                libraries.update()
                libraries._waiting[new.pid] = 1
                monkeypatch.setattr(NoProbes, "close", lambda probes: time.sleep(0.06))
                monkeypatch.setattr(discovery, "BUDGET_SECONDS", 0.05)
                libraries.update()
                assert new.pid in libraries._users
                assert len(libraries._users[new.pid]) == 3
        finally:
            monkeypatch.setattr(NoProbes, "close", lambda probes: None)
            libraries.close()


def test_a_window_does_not_wait_for_an_update(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with Child() as child:
        child.load(files[0])
        with discovered(monkeypatch, child.pid) as found:
            hot = found.libraries.hot
            known = hot.functions()
            answers: list[object] = []
            with found.libraries._lock:  # as during an update
                asking = threading.Thread(target=lambda: answers.append(hot.functions()), daemon=True)
                asking.start()
                asking.join(60.0)
            assert answers == [known]


def test_a_process_with_too_many_mappings_is_read_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    clock = 1_000.0

    def mapped_by(pid: int) -> MappedFiles:
        read.append(pid)
        return MappedFiles([], [], complete=pid != 7)

    monkeypatch.setattr(cuda_programs, "pids", lambda: [6, 7])
    monkeypatch.setattr(cuda_programs, "mapped_by", mapped_by)
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    users = DriverUsers()
    # Whether it has the driver is not known, so its devices are not certain.
    assert [users.now() for _ in range(3)] == [{7}] * 3
    assert read == [6, 7, 6, 6]
    clock += cuda_programs.COSTLY_SECONDS
    assert users.now() == {7}
    assert read[4:] == [6, 7]
