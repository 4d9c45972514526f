"""Tests that figures in commands of fixes stay the same while a problem stands."""

from __future__ import annotations

import pytest

from stalltop.diagnosis.wording.steady import steady
from stalltop.model.actions.catalogue import figures_of
from stalltop.model.chain import Fix


@pytest.mark.parametrize(
    ("command", "figures"),
    [
        ("podman update --device-read-bps /dev/vda:290mb adde53211a4f", (290,)),
        ("systemctl set-property --runtime a.service 'IOReadBandwidthMax=/dev/vda 29M'", (29,)),
        ("docker update --cpus 0.38 db-dump", (0.38,)),
        ("docker update --memory 128m --memory-swap 256m x1", (128, 256)),
        ("systemctl set-property --runtime a.service CPUQuota=45%", (45,)),
        ("systemctl set-property --runtime a.service MemoryMax=64M", (64,)),
        ("echo '50000 100000' > /sys/fs/cgroup/a/cpu.max", (50_000,)),
        ("echo 100000 > /a/cpu.cfs_period_us && echo 50000 > /a/cpu.cfs_quota_us", (50_000,)),
        ("echo 64M > /sys/fs/cgroup/a/memory.max", (64,)),
        ("nvidia-smi -i 0 -pl 450", (450,)),
        ("taskset -acp 1 21741", ()),
        ("py-spy dump --pid 7", ()),
    ],
)
def test_the_figures_of_a_command_are_its_limits_and_rates(command: str, figures: tuple[float, ...]) -> None:
    assert figures_of(command)[1] == figures


@pytest.mark.parametrize(
    ("then", "now", "shown"),
    [
        ("docker update --cpus 0.38 a", "docker update --cpus 0.41 a", "docker update --cpus 0.38 a"),
        ("docker update --cpus 0.38 a", "docker update --cpus 1.2 a", "docker update --cpus 1.2 a"),
        ("docker update --cpus 0.38 a", "docker update --cpus 0.41 b", "docker update --cpus 0.41 b"),
        ("taskset -acp 1 7", "taskset -acp 1 8", "taskset -acp 1 8"),
        ("taskset -acp 1 7", "taskset -acp 2 7", "taskset -acp 2 7"),
    ],
)
def test_a_command_keeps_figures_that_are_nearly_right(then: str, now: str, shown: str) -> None:
    before = (Fix("earlier", then), Fix("by hand"))
    (fix,) = steady((Fix("now", now),), before, same=not now.endswith("b"))
    assert fix.command == shown
    assert (fix.text == "earlier") == (shown == then)


def test_a_command_that_is_the_same_is_explained_with_new_figures() -> None:
    quota = "docker update --cpus 14 a"
    (fix,) = steady((Fix("it uses 23 CPUs now", quota),), (Fix("it uses 28 CPUs now", quota),), same=True)
    assert fix.text == "it uses 23 CPUs now"


def test_a_limit_stays_first_while_the_culprit_is_the_same() -> None:
    move, quota, hand = Fix("move", "taskset -acp 1 7"), Fix("quota", "docker update --cpus 1 a"), Fix("hand")
    assert steady((move, hand, quota), (quota, move), same=True) == (quota, move, hand)
    assert steady((move, hand, quota), (quota, move), same=False) == (move, hand, quota)
    assert steady((move, hand), (quota, move), same=True) == (quota, move, hand)
    more = Fix("quota", "docker update --cpus 3 a")
    assert steady((move, more), (quota, move), same=True) == (more, move)
    assert steady((quota, move), (move, quota), same=True) == (quota, move)
