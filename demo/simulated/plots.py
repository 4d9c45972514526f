"""Defines the simulated host for each scenario of `demo.scenario`: the same tenants, with the same
faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stalltop.demo.faults import InjectedFault, Timetable
from stalltop.demo.simulated.habits import Person
from stalltop.demo.simulated.host import Plot

_SOON: Final = 3.0
"""Seconds after which the first fault begins: soon, because a viewer decides within ten seconds whether to
keep watching."""


def _now_and_then(fault: InjectedFault, period: float) -> Timetable:
    return Timetable((fault,), period)


_CHAT: Final = Person("chat-server", "serve.py", "containerd")
_BERT: Final = Person("bert-trainer", "loader", "docker")
_ENCODER: Final = Person("video-encoder", "no calls", "docker")
_BACKUP: Final = Person("nightly-backup", "no calls", "podman")
_RANKS: Final = (Person("rank 0", "rank", "docker"), Person("rank 1", "rank", "docker"))
_PODS: Final = (
    Person("trainer-0/train", "trainer alone", "containerd", "trainer-0", "research", "train"),
    Person("chat-0/server", "inference", "containerd", "chat-0", "serving", "server"),
    Person("embedder-0/main", "inference", "containerd", "embedder-0", "search", "main"),
    Person("notebook-anna/jupyter", "notebook", "containerd", "notebook-anna", "research", "jupyter"),
)
_TRIO: Final = (
    Person("bert-trainer", "train.py", "docker"),
    _CHAT,
    Person("notebook-anna", "notebook", "podman"),
)

PLOTS: Final[Mapping[str, Plot]] = {
    "trio": Plot(3, 1, people=_TRIO, worker=False, operations=16),
    "noisy-neighbour": Plot(
        2,
        1,
        _now_and_then(InjectedFault("cpu", _SOON, _SOON + 18), 28),
        people=(_CHAT, _ENCODER),
        trainer=None,
        worker=False,
        server=0,
        hog=(1, "encode"),
        operations=16,
    ),
    "slow-disk": Plot(
        2,
        1,
        _now_and_then(InjectedFault("disk", _SOON, _SOON + 12), 22),
        people=(_BERT, _BACKUP),
        server=None,
        copier=(1, "backup"),
        operations=16,
    ),
    "straggler": Plot(
        2,
        2,
        _now_and_then(InjectedFault("rank", 0, 90), 90),
        people=_RANKS,
        worker=False,
        server=None,
        ranks=(0, 1),
        hangs=True,
        operations=16,
    ),
    "mps": Plot(4, 1, people=_PODS, mps=True, ranks=()),
    "mig": Plot(
        4,
        2,
        people=(_PODS[1], _PODS[2], _PODS[3], _PODS[0]),
        trainer=3,
        worker=False,
        server=0,
        ranks=(),
        operations=16,
        places=("0:0", "0:1", "0:2", "1"),
        profiles=("3g.40gb", "2g.20gb", "1g.10gb"),
    ),
    "tour": Plot(
        6,
        2,
        people=(_BERT, _CHAT, *_RANKS, _ENCODER, _BACKUP),
        hog=(4, "encode"),
        copier=(5, "backup"),
        ranks=(2, 3),
        operations=16,
    ),
}
"""Plots by name of the scenario. The timetable of a scenario file, if it has one, replaces that of its
plot."""
