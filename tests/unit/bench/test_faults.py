"""Tests how results of injected faults are judged and counted, without injecting any."""

from __future__ import annotations

import json
import random
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bench.faults import command
from bench.faults.catalogue import GROUPS
from bench.faults.scoring.results import BEGIN, PLACES, Results
from bench.faults.scoring.score import false_alarms, table
from bench.faults.stage.fault import FAULTS, Truth, fault
from bench.faults.stage.network import cpu_mask
from bench.faults.stage.stage import Place, Stage
from bench.faults.trial import watcher as watching
from bench.faults.trial.judging import alarms_in, judge
from bench.faults.trial.outcome import Healthy, Outcome
from bench.faults.trial.watcher import Seen, Watcher
from bench.measuring.document import END
from stalltop.diagnosis.causes import CAUSES
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.normals import KNOWN_WINDOWS, Normals
from stalltop.model.chain import Chain, Link, Severity, worst_first
from stalltop.model.errors import UsageError
from stalltop.model.evidence import HOST_GAP, HOST_LAYER, BlockIo, Charge, Evidence, ProcessUse
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, window

DOCUMENT = Path(__file__).resolve().parents[3] / "docs/faults.md"
NOT_INJECTED = {"gpu_bound", "gpu_not_given", "host_bound", "tracer", "unexplained_wait"}
"""Causes that the benchmark does not inject: they are no fault, raise no alarm, lose no time, or cannot be
caused on a small host."""


def place(name: str) -> Place:
    return Place(name, f"id-of-{name}", Path("/nowhere"))


VICTIM, HOG, OTHER = place("victim"), place("hog"), place("other")
TRIAL = (VICTIM, HOG)
INJECTED = 10.0
SECOND_NS = 1_000_000_000


def chain(
    cause: str,
    severity: Severity = "high",
    *,
    lost: float = 100.0,
    since: float = INJECTED,
    blames: Place | None = None,
    ns_per_s: float = 1e8,
    device: str = "",
) -> Chain:
    links = (
        ()
        if blames is None
        else (Link("culprit", "it", tenant=blames.name, pid=7, ns_per_s=ns_per_s, device=device),)
    )
    return Chain(
        id=f"{cause}-{severity}",
        cause=cause,
        title=cause,
        severity=severity,
        summary=f"about {cause}",
        tenant=VICTIM.name,
        pid=1,
        process="p",
        layer="",
        operation="",
        lost_ms_per_s=lost,
        confidence=1.0,
        links=links,
        fixes=(),
        since=since,
    )


def second_until(at: float, *chains: Chain, used: float = 0.0, busy: float = 0.0) -> Seen:
    """Returns a second that ends at ``at``. In it, process 7 of the outsider used ``used`` CPUs, and its I/O
    took the share ``busy`` of the disk's time."""
    tenants = {
        one.name: Tenant(one.name, one.name, "container", "docker", one.identity)
        for one in (VICTIM, HOG, OTHER)
    }
    io = BlockIo(OTHER.name, 7, "it", "sda", False, 1, 1, 0, int(busy * SECOND_NS), 1)
    use = ProcessUse(OTHER.name, 7, "it", cpu_ns=int(used * SECOND_NS))
    seen = replace(
        window(),
        start=at - 1.0,
        seconds=1.0,
        tenants=tenants,
        chains=chains,
        evidence=Evidence(processes=(use,), block_io=(io,)),
    )
    return Seen(at, seen)


def judged(truth: Truth, *looks: Seen, cause: str = "cpu_contention") -> Outcome:
    outcome = Outcome(cause, 1)
    judge(outcome, truth, looks, INJECTED, TRIAL)
    return outcome


def test_every_cause_has_a_fault_except_those_listed() -> None:
    assert {one.cause for one in FAULTS.values()} == set(CAUSES) - NOT_INJECTED
    assert sum(one.common for one in FAULTS.values()) == 12
    with pytest.raises(ValueError, match="not a cause"):
        fault("no such cause")
    with pytest.raises(ValueError, match="not a cause"):
        fault("cpu_contention")


def test_times_run_from_the_injection_to_the_first_window_that_shows_the_cause() -> None:
    right = chain("cpu_contention", blames=HOG)
    outcome = judged(
        Truth(VICTIM, HOG),
        second_until(9.5),
        second_until(11.0),
        second_until(12.0, chain("own_threads", "medium")),
        second_until(13.0, right, chain("own_threads", "medium")),
    )
    assert (outcome.detected_seconds, outcome.root_seconds) == (2.0, 3.0)
    assert (outcome.found, outcome.named, outcome.culprit_right) == ("cpu_contention", True, True)
    assert outcome.early == ()
    assert outcome.right


