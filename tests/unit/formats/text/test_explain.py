"""Tests chains in full, as text and as JSON, and the command ``stalltop explain``."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from stalltop.cli import host
from stalltop.cli import main as cli
from stalltop.cli.whole_file import chains_of
from stalltop.formats.documents.explain import SCHEMA, explain_document
from stalltop.formats.documents.window import chain_document, document
from stalltop.formats.text.chains import about, branches, step
from stalltop.formats.text.explain import explain_text
from stalltop.model.chain import Chain, Fix, Link
from stalltop.model.devices.device import Devices
from stalltop.model.evidence import Evidence
from stalltop.model.text.glyphs import ASCII, UNICODE, Glyphs
from stalltop.model.text.style import Style
from stalltop.model.window import Coverage, Window
from stalltop.recordings.write.saving import save
from tests.windows.by_hand import Calls, key, window
from tests.windows.full import CHAINS, full_window
from tests.windows.recordings import following, record

DOCS = Path(__file__).resolve().parents[4] / "docs" / "json.md"


def text(one: Window, width: int = 100, *, glyphs: Glyphs = UNICODE) -> str:
    return explain_text(one, one.chains, Style(width, False, glyphs))


def healthy() -> Window:
    return window([Calls(key(), [5_000] * 40), Calls(key("cudaFree"), [7_000])])


def test_a_chain_reads_from_the_effect_to_its_root() -> None:
    lines = text(full_window()).splitlines()
    assert lines[0].startswith("stalltop gpu7  ")
    first = next(at for at, line in enumerate(lines) if line.startswith("HIGH"))
    assert "serve loses time between its calls to train (155 ms of each second, since " in lines[first]
    assert lines[first + 3 : first + 12] == [
        "         160ms/s time between calls",
        "  97.0%  155ms/s └─ waits for a CPU",
        "  99.0%  154ms/s    └─ train has the CPU (python3 100)",
        "                       └─ writes without end (python3 100, train, nvme0n1)",
        "  made worse by: two CPUs only",
        "  not known: who had the CPU for the rest of the time",
        "  fix 1: keep train off the CPUs of serve",
        "    $ taskset -acp 1 100",
        "  fix 2: give train fewer workers",
    ]
    said = "\n".join(lines)
    assert "p99 60.0ms, baseline 4.00ms" in " ".join(said.split())
    assert re.search(r"CRITICAL +the kernel killed worker of serve \(since \S+, ended \S+\)", said)
    assert "Found: 1 going on, 1 ended. Examined: 11 calls" in said
    assert "not measured here\n  CFS throttling of cri:bb" in said


def test_a_p99_at_its_baseline_is_not_compared_with_it() -> None:
    quick = replace(CHAINS[0], p99_ns=4_000_000, normal_p99_ns=4_001_000)
    assert "p99 4.00ms, " in about(quick, UNICODE)
    assert "normal" not in about(quick, UNICODE).partition("p99")[2]
    slow = replace(quick, normal_p99_ns=3_000_000)
    assert "baseline 3.00ms (33% slower than usual for this program)" in about(slow, UNICODE)
    assert chain_document(slow)["slower_percent"] == pytest.approx(100 / 3)
    for unknown in (quick, replace(slow, normal_p99_ns=None), replace(slow, p99_ns=None)):
        assert chain_document(unknown)["slower_percent"] is None
    assert "no baseline" in about(replace(quick, normal_p99_ns=None), UNICODE)


def test_links_that_differ_only_by_process_show_the_pid() -> None:
    link = Link("mechanism", "python3 waits", tenant=CHAINS[0].tenant, pid=CHAINS[0].pid, process="python3")
    other = replace(link, pid=link.pid + 1)
    both = replace(CHAINS[0], links=(link, other))
    assert step(link, both, full_window()) == f"python3 waits (pid {link.pid})"
    assert step(other, both, full_window()) == f"python3 waits (pid {link.pid + 1})"
    assert step(link, replace(both, links=(link,)), full_window()) == "python3 waits"


def test_a_healthy_window_says_what_was_examined() -> None:
    said = text(healthy())
    assert "No problems detected. Examined: 41 calls, 2 operations, 1 process, 1 tenant." in said
    bound = replace(CHAINS[0], severity="info")
    assert "No problems detected." in text(replace(healthy(), chains=(bound,)))


def test_an_empty_window_is_not_called_healthy() -> None:
    assert "Nothing to explain: no CUDA or NCCL call returned in 1.0 s." in text(window())
    blind = replace(window(), coverage=Coverage(tracing="not root"))
    assert "not tracing: not root" in text(blind)
    assert explain_document(blind, ())["healthy"] is None


def test_the_json_object_has_chains_and_fixes() -> None:
    printed = explain_document(full_window(), full_window().chains)
    assert json.loads(json.dumps(printed, allow_nan=False)) == printed
    assert printed["schema"] == SCHEMA == "stalltop.explain/1"
    assert printed["healthy"] is False
    assert [chain["id"] for chain in printed["chains"]] == [chain.id for chain in CHAINS]
    chain = printed["chains"][0]
    assert chain["links"][2]["role"] == "culprit"
    command = "taskset -acp 1 100"
    text = "keep train off the CPUs of serve"
    assert chain["fix"][0] == {"text": text, "command": command, "look": False, "short": ""}
    assert chain["rows"][0]["operation"] == "host gap"
    assert explain_document(healthy(), ())["healthy"] is True


def test_the_json_object_has_the_sharing_of_each_device() -> None:
    (device,) = explain_document(full_window(), ())["devices"]
    (whole,) = document(full_window())["devices"]
    assert device["sharing"] == whole["sharing"]


def test_every_field_is_documented() -> None:
    described = set(re.findall(r"`([^`]+)`", DOCS.read_text()))
    printed = explain_document(full_window(), full_window().chains)
    assert set(printed) | set(printed["looked_at"]) <= described


def test_the_worst_chain_comes_first_and_ended_ones_last() -> None:
    low, closed = replace(CHAINS[0], id="low", severity="low"), CHAINS[1]
    one = replace(healthy(), chains=(closed, low, CHAINS[0]))
    assert [chain["id"] for chain in explain_document(one, one.chains)["chains"]] == [
        CHAINS[0].id,
        "low",
        closed.id,
    ]
    said = text(one)
    assert said.index("HIGH") < said.index("LOW") < said.index("CRITICAL")


def test_information_comes_after_problems_and_what_ended_before_the_window_is_left_out() -> None:
    one = healthy()
    info = replace(CHAINS[0], id="info", severity="info")
    ended = replace(CHAINS[1], id="ended", open=False, seen=one.start + 0.5)
    before = replace(ended, id="before", seen=one.start - 300)
    one = replace(one, chains=(info, before, ended, CHAINS[0]))
    document = explain_document(one, chains_of(one))
    assert [chain["id"] for chain in document["chains"]] == [CHAINS[0].id, "ended", "info"]


DEPTHS = st.lists(st.integers(0, 40), min_size=1, max_size=12)
GLYPHS = st.sampled_from([UNICODE, ASCII])


@given(DEPTHS, GLYPHS)
def test_a_tree_of_any_shape_is_drawn(depths: list[int], glyphs: Glyphs) -> None:
    links = [Link("mechanism", f"step {at}", depth=depth) for at, depth in enumerate(depths)]
    corner, tee, pipe = ("└─ ", "├─ ", "│  ") if glyphs is UNICODE else ("`- ", "|- ", "|  ")
    for at, depth in enumerate(depths):
        branch, below = branches(links, at, glyphs)
        if depth == 0:
            assert branch == ""
            continue
        assert len(branch) == 3 * min(depth, 8)
        assert {branch[i : i + 3] for i in range(0, len(branch) - 3, 3)} <= {pipe, "   "}
        later = next((other for other in depths[at + 1 :] if other <= depth), None)
        if depth < 8:
            assert branch[-3:] == (tee if later == depth else corner)
        assert below.startswith(branch[:-3])


WORDS = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=40)


@given(st.lists(WORDS, min_size=1, max_size=6), DEPTHS, st.integers(10, 140), GLYPHS)
def test_only_commands_are_wider_than_the_terminal(
    words: list[str], depths: list[int], width: int, glyphs: Glyphs
) -> None:
    long = " ".join(words)
    chain = replace(
        CHAINS[0],
        summary=long,
        title=long,
        process=words[0],
        links=tuple(Link("culprit", long, 0.5, 1e6, "x", 1, words[0], depth=depth) for depth in depths),
        fixes=(Fix(long, "c" * 300),),
        unknown=(long,),
    )
    one = replace(full_window(), chains=(chain,), evidence=Evidence(unknown=(long,)))
    said = text(one, width, glyphs=glyphs)
    lines = [line for line in said.splitlines() if not line.startswith("    $ ")]
    assert max(cell_len(line) for line in lines) <= max(width, 40)
    assert "    $ " + "c" * 300 in said.splitlines()
    assert glyphs is UNICODE or said.isascii()


@given(st.text(st.characters(exclude_categories=["C", "Z"]), max_size=200), st.integers(1, 90))
def test_folding_loses_no_words(words: str, width: int) -> None:
    lines = Style(width, False, UNICODE).folded("> ", words)
    assert "".join(line[2:] for line in lines).replace(" ", "") == "".join(words.split())


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        code = cli.main(arguments)
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_saved_window_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(full_window(), tmp_path / "w.stalltop")
    code, out, err = run(["explain", str(path)], capsys)
    assert (code, err) == (0, "")
    assert "train has the CPU" in out
    code, out, err = run(["explain", str(path), "--json"], capsys)
    assert (code, err) == (0, "")
    assert json.loads(out)["chains"][0]["id"] == CHAINS[0].id
    path = save(healthy(), tmp_path / "healthy.stalltop")
    code, out, err = run(["explain", str(path)], capsys)
    assert (code, err) == (0, "")
    assert "No problems detected." in out


@pytest.mark.parametrize(
    "arguments",
    [["/no/such/file.stalltop"], [str(DOCS)], ["--seconds", "0"], ["--no-such"], ["a", "b"], ["--js"]],
)
def test_bad_arguments_end_with_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(["explain", *arguments], capsys)
    assert (code, out) == (2, "")
    assert "stalltop" in err
    assert "Traceback" not in err


class UntraceableMonitor:
    """Monitors a host where tracing is impossible."""

    def __init__(self) -> None:
        from stalltop.model.errors import TracingError

        self.cannot_trace = TracingError("not root", "use sudo")
        self.closed = False

    def read(self) -> Window:
        return replace(
            window(), coverage=Coverage(tracing="not root"), devices=Devices(unavailable="no driver")
        )

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("as_json", [False, True])
def test_where_tracing_is_impossible_it_ends_with_exit_code_3(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monitor = UntraceableMonitor()
    monkeypatch.setattr("stalltop.probes.monitor.Monitor", lambda _: monitor)
    code, out, err = run(["explain", *["--json"] * as_json], capsys)
    assert (code, err) == (3, "stalltop: not root\n  use sudo\n")
    assert monitor.closed
    if as_json:
        assert json.loads(out)["tracing"] == "not root"
    else:
        assert "not tracing: not root" in out


class TraceableMonitor:
    """Monitors a host where tracing works."""

    cannot_trace = None

    def __init__(self) -> None:
        self.reads = 0
        self.closed = False

    def read(self) -> Window:
        self.reads += 1
        return window([Calls(key(), [1_000])], start=1_000.0 + self.reads, seconds=1.0)

    def close(self) -> None:
        self.closed = True


def test_chains_of_the_whole_run_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monitor = TraceableMonitor()

    class Followed:
        """Stands for the diagnosis: its chain is open in the first window, and has ended by the last
        window."""

        def read(self) -> Window:
            chain = replace(CHAINS[0], open=monitor.reads < 1)
            return replace(monitor.read(), chains=(chain,))

        def close(self) -> None:
            monitor.close()

    def followed(source: object, *, keep: bool, tell: object) -> Followed:
        assert source is monitor
        assert keep is False
        return Followed()

    monkeypatch.setattr("stalltop.probes.monitor.Monitor", lambda _: monitor)
    monkeypatch.setattr(host, "diagnosed", followed)
    code, out, err = run(["explain", "--seconds", "0.3", "--no-state"], capsys)
    assert (code, err) == (0, "")
    assert monitor.closed
    said = " ".join(out.split())
    assert re.search(r"HIGH serve loses .* to train \(155 ms of each second, since \S+, ended \S+\)", said)


def test_a_window_without_chains_is_diagnosed_from_its_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Window] = []

    def explain(one: Window) -> tuple[Chain, ...]:
        asked.append(one)
        return CHAINS[:1]

    monkeypatch.setattr("stalltop.diagnosis.engine.explain", explain)
    one = healthy()
    assert chains_of(one) == CHAINS[:1]
    assert asked == [one]
    assert chains_of(full_window()) == CHAINS
    assert asked == [one]


def test_a_recording_is_explained_by_the_chains_of_all_windows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    windows = [replace(one, chains=()) for one in following(5)]
    windows[2] = replace(windows[2], chains=CHAINS[:1])
    path = record(tmp_path / "r.stalltop", windows)
    code, out, err = run(["explain", str(path), "--no-state"], capsys)
    assert (code, err) == (0, "")
    assert re.search(r"HIGH +serve loses", out)


def test_a_damaged_window_of_a_recording_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = record(tmp_path / "r.stalltop", following(3))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE counts SET calls = calls + 1 WHERE window_id = 2")
    code, _, err = run(["explain", str(path), "--no-state"], capsys)
    assert code == 0
    assert "left out: " in err
    assert "the window of" in err


def test_options_have_their_defaults() -> None:
    options = cli.parsed(["explain"])
    assert isinstance(options, argparse.Namespace)
    assert (options.seconds, options.state, options.file) == (5.0, True, None)
    assert cli.parsed(["once", "--no-state"]).state is False
    assert cli.parsed(["live"]).state is True
