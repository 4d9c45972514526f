"""Tests which processes get their command line read (those that waited long for data, and those that they
waited for), and how command lines are compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.model.window import SPLITS
from stalltop.probes import layout
from stalltop.probes.maps.raw import RawWait
from stalltop.probes.tenants.owners import Owners
from stalltop.probes.tenants.process_names import ProcessNames
from stalltop.probes.tenants.tenants import Tenants
from stalltop.probes.thread_reader import ThreadReader

MS = 1_000_000


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[ThreadReader]:
    tenants = Tenants()
    yield ThreadReader(Owners(tenants, ProcessNames()), tmp_path)
    tenants.close()


def waited(one: int, other: int, part: str, ms: int) -> RawWait:
    number = SPLITS.index(part)
    return RawWait(one, one, 1, layout.HOST_GAP, number, layout.How.PLAIN, other, other, 1, ms * MS, 10)


def runs(root: Path, pid: int, *words: str) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))


def test_ranks_of_a_job_run_the_same_command(reader: ThreadReader, tmp_path: Path) -> None:
    runs(tmp_path, 7001, "python3", "train.py", "--rank", "0", "--port", "29500")
    runs(tmp_path, 7002, "python3", "train.py", "--rank", "11", "--port", "29500")
    runs(tmp_path, 7003, "python3", "serve.py")
    pairs = [waited(7001, 7002, "network", 100), waited(7001, 7003, "process", 50)]
    found = dict(reader.read(pairs, (), ()).commands)
    assert found[7001] == found[7002] == b"python\0train.py\0--rank\0\0--port\0\0"
    assert found[7003] != found[7001]


def test_commands_are_read_only_of_processes_that_waited_long_for_data(
    reader: ThreadReader, tmp_path: Path
) -> None:
    runs(tmp_path, 7001, "python3")
    told = reader.read(
        [waited(7001, 7002, "network", 5), waited(7001, 7003, "lock", 500), waited(7001, 0, "sleep", 500)],
        (),
        (),
    )
    assert told.commands == ()
    assert {wait.kind for wait in told.waits} == {"network", "hand-over", "sleep"}


def test_a_process_that_is_gone_has_no_command(reader: ThreadReader) -> None:
    assert dict(reader.read([waited(7001, 7002, "network", 100)], (), ()).commands) == {7001: b"", 7002: b""}