def test_a_chain_open_before_the_fault_is_no_detection() -> None:
    old = chain("own_threads", "low", since=5.0)
    right = chain("cpu_contention", blames=HOG, since=11.0)
    outcome = judged(
        Truth(VICTIM, HOG), second_until(9.5, old), second_until(10.5, old), second_until(12.5, right, old)
    )
    assert (outcome.detected_seconds, outcome.root_seconds, outcome.open_before) == (2.5, 2.5, False)
    # The worst chain was open before the fault, so it cannot be about the fault: no root cause is found.
    worse = chain("own_threads", "critical", since=5.0)
    outcome = judged(
        Truth(VICTIM, HOG),
        second_until(9.5, worse),
        second_until(10.5, worse),
        second_until(12.5, right, worse),
    )
    assert (outcome.detected_seconds, outcome.root_seconds) == (2.5, None)


def test_a_trial_with_the_right_cause_before_the_fault_is_not_scored() -> None:
    early = chain("cpu_contention", "low", since=5.0, blames=HOG)
    outcome = judged(
        Truth(VICTIM, HOG), second_until(9.5, early), second_until(10.1, early), second_until(11.1, early)
    )
    assert (outcome.open_before, outcome.detected_seconds, outcome.root_seconds) == (True, None, None)
    assert not outcome.scored
    # A chain that closed before the fault and opens again counts as new.
    again = chain("cpu_contention", since=5.0, blames=HOG)
    outcome = judged(
        Truth(VICTIM, HOG),
        second_until(8.5, early),
        second_until(9.5),
        second_until(10.5),
        second_until(11.5, again),
    )
    assert (outcome.open_before, outcome.root_seconds) == (False, 1.5)


def test_evidence_before_the_fault_opens_no_chain() -> None:
    half = chain("cpu_contention", blames=HOG, since=7.5)
    outcome = judged(
        Truth(VICTIM, HOG), second_until(9.5), second_until(10.5, half), second_until(11.5, half)
    )
    assert outcome.detected_seconds == 1.5


def test_chains_are_judged_in_screen_order() -> None:
    chains = (chain("own_threads", lost=400), chain("cpu_contention", "critical", lost=10, blames=HOG))
    outcome = judged(Truth(VICTIM, HOG), second_until(11.0, *chains))
    assert outcome.found == sorted(chains, key=worst_first)[0].cause == "cpu_contention"
    older = (chain("own_threads", lost=101, since=10.5), chain("cpu_contention", lost=100, blames=HOG))
    outcome = judged(Truth(VICTIM, HOG), second_until(11.0, *older))
    assert outcome.found == sorted(older, key=worst_first)[0].cause == "cpu_contention"
    assert (outcome.found, outcome.named) == ("cpu_contention", True)


@pytest.mark.parametrize(
    ("used", "busy", "device", "excused"),
    [
        (1.0, 0.0, "", True),
        (0.2, 0.0, "", False),  # the outsider used less than it is charged with
        (0.0, 1.0, "", False),
        (0.0, 1.0, "sda", True),
        (1.0, 0.2, "sda", False),
    ],
)
def test_blaming_an_outsider_is_excused_by_the_outsiders_use(
    used: float, busy: float, device: str, excused: bool
) -> None:
    blame = chain("cpu_contention", "critical", blames=OTHER, ns_per_s=9e8, device=device)
    looks = [second_until(at, used=used, busy=busy) for at in (8.5, 9.5, 10.5)]
    looks.append(second_until(11.5, blame, chain("own_threads"), used=used, busy=busy))
    outcome = judged(Truth(VICTIM), *looks, cause="own_threads")
    assert outcome.found == ("own_threads" if excused else "cpu_contention")
    assert outcome.found_raw == "cpu_contention"


def test_the_share_that_outsiders_took_is_measured_before_and_after() -> None:
    def look(at: float, *shares: tuple[Place, float]) -> Seen:
        def charge(taker: Place, share: float) -> Charge:
            ns = int(share * SECOND_NS)
            return Charge(VICTIM.name, 1, "p", HOST_LAYER, HOST_GAP, "runqueue", taker.name, 7, "it", ns, 1)

        charges = tuple(charge(taker, share) for taker, share in shares)
        seen = second_until(at)
        return Seen(at, replace(seen.window, evidence=Evidence(charges=charges)))

    looks = [look(8.5), look(9.5, (OTHER, 0.2)), look(11.0, (HOG, 0.5), (OTHER, 0.04)), look(12.0)]
    told = judged(Truth(VICTIM, HOG), *looks)
    assert told.outside_share == pytest.approx(0.1)
    assert told.scored
    # A trial is not scored if outsiders took more time than the fault was meant to take; less is accepted.
    assert not replace(told, strength=0.05).scored
    assert replace(told, strength=0.8).scored


