"""Limits for values that are read from files. Each check raises ValueError with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stalltop.model.calls import CapturedCall
from stalltop.model.chain import Chain
from stalltop.model.cuda_kernels import BUCKETS, KernelCount
from stalltop.model.evidence import Evidence
from stalltop.model.window import SPLITS

LATEST: Final = 250_000_000_000.0
"""Latest time that is accepted, in Unix seconds: in the year 9892, within the range of Python's times."""
_DEEPEST: Final = 32
"""Largest depth that a link of a chain may have."""


def check_span(start: float, seconds: float) -> None:
    """Check the start (Unix seconds) and the length of a window."""
    if not (0 <= start <= LATEST and 0 <= seconds <= LATEST):
        raise ValueError("start or seconds is out of range")


def check_evidence(evidence: Evidence) -> None:
    """Check the times of events and the kinds of charges."""
    if not all(0 <= event.time <= LATEST for event in evidence.events):
        raise ValueError("evidence.events: a time is out of range")
    if not all(charge.kind in SPLITS for charge in evidence.charges):
        raise ValueError("evidence.charges: a kind is not known")


def check_chains(chains: Iterable[Chain]) -> None:
    """Check the times of chains and the depths of their links."""
    for chain in chains:
        if not (0 <= chain.since <= LATEST and 0 <= chain.seen <= LATEST):
            raise ValueError("chains: since or seen is out of range")
        if any(link.depth > _DEEPEST for link in chain.links):
            raise ValueError("chains: a link is too deep")


def check_kernels(kernels: Iterable[KernelCount]) -> None:
    """Check the buckets of CUDA kernels."""
    if any(bucket >= BUCKETS for kernel in kernels for bucket, _ in kernel.buckets):
        raise ValueError("kernels: the number of a bucket is too large")


def check_calls(kept: Iterable[CapturedCall]) -> None:
    """Check the times and the splits of captured calls."""
    for call in kept:
        if not 0 <= call.start_ns <= LATEST * 1e9:
            raise ValueError("calls.kept: a start is out of range")
        if call.split_ns is not None and len(call.split_ns) != len(SPLITS):
            raise ValueError("calls.kept: a split has a wrong number of parts")
