"""Makes the links that the chains of all host causes have in common. They say what is slow, in which
processes the time was lost, what they did meanwhile, and who took the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stalltop.diagnosis.attribution.losses import INTERRUPTED, Loss
from stalltop.diagnosis.facts import Facts, Row
from stalltop.diagnosis.links import Who, link_of
from stalltop.diagnosis.wording.culprits import named, untold
from stalltop.model.chain import OTHERS, Link
from stalltop.model.evidence import HOST_GAP
from stalltop.model.row_key import RowKey
from stalltop.model.thread_evidence import FROZEN, STOPPED, TRACED

WAITS: Final = {
    "running": "computes",
    "runqueue": "waits for a CPU",
    "disk": "waits for a disk",
    "memory": "waits for memory",
    "lock": "waits for a lock or another thread",
    "network": "waits for data of a pipe or socket",
    "process": "waits for another process",
    "sleep": "sleeps",
    "gpu": "waits for its device",
    "other": "waits in the Linux kernel",
    INTERRUPTED: "is interrupted on its CPU",
    STOPPED: "is stopped by a signal",
    TRACED: "is stopped by a debugger",
    FROZEN: "is frozen with its cgroup",
}
"""Says what a thread does. Keys are the parts of the split and the ways in which a thread is stopped."""


def worst(loss: Loss) -> RowKey:
    """Returns the key of the row that lost most time."""
    return max(loss.effects, key=lambda key: loss.effects[key])


def row_of(facts: Facts, key: RowKey) -> Row | None:
    """Returns the row with this key; None if the window has none, because none of its calls returned."""
    return next((row for row in facts.rows_of(key.pid) if row.key == key), None)


def doing(key: RowKey) -> str:
    """Returns the end of a sentence that says where time is lost: ``in cudaMalloc`` or ``between its
    GPU calls``."""
    return "between its GPU calls" if key.operation == HOST_GAP else f"in {key.operation}"


def effect(facts: Facts, loss: Loss) -> Link:
    """Returns the link that says what is slow."""
    key = worst(loss)
    return link_of(
        key,
        "effect",
        f"{facts.name(key.tenant)} loses time {doing(key)}",
        ns_per_s=facts.per_second(loss.ns),
        depth=0,
    )


def mechanisms(facts: Facts, loss: Loss) -> list[Link]:
    """Returns links that say where the time went: for whom the victim waited, for whom that worker waited,
    and so on, and what the last process did."""
    before = loss.victim
    links = []
    for depth, worker in enumerate(loss.path, start=1):
        text = f"{before.process} waits for {named(facts, worker)}"
        links.append(_step(facts, loss, text, before, depth))
        before = worker
    text = f"{before.process} {WAITS[loss.last_part]}"
    links.append(_step(facts, loss, text, before, len(loss.path) + 1))
    return links


def _step(facts: Facts, loss: Loss, text: str, who: Who, depth: int) -> Link:
    share = 1.0
    if depth > 1 and loss.ns:
        share = min(loss.paths[loss.path] / loss.ns, 1.0)
    return link_of(
        who,
        "mechanism",
        text,
        share=share,
        ns_per_s=facts.per_second(loss.ns * share),
        depth=depth,
    )


def blamed(
    facts: Facts, loss: Loss, verb: str, culprits: Sequence[tuple[Who, float]], depth: int
) -> list[Link]:
    """Returns one link for each of ``culprits``, and one link for all other culprits together. ``verb`` says
    what a culprit did, such as ``has the CPU``."""
    links = [
        link_of(
            who,
            "culprit",
            f"{named(facts, who)} {verb}",
            share=min(ns / loss.ns, 1.0) if loss.ns else None,
            ns_per_s=facts.per_second(ns),
            depth=depth,
        )
        for who, ns in culprits
    ]
    text, ns = untold(loss.culprits, culprits, loss.ns)
    if text:
        share = min(ns / loss.ns, 1.0) if loss.ns else None
        rate = facts.per_second(ns)
        links.append(Link("culprit", text, share, rate, process=OTHERS, depth=depth))
    return links