def test_blaming_others_for_the_victims_own_fault_is_wrong() -> None:
    for blamed, right in ((VICTIM, True), (HOG, False), (OTHER, False), (None, True)):
        outcome = judged(
            Truth(VICTIM), second_until(11.0, chain("own_threads", blames=blamed)), cause="own_threads"
        )
        assert (outcome.named, outcome.culprit_right) == (True, right)
    outcome = judged(Truth(VICTIM, HOG), second_until(11.0, chain("cpu_contention")))
    assert not outcome.culprit_right


def test_information_counts_as_no_diagnosis() -> None:
    outcome = judged(Truth(VICTIM), second_until(11.0, chain("gpu_bound", "info")))
    assert (outcome.found, outcome.detected_seconds) == ("", None)


def test_alarms_are_separated_by_whom_they_blame() -> None:
    blame = chain("cpu_contention", blames=OTHER)
    early, disturbed = alarms_in(
        [
            second_until(1.0, chain("reclaim"), chain("slow_disk", "low"), blame, used=1.0),
            second_until(2.0, chain("reclaim"), used=1.0),
            second_until(3.0, chain("reclaim", since=2.0)),
        ],
        TRIAL,
    )
    assert early == ("reclaim (high, 100 ms/s): about reclaim",) * 2  # the chain opened twice
    assert disturbed == ("cpu_contention (high, 100 ms/s): about cpu_contention",)
    # The blamed outsider used no CPU time in the first second, only in the next one, so the alarm in the
    # first second is false.
    early, disturbed = alarms_in([second_until(1.0, blame), second_until(2.0, blame, used=1.0)], TRIAL)
    assert (len(early), disturbed) == (1, ())


def test_alarms_of_other_causes_during_a_fault_are_wrong() -> None:
    right = chain("cpu_contention", blames=HOG)
    told = judged(
        Truth(VICTIM, HOG),
        second_until(9.5, chain("slow_disk", since=5.0)),
        second_until(11.0, right, chain("reclaim"), chain("own_threads", "low")),
        second_until(12.0, right, chain("oom_kill", blames=OTHER), used=1.0),
    )
    assert told.early == ("slow_disk (high, 100 ms/s): about slow_disk",)
    assert told.wrong == ("reclaim (high, 100 ms/s): about reclaim",)


def outcome(cause: str, found: str, *, blamed: bool | None = None, seed: int = 1) -> Outcome:
    return Outcome(
        cause,
        seed,
        detected_seconds=1.0,
        root_seconds=2.0 if found == cause else None,
        found=found,
        named=found == cause,
        culprit_expected=blamed is not None,
        culprit_right=found == cause and blamed is not False,
        found_raw=found,
        healthy_seconds=4.0,
    )


def test_precision_and_recall_are_counted_over_all_trials() -> None:
    outcomes = [
        outcome("cpu_contention", "cpu_contention", blamed=True),
        outcome("cpu_contention", "own_threads", blamed=False, seed=2),
        outcome("own_threads", "own_threads", seed=3),
        outcome("own_threads", "", seed=4),
    ]
    lines = {line.split()[0]: line.split() for line in table(outcomes, "title").text().splitlines()[4:]}
    # columns: trials, top-1, raw, named, precision, culprit, detected, root, early, not set up, instead
    assert lines["cpu_contention"][1:] == [
        *("2", "50", "50", "50", "100", "50", "1.0", "(2/2)", "never", "(1/2)", "0", "0", "own_threads")
    ]
    assert lines["own_threads"][1:] == [
        *("2", "50", "50", "50", "50", "50", "1.0", "(2/2)", "never", "(1/2)", "0", "0", "nothing")
    ]
    assert lines["all"][1:] == [
        *("4", "50", "50", "50", "67", "50", "1.0", "(4/4)", "never", "(2/4)", "0", "0")
    ]


def test_precision_of_a_fault_with_a_name_of_its_own_is_that_of_its_cause() -> None:
    outcomes = [
        replace(outcome("loader_cpu", "loader_cpu"), name="torch-computes"),
        outcome("own_threads", "loader_cpu", seed=2),
    ]
    lines = {line.split()[0]: line.split() for line in table(outcomes, "title").text().splitlines()[4:]}
    assert lines["torch-computes"][5] == "50"


