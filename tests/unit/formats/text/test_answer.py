"""Tests the sentence about the worst problem, and the text if there is no problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from stalltop.diagnosis.causes import TELLINGS
from stalltop.formats.text.answer import answer_lines, healthy, sentence_now, sentence_of, slowest
from stalltop.formats.text.chains import cost, each_second, sureness_and_baseline
from stalltop.model.actions.catalogue import briefly
from stalltop.model.chain import OTHERS, Chain, Fix, Link
from stalltop.model.tenant import Tenant
from stalltop.model.text.glyphs import ASCII, UNICODE
from stalltop.model.text.sentence import Sentence, cells
from stalltop.model.text.style import Style
from stalltop.model.window import Coverage, Missing, Window
from tests.tui.faults import GAP, LAUNCH, chain
from tests.windows.by_hand import Calls, key, window

HOG = Link("culprit", "encode has the CPU", 1.0, 516e6, "cri:bb", 21741, "encode", depth=2)
PIN = Fix("keep encode on CPU 1", "taskset -acp 1 21741")


def faulty(cause: str, *links: Link, fixes: tuple[Fix, ...] = (PIN,), **rest: Any) -> Chain:
    effect = Link("effect", "x is slow", None, 500e6, "docker:aa", 100, "python3", depth=0)
    made = chain(cause, GAP, links=(effect, *links), fixes=fixes, severity="high", lost_ms_per_s=516.0)
    return replace(made, **rest)


def two() -> Window:
    return window([Calls(key("cudaStreamSynchronize"), [5_200_000] * 3), Calls(LAUNCH, [4_000])])


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (
            faulty("cpu_contention", HOG),
            "train is slow: serve (encode, pid 21741) takes its CPU: 516 ms of each second"
            ". Fix: taskset -acp 1 21741",
        ),
        (  # no culprit
            faulty("cpu_contention"),
            "train waits for CPUs that others hold: 516 ms of each second. Fix: taskset -acp 1 21741",
        ),
        (  # the only culprit is a sum of processes
            faulty("cpu_contention", Link("culprit", "others, 5 processes", process=OTHERS), fixes=()),
            "train waits for CPUs that others hold: 516 ms of each second",
        ),
        (  # a process of the tenant itself
            faulty("gil", replace(HOG, tenant="docker:aa", pid=100, process="python3"), fixes=()),
            "train is slow: its python3 (pid 100) holds the GIL in another thread: 516 ms of each second",
        ),
        (  # several processes of one name
            faulty("cpu_contention", replace(HOG, pid=0, process="cc1 (8 processes)"), fixes=()),
            "train is slow: serve (cc1, 8 processes) takes its CPU: 516 ms of each second",
        ),
        (
            faulty("slow_disk", replace(HOG, process="dd", device="vda"), fixes=()),
            "train is slow: serve (dd, pid 21741) keeps vda busy: 516 ms of each second",
        ),
        (  # the culprit is a quota, which has no process
            faulty("cfs_throttling", Link("culprit", "quota", tenant="docker:aa"), fixes=()),
            "train is stopped by its CPU quota: 516 ms of each second",
        ),
        (  # the cause is a device: the chain names no tenant, but its effect names one
            faulty("gpu_thermal", Link("culprit", "hot", device="GPU 1"), tenant="", fixes=()),
            "train is slow: GPU 1 (no tenant's fault: cooling) is thermally throttled: about 516 ms of each"
            " second",
        ),
        (
            faulty("gpu_lost", tenant="", links=(Link("culprit", "x", device="GPU 1"),), fixes=()),
            "GPU 1 no longer answers: 516 ms of each second",
        ),
        (
            faulty("hung_call", fixes=(), lost_ms_per_s=0.0, operation="cuCtxSynchronize"),
            "train does not return from cuCtxSynchronize",
        ),
        (  # the first fix has no command: the command that shows more follows it
            faulty("gil", fixes=(Fix("use processes"), Fix("look", "py-spy dump --pid 1", look=True))),
            "train waits for the GIL: 516 ms of each second. Fix: use processes. Look: py-spy dump --pid 1",
        ),
        (  # a cause that this version does not know
            faulty("tomorrow", HOG, fixes=()),
            "summary of tomorrow: 516 ms of each second",
        ),
    ],
)
def test_a_chain_becomes_one_sentence(one: Chain, text: str) -> None:
    assert as_text(sentence_of(one, two(), TELLINGS)) == text


def as_text(said: Sentence) -> str:
    """Return a sentence with its fix as one text."""
    advised = [f"Fix: {text}" for text in said.advice[:1]]
    command = [said.label + said.command] if said.command else []
    return ". ".join(("".join(text for text, _ in said.parts()), *advised, *command))


LOOK = Fix("see at which line", "py-spy dump --pid 1", look=True, short="shows the line that waits")
STORM = Fix("take the waits out of the inner loop of serve.py", short="take the waits out")


@pytest.mark.parametrize(
    ("fixes", "advice", "command", "effects"),
    [
        ((PIN, LOOK), (), PIN.command, (PIN.text, "move it to other CPUs")),
        ((LOOK, STORM), (), LOOK.command, (LOOK.short,)),
        ((STORM, LOOK), (STORM.text, STORM.short), LOOK.command, (LOOK.short,)),
        ((STORM,), (STORM.text, STORM.short), "", ()),
    ],
)
def test_a_command_is_told_whenever_a_fix_has_one(
    fixes: tuple[Fix, ...], advice: tuple[str, ...], command: str, effects: tuple[str, ...]
) -> None:
    said = sentence_of(faulty("sync_storm", fixes=fixes), two(), TELLINGS)
    assert (said.advice, said.command, said.effects) == (advice, command, effects)


def test_a_tenant_that_is_a_program_is_named_once() -> None:
    tenants = {**two().tenants, "process:stress": Tenant("process:stress", "stress", kind="process")}
    one = faulty("cpu_contention", replace(HOG, tenant="process:stress", process="stress", pid=9), fixes=())
    said = sentence_of(one, replace(two(), tenants=tenants), TELLINGS)
    assert as_text(said) == "train is slow: stress (pid 9) takes its CPU: 516 ms of each second"


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (100, "chat-server is slow: video-encoder (encode, pid 21741) takes its CPU: 516 ms of each second"),
        (80, "chat-server is slow: video-encoder (encode, pid 21741) takes its CPU: 516 ms/s"),
        (76, "chat-server is slow: video-encoder (encode, pid 21741) takes its CPU"),
        (60, "chat-server is slow: video-encoder takes its CPU"),
        (45, "cha…server is slow: vid…encoder takes its CPU"),
    ],
)
def test_a_narrow_sentence_keeps_who_is_slow_and_who_does_it(width: int, text: str) -> None:
    names = ("chat-server", "is slow", "video-encoder", "encode, pid 21741")
    said = Sentence("takes its CPU", *names, "516 ms of each second", "516 ms/s")
    parts = said.fitted(width)
    shown = "".join(part for part, _ in parts)
    assert shown == text


@pytest.mark.parametrize("width", range(24, 100, 5))
def test_long_names_are_cut_and_both_stay_visible(width: int) -> None:
    said = Sentence("takes its CPU", "a" * 60, "is slow", "b" * 60, "encode, pid 21741", "516 ms/s")
    parts = said.fitted(width, ASCII)
    victim, culprit = (text for text, role in parts if role in ("victim", "culprit"))
    assert cells(parts) <= max(width, 8 + 8 + cell_len(" is slow:   takes its CPU"))
    assert victim.startswith("a")
    assert culprit.startswith("b")


def test_a_healthy_host_is_told_with_its_slowest_row() -> None:
    one = two()
    assert healthy(one) == ("No problems. 1 container", "slowest p99 cudaStreamSynchronize 5.20 ms (train)")
    assert healthy(one, kept=LAUNCH)[1] == "slowest p99 cudaLaunchKernel 4.00 µs (train)"
    assert healthy(one, ASCII, LAUNCH)[1].isascii()
    nothing = window([])
    assert healthy(nothing) == ("No problems. No CUDA or NCCL call in this window.", "")
    gap = Missing("python3", "no symbols", pid=7)
    partly = replace(one, coverage=Coverage(processes=3, missing=(gap,)))
    assert healthy(partly)[0] == "No problems in 3 of 4 processes (1 untraced). 1 container"
    assert healthy(replace(one, coverage=Coverage(tracing="no root")))[0] == "Nothing is traced: no root"


def test_the_slowest_row_is_found_among_many() -> None:
    calls = [Calls(key(f"cuOp{n}"), [1_000_000 + 1000 * n] * 100 + [90_000_000]) for n in range(40)]
    one = window([*calls, Calls(key("cuSlow"), [50_000_000] * 100)])
    found = slowest(one)
    assert found is not None
    assert found[0].operation == "cuSlow"


def test_what_is_printed_begins_with_the_worst_open_problem() -> None:
    small = replace(faulty("gil"), id="other", severity="low")
    over = replace(faulty("gil"), id="over", severity="critical", open=False)
    lines = answer_lines(
        two(), (over, small, faulty("cpu_contention", HOG)), TELLINGS, Style(60, False, UNICODE)
    )
    assert lines == [
        "train is slow: serve (encode, pid 21741) takes its CPU: 516",
        "ms of each second (1 more)",
        "Fix: taskset -acp 1 21741",
    ]
    assert answer_lines(two(), (over,), TELLINGS, Style(90, False, UNICODE)) == [
        "No problems. 1 container, slowest p99 cudaStreamSynchronize 5.20 ms (train)"
    ]


@pytest.mark.parametrize(
    ("ns_per_s", "text"),
    [
        (516e6, "516 ms of each second"),
        (9e3, "9.00 µs of each second"),
        (1.6e9, "1.60 s each second, summed over threads"),
    ],
)
def test_lost_time_is_told_in_words(ns_per_s: float, text: str) -> None:
    assert each_second(ns_per_s) == text


@pytest.mark.parametrize(
    ("cause", "lost", "told"),
    [
        ("gil", 516.0, ("lost", "516 ms of each second")),
        ("gil", 0.0, ("lost", "no time yet")),
        ("gpu_power", 516.0, ("lost", "516 ms of each second (estimated from the clocks)")),
        ("gpu_bound", 886.0, ("waits", "for its GPU work 886 ms of each second")),
        ("host_bound", 886.0, ("computes", "between its calls 886 ms of each second")),
    ],
)
def test_time_that_is_not_lost_is_not_called_lost(cause: str, lost: float, told: tuple[str, str]) -> None:
    assert cost(faulty(cause, lost_ms_per_s=lost), UNICODE) == told


@pytest.mark.parametrize(
    ("confidence", "p99_ns", "normal_p99_ns", "told"),
    [
        (1.0, 9, None, "cause certain; no baseline yet"),
        (0.8, 9, None, "cause 80 % certain; no baseline yet"),
        (1.0, 9, 8, "cause certain"),
        (0.8, None, None, "cause 80 % certain"),
    ],
)
def test_a_certain_cause_and_a_missing_baseline_do_not_contradict(
    confidence: float, p99_ns: int | None, normal_p99_ns: int | None, told: str
) -> None:
    one = faulty("gil", confidence=confidence, p99_ns=p99_ns, normal_p99_ns=normal_p99_ns)
    assert sureness_and_baseline(one, "cause ") == told


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("taskset -acp 1 21741", "move it to other CPUs"),
        ("systemctl set-property --runtime a.service CPUWeight=1", "give CPU to others first"),
        ("podman update --device-read-bps /dev/vda:1000000 aa", "limit its reads"),
        ("py-spy dump --pid 7", "shows the line where it is"),
        ("rm file", ""),
    ],
)
def test_what_a_command_does_is_told_in_a_few_words(command: str, words: str) -> None:
    assert briefly(command) == words


@pytest.mark.parametrize(("age", "told"), [(1.0, "516 ms of each second"), (4.0, "not seen for 4 s")])
def test_a_problem_that_is_not_seen_any_more_has_no_present_loss(age: float, told: str) -> None:
    one = two()
    chain_ = faulty("cpu_contention", HOG, seen=one.end - age)
    said = sentence_now(chain_, one, TELLINGS)
    assert said.lost == told
    assert said.times[-1] == ("516 ms/s" if age < 2 else told)
    assert said.command == (PIN.command if age < 2 else "")
    assert sentence_of(chain_, one, TELLINGS).command == PIN.command, "alerts and reports stay as they are"


def test_a_change_of_a_program_is_for_its_owner_and_a_command_is_not() -> None:
    code, act = Fix("allocate once, before the loop"), Fix("move it", "taskset -acp 1 21741")
    host = two()
    for user, namespace, label in (
        ("", "", "Tell its owner: "),
        ("anna", "team-a", "Tell its owner, anna: "),
        ("1000", "", "Tell its owner, user 1000: "),
        ("", "team-a", "Tell its owner, namespace team-a: "),
    ):
        tenant = replace(host.tenants[HOG.tenant], user=user, namespace=namespace)
        seen = replace(host, tenants={**host.tenants, HOG.tenant: tenant})
        own = sentence_of(faulty("memory_churn", HOG, fixes=(code,)), seen, TELLINGS)
        assert own.advice_label == label
    device = Link("culprit", "hot", device="GPU 1")
    card = sentence_of(faulty("gpu_thermal", device, fixes=(code,)), two(), TELLINGS)
    moved = sentence_of(faulty("cpu_contention", HOG, fixes=(act,)), two(), TELLINGS)
    assert (card.advice_label, moved.advice, moved.label) == ("Fix: ", (), "Fix: ")
