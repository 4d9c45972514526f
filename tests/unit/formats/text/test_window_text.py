"""Tests a window as printed text: what it contains, what is cut, and that lines fit the terminal."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from stalltop.formats.text.window import MOST_ROWS, table
from stalltop.model.devices.device import Devices
from stalltop.model.evidence import Charge, Evidence
from stalltop.model.tenant import Tenant
from stalltop.model.text.glyphs import ASCII, UNICODE, Glyphs
from stalltop.model.text.style import Style
from stalltop.model.window import LOSSES, Coverage, Missing, OpenCall, Window
from tests.windows.by_hand import Calls, key, window
from tests.windows.drawn import FEW, windows
from tests.windows.full import CHAINS, full_window

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def plain(one: Window, width: int = 80) -> str:
    return table(one, Style(width, False, UNICODE))


def lines_with(text: str, word: str) -> list[str]:
    return [line for line in text.splitlines() if word in line]


def test_a_full_window_prints_everything() -> None:
    text = plain(full_window(), 120)
    head = text.splitlines()[0]
    for word in ("stalltop gpu7", "2.0 s", "5.50 calls/s", "3 missed", "412 probes", "0.8% of a CPU"):
        assert word in head
    for word in (
        "CPU 37.5% of 2  memory 5.00GiB of 16.0GiB",
        "GPU 0 NVIDIA H100 80GB HBM3  97.0% busy",
        "throttled: sw power cap",
        "42.0s  ncclCommInitRank  serve  tritonserver 200, thread 203",
        "/opt/app/infer (process 4242 of serve):  static CUDA runtime without symbols",
        "calls not counted: no histogram slot left for their process",
        "not measured\nCFS throttling of cri:bb: its cgroup has no cpu.stat\n",
    ):
        assert word in text
    assert lines_with(text, "train   ") == [
        "train               3.00 6.01µs 2.00ms 2.00ms 2.00ms 2.94ms  1.0%     0  4.19MB run 100%"
    ]
    (sync,) = lines_with(text, "cudaStreamSynchronize")
    assert sync.split()[1:] == [
        "1.50",
        "18.1ms",
        "250ms",
        "250ms",
        "250ms",
        "283ms",
        "98.9%",
        "1",
        "0B",
        "run",
        "100%",
    ]
    assert lines_with(text, "cuLaunchKernel") == []
    assert "not listed: 1 operation inside these calls, which include their time" in text
    assert "cuStreamSynchronize" not in text, "a call open for less than a second must not be listed"


def test_losses_are_not_cut_at_a_narrow_width() -> None:
    words = " ".join(plain(replace(full_window(), loss=dict.fromkeys(LOSSES, 1)), 60).split())
    assert all(meaning in words for meaning in LOSSES.values())


def test_the_bytes_column_gives_way_to_whole_names() -> None:
    for width, bytes_shown in ((100, False), (120, True)):
        lines = plain(full_window(), width).splitlines()
        head = next(line for line in lines if line.startswith("operation "))
        assert ("bytes/s" in head) == bytes_shown
        assert "time went to" in head
        assert any(line.startswith("cudaStreamSynchronize ") for line in lines)


def test_eighty_columns_hold_every_column_of_the_table() -> None:
    (head,) = lines_with(plain(full_window()), "operation    ")
    assert " ".join(head.split()) == "operation calls/s p50 p95 p99 max total share err bytes/s"
    assert lines_with(plain(full_window()), "HtoD"), "a name that is cut must keep its end"


def test_rows_are_sorted_by_time() -> None:
    tables = plain(full_window()).partition("who shares")[0]
    found = [line.split()[0] for line in tables.splitlines() if re.match(r"(serve|train) ", line)]
    assert found == ["serve", "train"]


def test_many_rows_are_cut_and_counted() -> None:
    calls = [Calls(key(f"cudaOperation{number:02}"), [1_000 * (number + 1)]) for number in range(30)]
    text = plain(window(calls))
    assert len(lines_with(text, "cudaOp")) == MOST_ROWS
    assert "and 10 more" in text
    assert "cudaOperation29" in text
    assert "cudaOperation00" not in text


@pytest.mark.parametrize(
    ("coverage", "expected"),
    [
        (Coverage(), ["No process has a CUDA or NCCL library loaded.", "stalltop demo"]),
        (Coverage(tracing="not root"), ["not tracing: not root", "stalltop check"]),
        (full_window().coverage, ["No CUDA or NCCL call returned in 1.0 s.", "1 library in 3 processes"]),
    ],
)
def test_an_empty_window_says_what_to_do(coverage: Coverage, expected: list[str]) -> None:
    text = plain(replace(window(), coverage=coverage))
    for words in expected:
        assert words in text


def test_simulated_windows_and_missing_devices_are_marked() -> None:
    one = replace(window(simulated=True), devices=Devices(unavailable="no NVIDIA driver on this host"))
    text = plain(one)
    assert "SIMULATED" in text.splitlines()[0]
    assert "GPU: no NVIDIA driver on this host" in text


def test_long_lists_are_cut_and_counted() -> None:
    one = replace(
        window(),
        open_calls=tuple(
            OpenCall("docker:aa", 1, tid, "p", "nccl", "ncclAllReduce", 2 * 10**9 + tid) for tid in range(20)
        ),
        coverage=Coverage(missing=tuple(Missing(f"/lib{n}", "because") for n in range(20))),
    )
    text = plain(one)
    assert len(lines_with(text, "ncclAllReduce")) == 8
    assert "thread 19" in text
    assert len(lines_with(text, "because")) == 8
    assert text.count("and 12 more") == 2


def test_open_calls_of_ended_threads_are_separate() -> None:
    text = plain(full_window())
    (still_open,) = lines_with(text, "ncclCommInitRank")
    (ended,) = lines_with(text, "cuCtxSynchronize")
    lines = text.splitlines()
    assert lines[lines.index(still_open) - 1] == "calls that have not returned"
    assert lines[lines.index(ended) - 1] == "calls whose threads ended inside them"
    assert ended.split()[-4:] == ["python3", "103,", "thread", "104"]


def test_problems_stand_below_the_tables() -> None:
    lines = plain(full_window(), 100).splitlines()
    at = lines.index("problems: see stalltop explain")
    assert at > next(i for i, line in enumerate(lines) if line.startswith("operation"))
    assert lines[at + 1].startswith(
        "HIGH      serve loses time between its calls to train (155 ms of each second, since "
    )
    assert lines[at + 2 : at + 8] == [
        "         160ms/s time between calls",
        "  97.0%  155ms/s └─ waits for a CPU",
        "  99.0%  154ms/s    └─ train has the CPU (python3 100)",
        "                       └─ writes without end (python3 100, train, nvme0n1)",
        "  fix: keep train off the CPUs of serve",
        "    $ taskset -acp 1 100",
    ]
    assert lines[at + 8].startswith("CRITICAL  the kernel killed worker of serve (since ")
    assert "ended" in lines[at + 8]


def test_information_is_not_called_wrong() -> None:
    bound = replace(CHAINS[0], severity="info", summary="serve waits for the device")
    text = plain(replace(full_window(), chains=(bound,)))
    assert "problems: see" not in text
    assert "information: see stalltop explain\nINFO      serve waits for the device" in text
    assert "explain" not in plain(replace(full_window(), chains=()))


def test_many_chains_are_cut_and_counted() -> None:
    chains = tuple(replace(CHAINS[0], id=str(at), severity="low", links=(), fixes=()) for at in range(20))
    text = plain(replace(window(), chains=chains), 120)
    assert len(lines_with(text, "LOW ")) == 8
    assert "and 12 more" in text


def test_charges_add_up_by_culprit() -> None:
    def charge(culprit: int, ns: int, operation: str, kind: str = "runqueue") -> Charge:
        tenant = "cri:bb" if culprit >= 300 else "docker:aa"
        return Charge("docker:aa", 100, "python3", "runtime", operation, kind, tenant, culprit, "hog", ns, 1)

    charges = (
        charge(300, 2_000_000, "cudaFree"),
        charge(300, 5_000_000, "cudaLaunchKernel"),
        charge(300, 1_000_000, "cudaFree", "lock"),
        charge(100, 90_000_000, "cudaFree", "lock"),
        charge(0, 80_000_000, "cudaFree", "network"),
        charge(101, 70_000_000, "cudaFree", "process"),
    )
    text = plain(replace(window(), evidence=Evidence(charges=charges)))
    title = "who took the time of others\n"
    assert text.endswith(
        f"{title}7.00ms  serve hog 300, from train python3 100 (runqueue)\n"
        "1.00ms  serve hog 300, from train python3 100 (lock)\n"
    )


def test_the_two_largest_parts_of_the_time_are_shown() -> None:
    one = window([Calls(key(), [1_000]), Calls(key("cudaFree"), [1_000])], split=True)
    assert one.rows.split_ns is not None
    one.rows.split_ns[0, :3] = (620, 300, 80)
    one.rows.split_ns[1, :] = 0
    text = plain(one, 120)
    assert lines_with(text, "cudaLaunchKernel")[0].endswith(" run 62% rq 30%")
    assert lines_with(text, "cudaFree")[0].endswith("0B")
    assert "time went to" in text
    assert "time went to" not in plain(window([Calls(key(), [1_000])]), 120)
    assert "time went to" not in plain(one, 80), "at 80 columns other columns come first"


def test_many_processes_of_one_program_share_an_entry() -> None:
    gaps = tuple(Missing("runtime of train", "no symbols", "keep them", pid) for pid in (30, 10, 50, 20, 40))
    text = plain(replace(window(), coverage=Coverage(missing=(*gaps, Missing("/lib", "broken")))))
    assert "runtime of train (processes 10, 20, 30 and 2 more):  no symbols  keep them\n/lib:  broken" in text


def test_untraced_processes_show_their_tenant() -> None:
    gaps = [Missing("/bin/a", "odd", "", pid, tenant) for pid, tenant in [(7, "docker:aa"), (8, "cri:bb")]]
    one = replace(window(), coverage=Coverage(missing=(*gaps, Missing("/bin/b", "odd", "", 9, "docker:aa"))))
    text = plain(one)
    assert "/bin/a (processes 7, 8 of serve and 1 more):  odd\n/bin/b (process 9 of train):  odd" in text


def test_unknown_names_are_not_called_untraced() -> None:
    gaps = (Missing("names", "user 1000 does not answer"), Missing("/lib", "broken"))
    text = plain(replace(window(), coverage=Coverage(missing=gaps)))
    assert "not traced\n/lib:  broken\n\nnot known\nnames:  user 1000 does not answer\n" in text


def test_colour_changes_only_the_colour() -> None:
    coloured = table(full_window(), Style(80, True, UNICODE))
    assert COLOUR.sub("", coloured) == plain(full_window())
    assert coloured != plain(full_window())
    assert coloured.count("\x1b[0m") * 2 == len(COLOUR.findall(coloured))


NAMES = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=70)


@FEW
@given(windows(), st.integers(10, 140), st.sampled_from([UNICODE, ASCII]), NAMES, NAMES)
def test_no_line_is_wider_than_the_terminal(
    one: Window, width: int, glyphs: Glyphs, name: str, host: str
) -> None:
    named = {ident: Tenant(ident, name) for ident in ("docker:aa", "cri:bb", "cgroup:9")}
    full = full_window()
    for each in (replace(one, tenants=named, host=host), replace(full, tenants=named, host=host)):
        text = table(each, Style(width, False, glyphs))
        assert text.endswith("\n")
        assert max(cell_len(line) for line in text.splitlines()) <= max(width, 40)
        assert glyphs is UNICODE or text.isascii()
