"""Tests a recording as a file: its content is exact and bounded, and survives damage."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stalltop.model.errors import StalltopError, UsageError
from stalltop.model.merge.merging import merge
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from stalltop.recordings.file.trouble import DamagedFileError, WriteError, put_aside
from stalltop.recordings.read import moments
from stalltop.recordings.read.reading import open_file
from stalltop.recordings.write import bounds
from stalltop.recordings.write import recording as recording_module
from stalltop.recordings.write.bounds import LEAST_BYTES, Bounds
from stalltop.recordings.write.hold import FileInUseError
from stalltop.recordings.write.recording import Recording
from stalltop.recordings.write.saving import dump, save
from stalltop.recordings.write.thinning import TIERS, Tier
from tests.windows.by_hand import Calls, key, row_table, window
from tests.windows.cheap import START, second
from tests.windows.full import full_window

SHORT_AGES = (Tier(0, 10.0), Tier(10, 60.0), Tier(60, float("inf")))
SHORT = (Tier(0, 60.0), Tier(10, 300.0), Tier(60, float("inf")))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recording.stalltop"


@pytest.fixture
def least(monkeypatch: pytest.MonkeyPatch) -> int:
    """Returns a size bound that a few windows fill: half of the smallest that users may set."""
    monkeypatch.setattr(bounds, "LEAST_BYTES", LEAST_BYTES // 2)
    return LEAST_BYTES // 2


def beside(path: Path) -> list[str]:
    return sorted(name for name in os.listdir(path.parent) if name.startswith(path.stem))


def windows_of(path: Path) -> list[Window]:
    with open_file(path) as recorded:
        found = recorded.between(-1e18, 1e18)
        assert not recorded.warnings
        return found


def record(
    path: Path, windows: list[Window], bounds: Bounds | None = None, tiers: Sequence[Tier] = TIERS
) -> None:
    with contextlib.closing(Recording(path, bounds, tiers)) as recording:
        for one in windows:
            recording.add(one)
            recording.tend()


def test_windows_are_read_back_exactly_and_one_plain_file_remains(path: Path) -> None:
    sent = [second(number, full=True) for number in range(5)]
    record(path, sent)
    assert [dump(one) for one in windows_of(path)] == [dump(one) for one in sent]
    assert beside(path) == [path.name]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with open_file(path) as recorded:
        assert recorded.kind == "recording"


def test_a_recording_continues_and_is_read_while_it_is_written(path: Path) -> None:
    record(path, [second(0), second(1)])
    recording = Recording(path)
    assert (recording.windows, recording.seconds) == (2, 2.0)
    recording.add(second(2))
    assert [one.start - START for one in windows_of(path)] == [0.0, 1.0, 2.0]
    with open_file(path) as recorded:
        recording.add(second(3))
        assert recorded.changed()
        assert len(recorded.moments) == 4
        recording.close()
    assert len(windows_of(path)) == 4


def test_two_recorders_on_one_file_are_refused(path: Path) -> None:
    recording = Recording(path)
    with pytest.raises(FileInUseError, match="another stalltop records to"):
        Recording(path)
    recording.close()
    recording.close()
    Recording(path).close()


def test_without_a_window_no_file_remains(path: Path) -> None:
    recording = Recording(path)
    assert path.exists()
    recording.close()
    assert beside(path) == []


def test_old_windows_are_merged_without_averaging(path: Path) -> None:
    sent = [second(number, rows=5, full=number % 7 == 0) for number in range(700)]
    record(path, sent, tiers=SHORT)
    with open_file(path) as recorded:
        levels = recorded.moments.level
        found = recorded.between(0, 1e18)
    assert set(levels.tolist()) == {0, 10, 60}
    assert np.all(np.diff(levels) <= 0)
    assert [one.seconds for one in found if one.seconds > 1][:3] == [60.0, 60.0, 60.0]
    at = 0
    for one in found:
        seconds = round(one.seconds)
        parts = sent[at : at + seconds]
        together = merge(parts)
        assert row_table(one.rows) == row_table(together.rows)
        assert one.loss == together.loss
        assert one.evidence == together.evidence
        assert {chain.id for chain in one.chains} == {chain.id for part in parts for chain in part.chains}
        at += seconds
    assert at == 700


def test_the_tiers_are_documented() -> None:
    assert [(tier.length, tier.seconds) for tier in TIERS] == [
        (0, 3_600.0),
        (10, 12 * 3_600.0),
        (60, float("inf")),
    ]
    text = (Path(__file__).resolve().parents[4] / "docs" / "recordings.md").read_text()
    for line in ("| to 1 h | 1 s |", "| to 12 h | 10 s |", "| older | 1 min |"):
        assert line in text


def test_the_size_bound_holds_and_the_newest_windows_stay(path: Path, least: int) -> None:
    recording = Recording(path, Bounds(least))
    most = 0
    for number in range(250):
        recording.add(second(number, rows=75, entries=20))
        recording.tend()
        most = max(most, recording.bytes)
    recording.close()
    assert least // 2 < most <= least
    with open_file(path) as recorded:
        moments = recorded.moments
        assert np.all(moments.level[-20:] == 0)
        assert moments.start[-1] == START + 249
        assert moments.level[0] > 0


def test_a_smaller_bound_shrinks_the_file(path: Path, least: int) -> None:
    record(path, [second(number, rows=400, entries=20) for number in range(75)])
    before = path.stat().st_size
    assert before > least
    recording = Recording(path, Bounds(least))
    end = time.monotonic() + 60.0
    number = 75
    while recording.bytes > least:
        recording.add(second(number, rows=1))
        recording.tend()
        number += 1
        assert time.monotonic() < end
    recording.close()
    assert path.stat().st_size <= least


def test_an_endless_reader_is_reported_before_the_bound_is_exceeded(path: Path, least: int) -> None:
    recording = Recording(path, Bounds(least))
    recording.add(second(0, rows=400, entries=20))
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM counts").fetchone()
    number = 0
    with pytest.raises(WriteError, match="another program keeps reading the recording"):  # noqa: PT012
        while number < 300:
            number += 1
            recording.add(second(number, rows=400, entries=20))
            recording.tend()
    assert recording.bytes <= least + (1 << 20)
    reader.close()
    recording.add(second(number, rows=400, entries=20))
    recording.tend()
    recording.close()
    assert path.stat().st_size <= least
    assert len(windows_of(path)) > 10


def test_the_number_of_windows_stays_below_the_readers_limit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert recording_module._MOST_WINDOWS < moments._MOST_WINDOWS
    monkeypatch.setattr(recording_module, "_MOST_WINDOWS", 20)
    record(path, [second(number, rows=1) for number in range(60)], tiers=(Tier(0, float("inf")),))
    assert [one.start - START for one in windows_of(path)] == list(range(40, 60))


def test_windows_older_than_the_bound_are_dropped(path: Path) -> None:
    bounds = Bounds(seconds=120.0)
    record(path, [second(number, rows=2) for number in range(300)], bounds)
    found = windows_of(path)
    assert START + 170 <= found[0].start <= START + 185


@pytest.mark.parametrize("step", [-3_600.0, 3_600.0 * 24 * 400])
def test_setting_the_clock_drops_no_window_and_keeps_their_order(path: Path, step: float) -> None:
    sent = [second(number, rows=2) for number in range(40)]
    sent += [replace(second(number, rows=2), start=START + number + step) for number in range(40, 80)]
    record(path, sent)
    with open_file(path) as recorded:
        rows = recorded.connection.execute("SELECT start FROM windows ORDER BY window_id")
        assert [start for (start,) in rows] == [one.start for one in sent]


def test_a_moved_file_is_complete(path: Path) -> None:
    recording = Recording(path)
    recording.add(second(0))
    moved = path.with_name("recording-moved.stalltop")
    os.rename(path, moved)
    assert not recording.in_place
    recording.close()
    assert len(windows_of(moved)) == 1
    record(path, [second(1)])  # files that SQLite left at the old name do no harm
    assert [one.start for one in windows_of(path)] == [START + 1]
    assert beside(path) == [moved.name, path.name]


@pytest.mark.parametrize("content", [b"", b"hello", b"\x1f\x8b\x08 no recording", b"SQLite format 3\0" * 300])
def test_a_file_that_is_no_recording_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    if not content:
        record(path, [second(0)])
        assert len(windows_of(path)) == 1
        return
    with pytest.raises(StalltopError):
        Recording(path)
    assert path.read_bytes() == content
    assert beside(path) == [path.name]


def test_other_databases_and_versions_are_left_alone(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.commit()
    connection.close()
    with pytest.raises(UsageError, match="is no recording of stalltop"):
        Recording(path)
    saved = path.with_name("saved.stalltop")
    save(full_window(), saved)
    before = saved.read_bytes()
    with pytest.raises(UsageError, match="saved or merged file"):
        Recording(saved)
    assert saved.read_bytes() == before
    newer = path.with_name("newer.stalltop")
    record(newer, [second(0)])
    connection = sqlite3.connect(newer)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(UsageError, match="newer stalltop"):
        Recording(newer)


def test_windows_of_another_host_are_refused(path: Path) -> None:
    record(path, [second(0)])
    recording = Recording(path)
    with pytest.raises(UsageError, match="a recording of gpu7, not of gpu8"):
        recording.add(replace(second(1), host="gpu8"))
    recording.close()
    assert len(windows_of(path)) == 1


def test_a_trigger_in_a_strangers_file_never_runs(path: Path) -> None:
    record(path, [second(0)])
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TRIGGER more AFTER INSERT ON counts BEGIN UPDATE counts SET calls = 2 * calls; END"
        )
    with pytest.raises(DamagedFileError, match="it has a table or view 'more'"):
        Recording(path)


def test_a_damaged_window_is_left_out_and_reported(path: Path) -> None:
    record(path, [second(number, rows=3) for number in range(30)])
    connection = sqlite3.connect(path)
    connection.execute("UPDATE counts SET calls = calls + 1 WHERE window_id = 32 AND place = 0")
    connection.commit()
    connection.close()
    record(path, [second(number, rows=3) for number in range(30, 90)], tiers=SHORT)
    first = windows_of(path)[0]
    assert first.seconds == 9.0
    assert [event.kind for event in first.evidence.events] == ["not_recorded"]
    assert "1 s of this time were damaged" in first.evidence.events[0].text


def test_a_broken_file_is_reported_and_can_be_put_aside(path: Path) -> None:
    record(path, [second(number) for number in range(30)])
    content = bytearray(path.read_bytes())
    content[4_096:40_960] = b"\xff" * 36_864
    path.write_bytes(content)
    with pytest.raises(DamagedFileError, match="is damaged"):
        record(path, [second(30)])
    aside = put_aside(path)
    assert aside.name == "recording.damaged.stalltop"
    record(path, [second(31)])
    assert aside.read_bytes()[4_096:4_100] == b"\xff" * 4


def test_damage_never_ends_in_a_traceback(path: Path) -> None:
    record(path, [second(number, rows=4, full=True) for number in range(30)], tiers=SHORT_AGES)
    good = path.read_bytes()
    chance = random.Random(3)
    pages = len(good) // 4_096
    went_on = 0
    for case in range(32):
        content = bytearray(good)
        page = chance.randrange(1, pages) * 4_096
        if case % 4 == 0:
            for _ in range(10):
                content[chance.randrange(100, len(content))] = chance.randrange(256)
        elif case % 4 == 1:
            del content[chance.randrange(100, len(content)) :]
        elif case % 4 == 2:
            content[page : page + 4_096] = bytes(4_096)
        else:
            content[chance.randrange(8_192)] ^= 1 << chance.randrange(8)
        for ending in ("-wal", "-shm", "-journal"):
            Path(f"{path}{ending}").unlink(missing_ok=True)
        path.write_bytes(content)
        try:
            record(path, [second(number, rows=4) for number in range(30, 45)], tiers=SHORT_AGES)
            went_on += 1
        except StalltopError:
            continue
    assert 0 < went_on < 60


def test_unused_names_are_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stalltop.recordings.write.recording._FORGET_EVERY", 50)
    sent = []
    for number in range(400):
        one = second(number, rows=3)
        renamed = tuple(key._replace(pid=10_000 + number) for key in one.rows.keys)
        sent.append(replace(one, rows=replace(one.rows, keys=renamed)))
    record(path, sent, Bounds(seconds=100.0))
    with open_file(path) as recorded:
        (series,) = recorded.connection.execute("SELECT count(*) FROM series").fetchone()
        assert series < 3 * 220
    found = windows_of(path)
    assert row_table(found[-1].rows) == row_table(sent[-1].rows)
    record(path, [replace(sent[0], start=START + 400)], Bounds(seconds=100.0))
    assert row_table(windows_of(path)[-1].rows) == row_table(sent[0].rows)


def test_names_of_dropped_windows_leave_their_space_to_new_windows(path: Path, least: int) -> None:
    """Each window has a container of its own, whose names take much more space than its counts."""
    recording = Recording(path, Bounds(least))
    for number in range(1_200):
        tenant = Tenant(f"docker:{number:064x}", f"job-{number}" * 200, container_id=f"{number:064x}")
        calls = [Calls(key(f"operation{at}" * 20, tenant=tenant.id, pid=number), [5_000]) for at in range(4)]
        made = window(calls, start=START + number, seconds=1.0)
        recording.add(replace(made, tenants={tenant.id: tenant}))
        recording.tend()
    assert recording.windows > 30
    assert recording.bytes <= least
    recording.close()


def test_a_read_only_folder_is_reported(path: Path) -> None:
    with pytest.raises(StalltopError, match="cannot write"):
        Recording(Path("/proc/recording.stalltop"))


LIMITED = """
import resource, sys
from pathlib import Path
from stalltop.recordings.write.bounds import Bounds
from stalltop.recordings.write.recording import Recording
from tests.windows.cheap import second
resource.setrlimit(resource.RLIMIT_FSIZE, (5 << 20, 5 << 20))
recording = Recording(Path(sys.argv[1]), Bounds(1 << 30))
for number in range(120):
    recording.add(second(number, rows=400, entries=20))
    recording.tend()
print(recording.bytes)
recording.close()
"""


def test_a_file_size_limit_of_the_process_is_a_bound(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)],
        cwd=Path(__file__).resolve().parents[4],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 5 << 20
    assert windows_of(path)[-1].start == START + 119


def test_invalid_bounds_are_refused() -> None:
    for bad in ((1, 60.0), (LEAST_BYTES, 0.0)):
        with pytest.raises(ValueError, match="at least"):
            Bounds(*bad)


def test_a_closed_recording_refuses_windows(path: Path) -> None:
    recording = Recording(path)
    recording.close()
    with pytest.raises(WriteError, match="is closed"):
        recording.add(second(0))
