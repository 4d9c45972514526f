"""What nothing that is read from a file may exceed: raised as ValueError, with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stalltop.model.calls import KeptCall
from stalltop.model.chain import Chain
from stalltop.model.cuda_kernels import BUCKETS, KernelCount
from stalltop.model.evidence import Evidence
from stalltop.model.window import SPLITS

LATEST: Final = 250_000_000_000.0
"""Latest time taken, in Unix seconds: what clocks can be asked to show (the year 9892)."""
_DEEPEST: Final = 32
"""Steps from an effect to its root; no more are followed."""


def check_span(start: float, seconds: float) -> None:
    """Both are times."""
    if not (0 <= start <= LATEST and 0 <= seconds <= LATEST):
        raise ValueError("start or seconds is no time")


def check_evidence(evidence: Evidence) -> None:
    """Times of events are times, and kinds of charges are parts of a split."""
    if not all(0 <= event.time <= LATEST for event in evidence.events):
        raise ValueError("evidence.events: a time is none")
    if not all(charge.kind in SPLITS for charge in evidence.charges):
        raise ValueError("evidence.charges: a kind is not known")


def check_chains(chains: Iterable[Chain]) -> None:
    """Times are times, and links lie no deeper than they are drawn."""
    for chain in chains:
        if not (0 <= chain.since <= LATEST and 0 <= chain.seen <= LATEST):
            raise ValueError("chains: since or seen is no time")
        if any(link.depth > _DEEPEST for link in chain.links):
            raise ValueError("chains: a link lies too deep")


def check_kernels(kernels: Iterable[KernelCount]) -> None:
    """Buckets are buckets."""
    if any(bucket >= BUCKETS for kernel in kernels for bucket, _ in kernel.buckets):
        raise ValueError("kernels: there is no such bucket")


def check_calls(kept: Iterable[KeptCall]) -> None:
    """Times are times, and splits have all their parts."""
    for call in kept:
        if not 0 <= call.start_ns <= LATEST * 1e9:
            raise ValueError("calls.kept: a start is no time")
        if call.split_ns is not None and len(call.split_ns) != len(SPLITS):
            raise ValueError("calls.kept: a split does not have as many parts as there are")