def test_a_missed_fault_has_an_infinite_detection_time() -> None:
    found = outcome("oom_kill", "oom_kill")
    for misses, said in ((0, "2.0 (1/1)"), (1, "never (1/2)"), (2, "never (1/3)")):
        missed = [Outcome("oom_kill", 1) for _ in range(misses)]
        text = table([found, *missed], "title").text()
        assert said in text
        assert f"detected within 2 s in 1, root cause within 3 s in 1 of {misses + 1}" in text


def test_trials_that_could_not_run_are_counted_apart() -> None:
    outcomes = [
        outcome("oom_kill", "oom_kill"),
        Outcome("oom_kill", 2, open_before=True, found="oom_kill"),
        Outcome("oom_kill", 3, error="no such controller"),
        Outcome("oom_kill", 4, error="no such controller"),
    ]
    cells = table(outcomes, "title").text().splitlines()[4].split()
    assert cells == [
        "oom_kill",
        "1",
        "100",
        "100",
        "100",
        "100",
        "100",
        "1.0",
        "(1/1)",
        "2.0",
        "(1/1)",
        "1",
        "2",
    ]


def test_false_alarms_are_counted_per_hour() -> None:
    both = [outcome("cpu_contention", ""), outcome("slow_disk", "")]
    for one, other in (both, reversed(both)):
        one.others, one.early = (other.cause,), ("reclaim",)
    lines = false_alarms(both, [Healthy(1800.0, ("a",), ("b", "c"))]).text().splitlines()[4:]
    assert lines[0].split() == ["healthy", "30.0", "1", "2.0", "2"]
    # The two faults of a trial share the seconds before them; these seconds must count once.
    assert lines[1].split() == ["before", "faults", "0.1", "1", "900.0", "0"]


def test_results_are_written_with_their_seeds(tmp_path: Path) -> None:
    results = Results(5, tmp_path / "out.json")
    results.outcomes.append(outcome("cpu_contention", "cpu_contention", seed=77))
    results.healthy.append(Healthy(60.0, seed=78))
    results.write()
    written = json.loads((tmp_path / "out.json").read_text())
    assert (written["seed"], written["trials"][0]["seed"], written["healthy"][0]["seed"]) == (5, 77, 78)
    assert len(results.tables()) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_the_document_gets_the_command_and_the_wrong_results(tmp_path: Path) -> None:
    document = tmp_path / "faults.md"
    begin, end = BEGIN.format("host"), END.format("host")
    document.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    results = Results(5, command=("--trials", "2"), planned=3, planned_minutes=1.0)
    wrong = outcome("slow_disk", "reclaim", seed=78)
    wrong.notes, wrong.said = {"how": "limit"}, ("reclaim (high): its limit",)
    results.outcomes += [
        outcome("cpu_contention", "cpu_contention"),
        wrong,
        Outcome("oom_kill", 3, error="no"),
    ]
    results.healthy.append(Healthy(60.0, ("own_threads (high): of nobody",), busy_seconds=15.0))
    results.write_docs(document, "host")
    text = document.read_text()
    assert text.startswith(f"before\n{begin}\n")
    assert text.endswith(f"{end}\nafter\n")
    assert "old" not in text
    assert "`./bench/run faults --trials 2`: 3 of 3 trials and 1.0 of 1 minutes of healthy tenants" in text
    assert "* `slow_disk`, seed 78, how limit: found reclaim. reclaim (high): its limit" in text
    assert "* `oom_kill`, seed 3: not set up: no" in text
    assert "* healthy: own_threads (high): of nobody" in text
    assert "cpu_contention`" not in text
    assert "CPUs were 25% busy" in text
    results.write_docs(document, "host")  # the new text replaces the previous one
    assert document.read_text().count("faults: one at a time") == 1
    results.planned = 4
    assert "It ended early" in results.text()
    document.write_text("no place")
    with pytest.raises(ValueError, match="no place"):
        results.write_docs(document, "host")


def test_trials_alternate_and_their_length_is_known() -> None:
    options = command.parser().parse_args(["--group", "devices", "--cause", "oom_kill", "--trials", "2"])
    trials, minutes = command.planned(options)
    causes = ["oom_kill", *GROUPS["devices"]]
    assert [tuple(fault.name for fault in trial) for trial in trials] == [(cause,) for cause in causes * 2]
    assert minutes == 0.0
    assert {cause for group in GROUPS.values() for cause in group} == set(FAULTS)
    trials, minutes = command.planned(command.parser().parse_args(["--quick"]))
    assert (len(trials), minutes) == (len(FAULTS) + 1, 1.0)
    fault = FAULTS["oom_kill"]
    assert command.trial_seconds((fault,)) > fault.healthy_seconds + fault.watch_seconds


