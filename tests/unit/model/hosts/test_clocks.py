"""Tests comparing the clocks of several hosts, and merging their recordings."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from stalltop.cli import main as cli
from stalltop.model.devices.device import Devices
from stalltop.model.evidence import Evidence, Rank
from stalltop.model.hosts.clocks import CollectiveEntry, Recollection, between, clocks, renamed, shifted
from stalltop.model.hosts.machines import are_two_machines
from stalltop.model.merge.merging import merge
from stalltop.model.window import Rows, Window
from stalltop.recordings.read.reading import load, open_file
from stalltop.recordings.write import merging
from stalltop.recordings.write.saving import save
from tests.windows.by_hand import Calls, key, window
from tests.windows.cheap import START, second
from tests.windows.full import full_window

STEP_NS = 50_000_000
"""Time between two collectives."""


def entries(
    ahead_ns: int, *, first: int = 0, windows: int = 60, jitter_ns: int = 0, seed: int = 1
) -> list[CollectiveEntry]:
    """Returns the records of a host whose clock is ``ahead_ns`` ahead: for each second, when its rank of a
    communicator entered the latest collective."""
    random = np.random.default_rng(seed)
    found = []
    for second_of_it in range(windows):
        end_ns = (first + second_of_it + 1) * 10**9
        entered = end_ns // STEP_NS
        late = int(random.integers(0, jitter_ns)) if jitter_ns else 0
        found.append(CollectiveEntry("51e0", 0, entered, entered * STEP_NS + ahead_ns + late))
    return found


@pytest.mark.parametrize("ahead_ns", [0, 1_234_567, -40_000_000, 3_600 * 10**9])
@pytest.mark.parametrize("jitter_ns", [0, 5_000_000])
def test_the_offset_of_two_clocks_is_found(ahead_ns: int, jitter_ns: int) -> None:
    found = between(entries(0), entries(ahead_ns, jitter_ns=jitter_ns, seed=2))
    assert found is not None
    assert found.offset_ns == pytest.approx(ahead_ns, abs=jitter_ns + 1_000)
    assert abs(found.offset_ns - ahead_ns) <= found.error_ns
    assert found.error_ns <= STEP_NS + jitter_ns


def test_partly_overlapping_recordings_suffice() -> None:
    found = between(entries(0, windows=30), entries(7_000_000, first=20, windows=30))
    assert found is not None
    assert found.offset_ns == pytest.approx(7_000_000, abs=1_000)


@pytest.mark.parametrize(
    "other",
    [
        [],
        entries(0, first=100),
        [entry._replace(communicator="other") for entry in entries(0)],
        entries(0)[:2],
        [entry._replace(time_ns=-entry.time_ns) for entry in entries(0)],
    ],
    ids=["nothing", "another time", "another communicator", "too little", "a clock that runs back"],
)
def test_without_common_collectives_no_offset_is_given(other: Sequence[CollectiveEntry]) -> None:
    assert between(entries(0), other) is None


def test_hosts_are_compared_through_a_third() -> None:
    third = [entry._replace(communicator="7777", time_ns=entry.time_ns + 9_000_000) for entry in entries(0)]
    second_host = [
        *entries(4_000_000),
        *(entry._replace(communicator="7777") for entry in entries(4_000_000)),
    ]
    found = clocks({"a": Recollection(entries(0)), "b": Recollection(second_host), "c": Recollection(third)})
    assert [clock.how for clock in found.values()] == ["reference", "collectives", "collectives"]
    assert found["c"].offset_ns == pytest.approx(9_000_000, abs=10_000)
    assert found["b"].error_ns is not None
    assert found["c"].error_ns is not None
    assert found["c"].error_ns > found["b"].error_ns


def test_time_servers_and_given_offsets_are_used() -> None:
    hosts = {
        "a": Recollection((), 1_000),
        "b": Recollection((), 2_000),
        "c": Recollection(),
        "d": Recollection(),
    }
    found = clocks(hosts, {"d": 5})
    assert (found["b"].offset_ns, found["b"].error_ns, found["b"].how) == (0, 3_000, "time server")
    assert (found["c"].offset_ns, found["c"].how) == (None, "not known")
    assert (found["d"].offset_ns, found["d"].how) == (5, "given")


def test_shifting_a_window_shifts_every_time_in_it() -> None:
    made = full_window()
    assert shifted(made, 0.0) is made
    later = shifted(made, 2.0)
    assert later.start == made.start + 2
    assert [event.time for event in later.evidence.events] == [e.time + 2 for e in made.evidence.events]
    assert [call.start_ns for call in later.calls.kept] == [c.start_ns + 2 * 10**9 for c in made.calls.kept]
    assert [chain.since for chain in later.chains] == [chain.since + 2 for chain in made.chains]


def host(name: str, ahead_s: float, *, seconds: range = range(30), ranks: bool = True) -> list[Window]:
    """Returns windows of a host whose clock is ``ahead_s`` ahead."""
    found = []
    for number in seconds:
        entered = (number + 1) * 20
        rank = Rank("51e0", "docker:aa", 1, "train", 0, 2, 1, collectives=20, entered=entered)
        made = replace(
            renamed(second(number, rows=3), name),
            evidence=Evidence(ranks=(rank,) if ranks else ()),
        )
        found.append(shifted(made, ahead_s))
    return found


def recording(folder: Path, name: str, windows: Sequence[Window]) -> Path:
    """Writes the windows as a recorder does; returns the path."""
    from stalltop.recordings.write.recording import Recording

    path = folder / f"{name}.stalltop"
    made = Recording(path)
    for one in windows:
        made.add(one)
    made.close()
    return path


def merged(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = cli.main(["merge", *map(str, arguments)])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_recordings_of_two_hosts_merge_onto_one_clock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = host("gpu1", 0.0), host("gpu2", 90.25)
    files = recording(tmp_path, "a", a), recording(tmp_path, "b", b)
    code, out, _ = merged(capsys, *files, "-o", tmp_path / "both.stalltop")
    assert code == 0
    assert "+90250.0 ms ± " in out
    whole = load(tmp_path / "both.stalltop")
    assert whole.host == "gpu1, gpu2"
    assert whole.rows.calls.sum() == sum(one.rows.calls.sum() for one in (*a, *b))
    assert whole.start == pytest.approx(START, abs=0.06)
    with open_file(tmp_path / "both.stalltop") as found:
        assert found.kind == "recording"
        first, other = found.hosts
        assert (first.name, first.clock_offset_ns, other.name) == ("gpu1", 0, "gpu2")
        assert other.clock_offset_ns == pytest.approx(90.25e9, abs=60e6)
        starts = found.moments.start
        assert (np.diff(starts) >= 0).all()
        assert len(starts) == 60


def test_unknown_clock_offsets_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [
        recording(tmp_path, "a", host("gpu1", 0.0, ranks=False)),
        recording(tmp_path, "b", host("gpu2", 5.0, ranks=False)),
    ]
    code, out, _ = merged(capsys, *files, "-o", tmp_path / "one", "--json")
    assert code == 0
    told = json.loads(out)
    assert [each["clock"]["how"] for each in told["hosts"]] == ["reference", "not known"]
    assert told["hosts"][1]["start"] == pytest.approx(START + 5)
    code, out, _ = merged(capsys, *files, "-o", tmp_path / "two", "--offset", "gpu2=5")
    assert "as given" in out
    assert load(tmp_path / "two").seconds == pytest.approx(30)


def test_recordings_of_one_host_merge_into_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    windows = host("gpu1", 0.0, seconds=range(40))
    files = recording(tmp_path, "a", windows[:25]), recording(tmp_path, "b", windows[20:])
    saved = save(merge(windows[3:8]), tmp_path / "saved.stalltop")
    code, out, _ = merged(capsys, files[1], saved, files[0], files[0], "-o", tmp_path / "all")
    assert code == 0
    assert "left out:" in out
    with open_file(tmp_path / "all") as found:
        assert found.moments.start.tolist() == pytest.approx([one.start for one in windows])
        assert found.whole().rows.calls.tolist() == merge(windows).rows.calls.tolist()


def test_two_machines_of_one_name_are_refused_until_one_is_renamed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = (
        recording(tmp_path, "a", host("localhost", 0.0)),
        recording(tmp_path, "b", host("localhost", 0.4)),
    )
    code, _, err = merged(capsys, *files, "-o", tmp_path / "all")
    assert code == 2
    assert "--host-name" in err
    assert not (tmp_path / "all").exists()
    code, _, err = merged(capsys, *files, "-o", tmp_path / "all", "--host-name", f"{files[1]}=other")
    assert code == 0, err
    assert load(tmp_path / "all").host == "localhost, other"


def started(one: Window, seconds_ago: float) -> Window:
    assert one.system is not None
    return replace(one, system=replace(one.system, uptime_seconds=seconds_ago))


def with_memory(one: Window, of_bytes: int) -> Window:
    assert one.system is not None
    return replace(one, system=replace(one.system, memory_total_bytes=of_bytes))


def of_others(one: Window) -> Window:
    """Returns ``one`` with other processes, and without GPUs."""
    keys = tuple(key._replace(pid=key.pid + 5_000) for key in one.rows.keys)
    return replace(one, rows=replace(one.rows, keys=keys), devices=Devices())


def with_gpu(one: Window, uuid: str) -> Window:
    devices = tuple(replace(device, uuid=uuid) for device in one.devices.devices)
    return replace(one, devices=replace(one.devices, devices=devices))


FULL = full_window()


@pytest.mark.parametrize(
    ("other", "two"),
    [
        (FULL, False),
        (shifted(FULL, 0.5), False),
        (with_gpu(FULL, "GPU-of-another"), True),
        (with_memory(FULL, 1 << 30), True),
        (started(FULL, 7.0), False),  # the same processes, so one host, whose clock was set
        (started(of_others(FULL), 7.0), True),
        (of_others(FULL), False),  # the same boot time, so one host, with other calling processes
        (replace(of_others(FULL), system=None), True),
        (replace(FULL, system=None), False),
        (replace(FULL, system=None, rows=Rows.empty()), False),
    ],
)
def test_one_window_suffices_to_detect_two_machines_of_one_name(
    other: Window, two: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert are_two_machines(FULL, other) == are_two_machines(other, FULL) == two
    files = save(FULL, tmp_path / "a"), save(other, tmp_path / "b")
    code, _, err = merged(capsys, *files, "-o", tmp_path / "all")
    assert code == (2 if two else 0)
    assert ("two machines, both named gpu7" in err) == two
    assert (tmp_path / "all").exists() != two


def test_a_full_disk_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(file: BinaryIO) -> sqlite3.Connection:
        connection = connected(file)
        connection.execute("PRAGMA max_page_count = 20")
        return connection

    connected = merging._connected
    monkeypatch.setattr(merging, "_connected", small)
    code, _, err = merged(capsys, save(FULL, tmp_path / "a"), "-o", tmp_path / "all")
    assert code == 1
    assert "all: no space left on the device" in err
    assert sorted(os.listdir(tmp_path)) == ["a"]


def test_unreadable_windows_are_left_out_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recording(tmp_path, "a", host("gpu1", 0.0))
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE counts SET calls = calls + 1 WHERE window_id = 24")
    code, out, err = merged(capsys, path, "--output", tmp_path / "new" / "all")
    assert code == 1
    assert "left out: " in err
    assert f"written: {tmp_path}/new/all, in a new folder, {tmp_path}/new\n" in out
    with open_file(tmp_path / "new" / "all") as found:
        assert len(found.moments) == 29


def test_merge_never_replaces_one_of_its_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(FULL, tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    os.link("a", "other")
    for name in (tmp_path / "a", "./a", "other"):
        code, _, err = merged(capsys, "a", "-o", name, "--force")
        assert code == 2
        assert "is one of the files" in err


def test_a_clock_set_back_loses_no_windows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    windows = [*host("gpu1", 0.0, seconds=range(5)), *host("gpu1", -100.0, seconds=range(5, 10))]
    files = recording(tmp_path, "a", windows), recording(tmp_path, "b", host("gpu2", 0.0))
    assert merged(capsys, *files, "-o", tmp_path / "all")[0] == 0
    with open_file(tmp_path / "all") as found:
        assert len(found.moments) == 40


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--offset", "nobody=1"], "no input file has windows of the host nobody"),
        (["--offset", "gpu2"], "example: gpu2=-1.5"),
        (["--offset", "gpu2=nan"], "a clock offset is at most a year"),
        (["--host-name", "other=x"], "other is not one of the files"),
        (["--to", "a.stalltop"], "is one of the files"),
        (["--to", "taken"], "--force replaces it"),
        (["missing.stalltop"], "cannot read missing.stalltop"),
    ],
)
def test_bad_arguments_are_reported(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    save(window([Calls(key(), [1_000])]), Path("a.stalltop"))
    Path("taken").write_text("mine")
    try:
        code = merged(capsys, *arguments, "a.stalltop", *([] if "--to" in arguments else ["--to", "made"]))
    except SystemExit as ended:
        code = int(str(ended.code)), "", capsys.readouterr().err
    assert code[0] == 2
    assert said in code[2]
    assert Path("taken").read_text() == "mine"
