"""Tests that the trace follows the Trace Event Format and shows calls, counters and chains."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from stalltop.formats.traces import trace
from stalltop.formats.traces.tracks import LEAST_MADE_UP, SliceLine, Tracks
from stalltop.model.calls import CapturedCalls
from stalltop.model.chain import OTHERS, Chain, Link
from stalltop.model.errors import StalltopError
from stalltop.model.hosts.clocks import shifted
from stalltop.model.rows.pivot import pivot
from stalltop.model.window import OpenCall, Window
from tests.windows.by_hand import window
from tests.windows.drawn import FEW, sequences
from tests.windows.exported import hostile, several, span_of
from tests.windows.full import full_window

Events = list[dict[str, Any]]

# Fields of each kind of event with their types (Trace Event Format, "Event descriptions").
FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "X": {"name": str, "cat": str, "pid": int, "tid": int, "ts": float, "dur": float, "args": dict},
    "C": {"name": str, "pid": int, "ts": float, "args": dict},
    "M": {"name": str, "pid": int, "tid": int, "ts": int, "args": dict},
    "i": {"name": str, "cat": str, "pid": int, "tid": int, "ts": float, "s": str, "args": dict},
    "s": {"name": str, "cat": str, "id": int, "pid": int, "tid": int, "ts": float},
    "f": {"name": str, "cat": str, "id": int, "pid": int, "tid": int, "ts": float, "bp": str},
}


def trace_of(found: list[Window]) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(b"".join(trace.pieces(found, span_of(found))).decode("ascii"))
    check(made)
    return made


def check(made: dict[str, Any]) -> None:
    """Checks all properties of the trace that viewers rely on."""
    assert made["displayTimeUnit"] in ("ms", "ns")
    events: Events = made["traceEvents"]
    for event in events:
        fields = FIELDS[event["ph"]]
        assert set(fields) | {"ph"} == set(event), event
        for name, kind in fields.items():
            assert isinstance(event[name], kind), (name, event)
        assert event["ts"] >= 0
        assert 0 < event["pid"] < 1 << 31
        assert 0 < event.get("tid", 1) < 1 << 31
        assert event["name"]
        assert event["name"].isprintable()
    _check_names(events)
    _check_nesting(events)
    _check_arrows(events)
    for event in of(events, "C"):
        assert event["args"]
        assert all(isinstance(value, (int, float)) for value in event["args"].values())
    assert {event["s"] for event in of(events, "i")} <= {"g", "p", "t"}


def of(events: Events, kind: str) -> Events:
    return [event for event in events if event["ph"] == kind]


def _check_names(events: Events) -> None:
    """Checks that each track, and each line of slices on it, is named once, before its first event."""
    processes: set[int] = set()
    threads: set[tuple[int, int]] = set()
    for event in events:
        if event["ph"] == "M":
            if event["name"] == "process_name":
                assert event["pid"] not in processes
                processes.add(event["pid"])
            elif event["name"] == "thread_name":
                assert (event["pid"], event["tid"]) not in threads
                threads.add((event["pid"], event["tid"]))
            continue
        assert event["pid"] in processes
        if event["ph"] in "Xsf":
            assert (event["pid"], event["tid"]) in threads


def _check_nesting(events: Events) -> None:
    """Checks that no two slices of a line overlap in part: viewers drop such slices."""
    lines: dict[tuple[int, int], Events] = defaultdict(list)
    for event in of(events, "X"):
        lines[event["pid"], event["tid"]].append(event)
    for slices in lines.values():
        open_ends: list[int] = []
        times = [(round(one["ts"] * 1000), round((one["ts"] + one["dur"]) * 1000)) for one in slices]
        for start, end in sorted(times, key=lambda time: (time[0], -time[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)


def _check_arrows(events: Events) -> None:
    """Checks that every arrow starts and ends once, at existing slices."""
    starts = {event["id"]: event for event in of(events, "s")}
    ends = {event["id"]: event for event in of(events, "f")}
    assert len(starts) == len(of(events, "s"))
    assert starts.keys() == ends.keys()
    assert len(ends) == len(of(events, "f"))
    for event in (*starts.values(), *ends.values()):
        assert any(
            (one["pid"], one["tid"]) == (event["pid"], event["tid"])
            and one["ts"] <= event["ts"] < one["ts"] + one["dur"]
            for one in of(events, "X")
        )
    for number, event in starts.items():
        assert (event["cat"], event["name"]) == (ends[number]["cat"], ends[number]["name"])
        assert event["ts"] <= ends[number]["ts"]


def names(made: dict[str, Any]) -> dict[int, str]:
    """Returns the names of the tracks."""
    return {
        event["pid"]: event["args"]["name"]
        for event in of(made["traceEvents"], "M")
        if event["name"] == "process_name"
    }


def test_hosts_containers_and_processes_are_tracks() -> None:
    shown = names(trace_of(several()))
    assert Counter(shown.values()) == Counter(
        {
            "host gpu7": 1,
            "container train": 1,
            "container serve": 1,
            "python3 100 (train)": 1,
            "python3 103 (train)": 1,
            "tritonserver 200 (serve)": 1,
        }
    )
    # Tracks of processes use the PID; others use a number that no process can have.
    assert shown[100] == "python3 100 (train)"
    assert all(number >= LEAST_MADE_UP for number, name in shown.items() if name.startswith(("host", "con")))


def test_captured_calls_are_slices_of_their_threads() -> None:
    one = full_window()
    made = trace_of([one])
    slices = {event["args"].get("duration_ns"): event for event in of(made["traceEvents"], "X")}
    assert made["baseTimeNanoseconds"] == 1_700_000_000_250_000_000
    assert one.calls.kept
    for call in one.calls.kept:
        event = slices[call.duration_ns]
        assert event["name"] == call.operation
        assert (event["pid"], event["tid"]) == (call.pid, call.tid)
        assert round(event["ts"] * 1000) == call.start_ns - made["baseTimeNanoseconds"]
        assert round(event["dur"] * 1000) == call.duration_ns
        assert event["args"].get("arguments", "") == call.arguments
        assert event["args"].get("kernel", "") == call.kernel
        assert event["args"]["kept"] == call.why
        if call.split_ns is not None:
            assert sum(event["args"]["split"].values()) == call.duration_ns


def test_the_document_shows_the_output() -> None:
    text = (Path(__file__).resolve().parents[4] / "docs" / "export.md").read_text(encoding="utf-8")
    sample = text.partition("<!-- slice -->")[2].partition("<!-- /slice -->")[0].strip()
    shown = json.loads(sample.removeprefix("```json").removesuffix("```"))
    assert shown in trace_of([full_window()])["traceEvents"]


def test_counters_equal_the_pivot() -> None:
    one = full_window()
    made = trace_of([one])
    shown = names(made)
    counters = {
        (shown[event["pid"]], event["name"]): next(iter(event["args"].values()))
        for event in of(made["traceEvents"], "C")
        if event["ts"] == 0
    }
    groups = pivot(one, ("container",))
    for at, (label,) in enumerate(groups.labels):
        assert counters[f"container {label}", "calls"] == groups.calls_per_s[at]
        assert counters[f"container {label}", "p99"] == groups.p99_ns[at] / 1e6
    assert counters["container serve", "errors"] == 0.5
    assert counters["host gpu7", "CPUs busy"] == 37.5
    assert counters["host gpu7", "GPU 0 busy"] == 97.0
    assert counters["host gpu7", "GPU 0 SMs active"] == 81.5
    assert counters["host gpu7", "calls missed"] == one.lost


def test_counters_are_written_on_change_and_end_at_zero() -> None:
    made = trace_of(several(5, gap=20.0))
    shown = names(made)
    calls = [
        (event["ts"] / 1e6, event["args"]["/s"])
        for event in of(made["traceEvents"], "C")
        if shown[event["pid"]] == "container train" and event["name"] == "calls"
    ]
    # Five equal windows, the last one after a gap of twenty seconds.
    assert calls == [(0.0, 3.0), (8.0, 0.0), (28.0, 3.0), (30.0, 0.0)]
    gaps = [event for event in of(made["traceEvents"], "X") if event["cat"] == "gap"]
    assert [(event["name"], event["ts"] / 1e6, event["dur"] / 1e6) for event in gaps] == [
        ("not recorded", 8.0, 20.0)
    ]


def test_consecutive_windows_leave_no_gap() -> None:
    made = trace_of([window([], start=1_000.0 + number * 1.01) for number in range(5)])
    assert not of(made["traceEvents"], "X")


def test_an_open_call_is_one_slice_over_several_windows() -> None:
    made = trace_of(several(5, gap=0.0))
    slices = [event for event in of(made["traceEvents"], "X") if event["name"] == "ncclCommInitRank"]
    assert len(slices) == 1
    # The call began 42 s before the end of the first window, 40 s before the recording; its slice is cut.
    assert (slices[0]["ts"], slices[0]["dur"]) == (0.0, 10e6)
    assert slices[0]["args"]["began_unix_s"] == pytest.approx(1_700_000_002.25 - 42)
    assert "not returned" in slices[0]["args"]["ended"]
    dead = [event for event in of(made["traceEvents"], "X") if event["name"] == "cuCtxSynchronize"]
    assert dead
    assert all("thread ended" in event["args"]["ended"] for event in dead)


def test_an_open_call_that_returned_and_was_captured_has_one_slice() -> None:
    one = full_window()
    kept = one.calls.kept[0]
    end = round(one.end * 1e9)
    hanging = OpenCall(
        kept.tenant, kept.pid, kept.tid, kept.process, kept.layer, kept.operation, 1_500_000_000, kept.nested
    )
    first = replace(one, calls=CapturedCalls(), open_calls=(hanging,))
    whole = kept._replace(start_ns=end - 1_500_000_000, duration_ns=2_500_000_000, split_ns=None)
    second = replace(one, start=one.end, calls=CapturedCalls([whole]), open_calls=())
    slices = [
        event for event in of(trace_of([first, second])["traceEvents"], "X") if event["tid"] == kept.tid
    ]
    assert [event["dur"] for event in slices] == [2.5e6]


def test_short_open_calls_are_left_out() -> None:
    one = full_window()
    call = OpenCall("docker:aa", 100, 101, "python3", "driver", "cuStreamSynchronize", 3_000_000)
    made = trace_of([replace(one, open_calls=(call,), calls=CapturedCalls())])
    assert "cuStreamSynchronize" not in {event["name"] for event in of(made["traceEvents"], "X")}


def test_a_chain_is_a_slice_with_an_arrow_from_its_culprit() -> None:
    found = several(5, gap=0.0)
    made = trace_of(found)
    shown = names(made)
    chain = found[0].chains[0]
    slices = [event for event in of(made["traceEvents"], "X") if event["name"] == chain.title]
    assert len(slices) == 1
    (loses,) = slices
    assert shown[loses["pid"]] == "container serve"
    # The chain began before the recording, so its slice starts with the recording.
    assert (loses["ts"], loses["args"]["since_unix_s"]) == (0.0, chain.since)
    assert round(loses["dur"] * 1000) == 9_750_000_000
    assert loses["args"]["summary"] == chain.summary
    assert loses["args"]["what_helps"] == [fix.text for fix in chain.fixes]
    arrow = {event["ph"]: event for event in made["traceEvents"] if event["ph"] in "sf"}
    assert shown[arrow["s"]["pid"]] == "container train"
    assert (arrow["f"]["pid"], arrow["f"]["tid"]) == (loses["pid"], loses["tid"])


def test_culprits_that_are_not_named_have_no_track() -> None:
    (one,) = several(1)
    rest = Link("culprit", "others, 9 processes", share=0.2, process=OTHERS, depth=2)
    chain = one.chains[0]
    more = replace(one, chains=(replace(chain, links=(*chain.links, rest)), *one.chains[1:]))
    arrows = [[event for event in trace_of([of])["traceEvents"] if event["ph"] in "sf"] for of in (one, more)]
    assert arrows[0]
    assert arrows[0] == arrows[1]


def test_a_chain_that_ended_before_the_recording_is_left_out() -> None:
    one = full_window()
    over = replace(one.chains[0], since=one.start - 30, seen=one.start - 20, open=False)
    assert not [
        event for event in trace_of([replace(one, chains=(over,))])["traceEvents"] if event["ph"] == "s"
    ]


def test_simultaneous_chains_have_separate_lines() -> None:
    one = full_window()

    def chain(number: int) -> Chain:
        return replace(
            one.chains[0], id=f"{number}", since=one.start + number / 10, seen=one.start + 1 + number / 10
        )

    made = trace_of([replace(one, chains=tuple(chain(number) for number in range(5)))])
    lines = [event["tid"] for event in of(made["traceEvents"], "X") if "chain" in event["cat"]]
    assert len(set(lines)) == len(lines) == 5


def test_a_chain_that_returns_is_a_second_slice() -> None:
    one = full_window()
    again = replace(one.chains[0], since=one.start + 10, seen=one.start + 12)
    over = replace(one.chains[0], id=f"{again.id}@{one.chains[0].since:.0f}", open=False)
    made = trace_of([one, replace(one, start=one.start + 10, chains=(again, over))])
    slices = [event for event in of(made["traceEvents"], "X") if event["name"] == again.title]
    assert len(slices) == 2
    assert slices[0]["tid"] == slices[1]["tid"]


def test_hostile_names_are_escaped() -> None:
    made = trace_of([hostile(), replace(hostile(), start=1_700_000_002.25)])
    text = json.dumps(made)
    assert "\\udc" not in text
    assert "\\u001b" not in text
    assert "\\u0000" not in text


def test_an_empty_export_is_a_trace() -> None:
    assert trace_of([])["traceEvents"] == []
    assert trace_of([window([])])


@FEW
@given(sequences())
def test_any_windows_make_a_valid_trace(found: list[Window]) -> None:
    trace_of(found)


def test_windows_of_several_hosts_have_separate_tracks() -> None:
    one = full_window()
    other = replace(
        one,
        host="gpu8",
        rows=replace(one.rows, keys=tuple(key._replace(host="gpu8") for key in one.rows.keys)),
    )
    shown = names(trace_of([one, other]))
    assert Counter(shown.values())["python3 100 (train)"] == 2
    assert {name for name in shown.values() if name.startswith("host")} == {"host gpu7", "host gpu8"}


def test_after_a_clock_was_set_back_all_events_keep_their_time() -> None:
    one = full_window()
    found = [one, shifted(one, -1_000.0)]
    made = trace_of(found)
    assert made["baseTimeNanoseconds"] == pytest.approx(found[1].start * 1e9, abs=1_000)
    for told in found:
        call = told.calls.kept[0]
        at = (call.start_ns - made["baseTimeNanoseconds"]) / 1000
        begun = [event["ts"] for event in made["traceEvents"] if event["ph"] == "X" and event["dur"] > 0]
        assert pytest.approx(at) in begun


def test_a_trace_too_large_for_viewers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MOST_BYTES", 10_000)
    with pytest.raises(StalltopError, match="larger than") as told:
        b"".join(trace.pieces(several(50), span_of(several(50))))
    assert "--every" in told.value.remedy


def test_a_line_takes_slices_that_do_not_overlap() -> None:
    line = SliceLine()
    assert line.takes(10, 20, within=True)
    assert line.takes(12, 15, within=True)
    assert not line.takes(12, 15, within=False)
    assert not line.takes(15, 25, within=True)
    assert line.takes(20, 25, within=False)
    assert line.takes(0, 30, within=True)
    assert not line.takes(5, 12, within=True)


def test_overlapping_slices_get_a_second_line() -> None:
    tracks = Tracks()
    track = tracks.process("h", "docker:aa", "train", 100, "python3")
    assert tracks.line(track, 101, "thread 101", 0, 10, within=True) == 101
    beside = tracks.line(track, 101, "thread 101", 5, 15, within=True)
    assert beside >= LEAST_MADE_UP
    told = [event["args"].get("name") for event in tracks.take_named()]
    assert told == ["python3 100 (train)", None, "thread 101", "thread 101, beside (2)"]
    assert list(tracks.take_named()) == []
