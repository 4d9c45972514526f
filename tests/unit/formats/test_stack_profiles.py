"""Tests stacks of slow calls as profiles."""

from __future__ import annotations

import json
from dataclasses import replace

from stalltop.formats.traces.stack_profiles import collapsed, speedscope
from tests.windows.full import full_window


def test_collapsed_stacks_have_their_time_in_all_windows() -> None:
    first, second = collapsed([full_window(), full_window()]).splitlines()
    owner, *frames = first.rpartition(" ")[0].split(";")
    assert owner.endswith(": python3 100")
    about, *frames = frames
    assert about == "slow calls"
    assert frames == ["loop (train.py:41)", "step (train.py:88)", "at::launch(int)", "cudaLaunchKernel"]
    assert first.endswith(" 1808")
    assert "[code compiled at run time]" in second


def test_a_speedscope_file_has_a_profile_for_each_process() -> None:
    told = json.loads(speedscope([full_window()]))
    (profile,) = told["profiles"]
    frames = told["shared"]["frames"]
    samples = [[frames[at]["name"] for at in sample] for sample in profile["samples"]]
    assert samples[0] == ["loop", "step", "at::launch(int)", "cudaLaunchKernel"]
    assert (profile["weights"], profile["endValue"]) == ([904_000, 5_000], 909_000)
    assert {"name": "step", "file": "/app/train.py", "line": 88} in frames


def test_samples_of_threads_are_a_profile_of_their_own() -> None:
    window = full_window()
    slow = window.stacks[0]
    held = slow._replace(reason="holds_gil", ns=7_000)
    window = replace(window, stacks=(slow, slow._replace(reason="disk", ns=9_000), held))
    ends = [line.split(";")[1::4] for line in collapsed([window]).splitlines()]
    assert ends[1] == ["threads", "[waited for a disk] 9"]
    names = [profile["name"].rpartition(": ")[2] for profile in json.loads(speedscope([window]))["profiles"]]
    assert sorted(names) == ["holders", "slow calls", "threads"]


def test_no_windows_make_an_empty_profile() -> None:
    assert collapsed([]) == ""
    assert json.loads(speedscope([]))["profiles"] == []
