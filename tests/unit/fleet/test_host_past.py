"""Tests that the past of one host can be read from the fleet: what the server keeps, and before that what the
host has recorded itself."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stalltop.cli import main as cli
from stalltop.cli.fleet.host_past import _ahead, host_answer, host_windows
from stalltop.cli.fleet.options import VARIABLE
from stalltop.cli.fleet.past import past_named
from stalltop.cli.fleet.recorded import HostRecording
from stalltop.fleet.answers import TOO_LARGE, AnswerError, HostAnswers, PastWindow
from stalltop.fleet.connection import FleetError, ServerAccess
from stalltop.model.errors import UsageError
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.merge.merging import merge
from stalltop.model.window import Window
from stalltop.recordings.write.recording import Recording
from tests.unit.fleet.clients import agent, second, until

SECONDS, LONG_AGO, PAUSE = 900, 300, 120


@dataclass
class HostWithPast:
    """A host that has recorded ``SECONDS`` up to ``now``."""

    now: float
    answers: HostAnswers

    def second(self, number: int) -> Window:
        return second(number, start=self.now - SECONDS)


@pytest.fixture(params=[0.0])
def host(tmp_path: Path, request: pytest.FixtureRequest) -> HostWithPast:
    """Returns a host that recorded windows of 1 s, and, long ago, of 10 s: without two minutes in between."""
    path, now = tmp_path / "recording.stalltop", time.time() + request.param
    recording = HostRecording(path)
    made = HostWithPast(now, HostAnswers(recording.window, recording.query))
    recorder = Recording(path)
    for number in range(0, LONG_AGO, 10):
        recorder.add(merge([made.second(one) for one in range(number, number + 10)]))
    for number in range(LONG_AGO + PAUSE, SECONDS):
        recorder.add(made.second(number))
    recorder.close()
    return made


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, int]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("host", [0.0, 1200.0, -1200.0], indirect=True)
def test_windows_of_the_server_and_of_the_host_fit_together(
    access: ServerAccess, cluster: str, host: HostWithPast
) -> None:
    address = HostAddress(cluster, "r", "n1")
    said: list[str] = []
    with agent(access, address, answers=host.answers) as made:
        # The server lacks the beginning, which ends within a recorded window of 10 s, and some seconds later
        # on; and it has two seconds within a recorded window of 10 s. Windows that were late come after newer
        # ones.
        late = [*range(LONG_AGO - 13, LONG_AGO), *range(200, 220), 101, 102, *range(855, 867)]
        stored = [*range(880, SECONDS), *late]
        for number in stored:
            made.take(host.second(number))
        until(lambda: made.sent == len(stored))
        windows = host_windows(access, address, SECONDS - 1.0, said.append)
    (line,) = said
    assert f"{PAUSE:.0f} s of the past" in line
    assert "neither the server nor the recording" in line
    assert sum(int(one.rows.calls.sum()) for one in windows) == 3 * (SECONDS - PAUSE)
    assert [one.start for one in windows] == sorted(one.start for one in windows)
    # Those of the server, but for what a recorded window of 10 s has as well.
    seconds = {round(one.start - host.second(0).start) for one in windows if one.seconds == 1.0}
    assert {*stored} - {101, 102, 287, 288, 289} <= seconds


def test_without_its_agent_a_host_has_what_the_server_keeps(
    access: ServerAccess, cluster: str, host: HostWithPast
) -> None:
    address = HostAddress(cluster, "r", "n1")
    said: list[str] = []
    with agent(access, address, answers=host.answers) as made:
        for number in range(SECONDS - 20, SECONDS):
            made.take(host.second(number))
        until(lambda: made.sent == 20)
    windows = host_windows(access, address, SECONDS, said.append)
    assert [one.start for one in windows] == [host.second(at).start for at in range(SECONDS - 20, SECONDS)]
    assert f"{SECONDS - 20 - 1} s of the past" in said[0] or f"{SECONDS - 20} s of the past" in said[0]
    assert "no agent of it is connected" in said[0]
    with pytest.raises(FleetError, match=r"nothing is known .* no agent of it is connected"):
        host_windows(access, address._replace(host="other"), 20.0, said.append)


def test_of_what_is_too_large_the_parts_are_asked_for(
    access: ServerAccess, cluster: str, host: HostWithPast
) -> None:
    def window(at: float, seconds: float) -> PastWindow | None:
        if seconds > 3.0:
            raise AnswerError("the window is too large", TOO_LARGE)
        assert host.answers.window is not None
        return host.answers.window(at, seconds)

    address = HostAddress(cluster, "r", "n1")
    with agent(access, address, [], answers=HostAnswers(window)):
        until(lambda: answers(access, address))
        windows = host_windows(access, address, 61.5 + time.time() - host.now, print)
    assert sum(int(one.rows.calls.sum()) for one in windows) == 3 * 62
    assert max(one.seconds for one in windows) <= 4.0


def test_a_host_takes_the_place_of_a_file(
    access: ServerAccess,
    cluster: str,
    host: HostWithPast,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv(VARIABLE, access.urls[0])
    place = f"fleet:{cluster}/r/n1"
    sql = "SELECT SUM(calls) AS n FROM operations"
    address = HostAddress(cluster, "r", "n1")
    with agent(access, address, [], answers=host.answers):
        until(lambda: answers(access, address))
        # SQL is answered by the host, on all that it has recorded.
        assert cli.main(["query", place, sql, "--format", "jsonl"]) == 0
        assert lines(capsys) == [{"n": 3 * (SECONDS - PAUSE)}]
        for arguments, reason in (
            ([f"{place}@10m", sql], "without @TIME"),
            ([place, sql, "--check"], "is for files"),
            ([place, sql, "--limit-seconds", "60"], "at most 20 s"),
            ([place, "DROP TABLE windows"], "SELECT"),
            ([f"{place}2", sql], "no agent of it is connected"),
        ):
            assert cli.main(["query", *arguments]) in (1, 2)
            assert reason in capsys.readouterr().err
        # Other commands get the windows.
        file = tmp_path / "lines.json"
        assert cli.main(["export", f"{place}@1h", "--to", "json", "-o", str(file)]) == 0
        documents = list(map(json.loads, file.read_text().splitlines()))
        assert sum(row["calls"] for one in documents for row in one["operations"]) == 3 * (SECONDS - PAUSE)
        assert cli.main(["explain", f"{place}@10m"]) == 0


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({"columns": ["n"], "rows": [[1, 2]], "warnings": []}, "do not fit"),
        ({"columns": ["n"], "rows": [[[]]], "warnings": []}, "do not fit"),
        ({"columns": [1], "rows": [], "warnings": []}, "a text is none"),
        ({"columns": 5, "rows": [], "warnings": []}, "cannot be read"),
        ([], "cannot be read"),
    ],
)
def test_answers_that_fit_nothing_are_refused(
    access: ServerAccess, cluster: str, found: Any, reason: str
) -> None:
    address = HostAddress(cluster, "r", "n1")
    with agent(access, address, answers=HostAnswers(query=lambda sql, seconds: found)) as made:
        until(lambda: made.connected)
        until(lambda: answers(access, address))
        with pytest.raises(FleetError, match=reason):
            host_answer(access, address, "SELECT 1", 5.0)


def answers(access: ServerAccess, address: HostAddress) -> bool:
    """Returns whether the agent of a host answers."""
    try:
        host_answer(access, address, "SELECT 1", 5.0)
    except FleetError as error:
        return "no agent" not in error.reason
    return True


def test_a_host_that_sends_another_time_is_not_asked_again(
    access: ServerAccess, cluster: str, host: HostWithPast
) -> None:
    asked: list[float] = []

    def window(at: float, seconds: float) -> PastWindow:
        asked.append(at)
        one = second(0, start=host.now - 86_400)
        return PastWindow(one, one.start, one.end)

    address = HostAddress(cluster, "r", "n1")
    with agent(access, address, answers=HostAnswers(window)) as made:
        until(lambda: made.connected)
        until(lambda: answers(access, address))
        with pytest.raises(FleetError, match="a window of another time"):
            host_windows(access, address, 60.0, print)
    assert len(asked) == 1


def test_a_window_that_is_too_large_is_left_out_and_told(
    access: ServerAccess, cluster: str, host: HostWithPast
) -> None:
    asked: list[float] = []

    def window(at: float, seconds: float) -> PastWindow | None:
        asked.append(seconds)
        assert host.answers.window is not None
        found = host.answers.window(at, seconds)
        if found is None or not found.start <= host.second(850).start + 0.5 < found.end:
            return found
        start = found.start if found.parts == 1 else None
        raise AnswerError("the window is too large", TOO_LARGE, start)

    address, said = HostAddress(cluster, "r", "n1"), list[str]()
    with agent(access, address, [], answers=HostAnswers(window)):
        until(lambda: answers(access, address))
        windows = host_windows(access, address, 101.5 + time.time() - host.now, said.append)
    starts = {round(one.start - host.second(0).start) for one in windows}
    assert sum(int(one.rows.calls.sum()) for one in windows) == 3 * 101
    assert 850 not in starts
    assert len(asked) < 60


def test_clocks_that_differ_are_noticed() -> None:
    now = 1_800_000_000.0

    def found(*times: tuple[float, float]) -> float:
        return _ahead([(second(0, start=now + end - 1.0), now + at) for end, at in times], now)

    assert found() == 0.0
    assert found((-2.0, -2.0), (-1.0, -1.0), (-600.0, 0.0)) == 0.0, "the last one was sent late"
    assert found((-301.0, -300.0), (-300.0, -300.0)) == 0.0, "the host has sent nothing for a while"
    assert found((1198.0, -2.0), (1199.0, -1.0)) == 1199.0
    assert found((-1202.0, -2.0), (-1201.0, -1.0)) == -1200.0
    assert found((-2.0, -32.0), (-1.0, -31.0)) == 0.0, "the server's clock is behind"


@pytest.mark.parametrize("name", ["prod/r7", "prod//n1", "a/b/c/d", "prod/r7/n1@tomorrow"])
def test_other_names_are_refused_with_examples(name: str) -> None:
    with pytest.raises(UsageError, match="examples: fleet:prod@2h"):
        past_named(name)


def test_names_say_what_is_meant() -> None:
    assert past_named("") == ("", 3600.0, None)
    assert past_named("prod@2h") == ("prod", 7200.0, None)
    assert past_named("prod/r7/n1@10m") == ("prod", 600.0, HostAddress("prod", "r7", "n1"))