def test_the_document_lists_every_injected_fault() -> None:
    text = DOCUMENT.read_text()
    for cause, about in command.injected().items():
        assert f"| `{cause}` | {about} |" in text
    # The results in the document are written by the benchmark, with machine and date, between these marks.
    for where in PLACES:
        assert text.count(BEGIN.format(where)) == text.count(END.format(where)) == 1
    for title in ("faults: one at a time", "faults: healthy tenants"):
        assert re.search(rf"^{title}", text, re.MULTILINE)
    assert re.search(r"^Linux \d+\.\d+.*Python 3", text, re.MULTILINE)


def test_the_list_names_every_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(FAULTS)


def test_a_cause_without_a_fault_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no-such"):
        command.main(["--cause", "no-such"])


def test_parameters_depend_only_on_the_seed() -> None:
    def drawn(seed: int) -> dict[str, float | str]:
        stage = Stage.__new__(Stage)  # makes no cgroups and no files: only the random numbers are used
        stage.chance, stage.notes = random.Random(seed), {}
        stage.between("a", 0, 1)
        stage.whole("b", 1, 1000)
        stage.one_of("c", ("x", "y", "z"))
        return stage.notes

    assert drawn(3) == drawn(3) != drawn(4)


HEALTHY = window([Calls(key(), [1_000_000] * 200)])


def learned() -> Normals:
    normals = Normals()
    for _ in range(KNOWN_WINDOWS):
        normals.learn(Facts(HEALTHY))
    return normals


def test_a_run_begins_with_what_earlier_ones_learned(tmp_path: Path) -> None:
    path = tmp_path / "normals.json"
    with command.baselines(path) as normals:
        assert normals is not None
        assert len(normals) == 0
        for _ in range(KNOWN_WINDOWS):
            normals.learn(Facts(HEALTHY))
    second = command.baselines(path)
    again = second.__enter__()
    assert again is not None
    assert again.to_plain() == learned().to_plain()
    again.learn(Facts(HEALTHY))
    interrupt = KeyboardInterrupt()
    assert not second.__exit__(KeyboardInterrupt, interrupt, None)
    with command.baselines(path) as third:
        assert third is not None
        assert third.to_plain() != learned().to_plain()
    with command.baselines(None) as nothing:
        assert nothing is None


def test_baselines_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "normals.json"
    path.write_text("half a fi")
    with pytest.raises(UsageError, match="cannot use"), command.baselines(path):
        pass
    assert path.read_text() == "half a fi"
    with pytest.raises(UsageError, match="no folder"), command.baselines(tmp_path / "none" / "file"):
        pass


class SteadyMonitor:
    """Stands for a tracer; all its windows have the healthy content of ``HEALTHY``."""

    cannot_trace = None

    def __init__(self, _: object) -> None:
        self.age = 0.0

    def read(self) -> Window:
        """Returns alternately a window of an earlier trial, which began a minute ago, and a window that
        begins now."""
        self.age = 60.0 - self.age
        return replace(HEALTHY, start=time.time() - self.age)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("kept", [True, False])
def test_trials_share_baselines_only_if_they_are_kept(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "Monitor", SteadyMonitor)
    monkeypatch.setattr(watching, "INTERVAL_SECONDS", 0.01)
    normals = learned()
    before = normals.to_plain()
    with Watcher({}, normals if kept else None) as watcher:
        assert watcher.learns == kept
        began = time.time() - 30.0
        watcher.begin()
        while len(seen := watcher.seen()) < 2:
            time.sleep(0.01)
        watcher.end()
        after = normals.to_plain()
        count = len(watcher.seen())
        while len(watcher.seen()) < count + 3:
            time.sleep(0.01)
    assert all(look.window.start > began for look in seen) == kept
    assert set(seen[0].window.normals) == ({key()} if kept else set())
    assert (after != before) == kept
    # Nothing is learned between two trials.
    assert normals.to_plain() == after


def test_masks_of_cpus_have_groups_of_32_bits() -> None:
    assert [cpu_mask(cpu) for cpu in (0, 1, 31, 32, 70)] == [
        "00000001",
        "00000002",
        "80000000",
        "00000001,00000000",
        "00000040,00000000,00000000",
    ]
