"""Compares the GPUs on which the ranks of one job run, and tells which are unlike the others.

Entries into collectives are times of programs: they do not show a slow GPU behind a program that runs far
ahead of it, nor collectives in CUDA graphs. But all ranks of a job usually do the same work, so their GPUs
have like figures. One that is unlike the others may be the one for which they wait. This is no more than a
hint: a rank that does other work, such as the last stage of a pipeline, is unlike the others as well.

A GPU is compared by the medians of its last samples, only with GPUs of the same model, and only while it is
busy. It is unlike in a figure that is farther from the median of all than ``APART`` times their usual
distance (the MAD), and than a floor: equal GPUs in one job differ by that, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final, Literal, NamedTuple

from stalltop.model.fleet.host_summary import UNKNOWN, DeviceSummary, HostAddress, HostSummary

KEPT_SAMPLES: Final = 6
"""Newest samples of a GPU that are kept, one a second: steps of training take a second or two, and a sample
falls into any part of them."""
LEAST_SAMPLES: Final = 3
LEAST_GPUS: Final = 4
"""Minimum number of GPUs that are compared. Of two or three, none is unlike "the others"."""
BUSY_PERCENT: Final = 30.0
"""A GPU that is busy for less of the time is idle: its clocks and its power say nothing about a job."""
APART: Final = 6.0
"""Least distance from the median, in standard deviations as the MAD estimates them."""
MAD_OF_DEVIATION: Final = 1.4826
"""Standard deviation of a normal distribution by its MAD (Rousseeuw and Croux, 1993)."""
MOST_SHARE: Final = 0.25
"""If more of the GPUs than this are unlike in a figure, there are two kinds of ranks, and none is told."""
MOST_TOLD: Final = 16
THROTTLED: Final = "throttle_reasons"
"""Name of the figure that has reasons in place of a number."""


class _LikenessRule(NamedTuple):
    figure: str
    """Field of ``DeviceSummary``."""
    worse: Literal["lower", "higher", "both"]
    least: float
    """Least distance from the median, in the unit of the figure."""
    share: float
    """Least distance from the median, as a share of that."""


_RULES: Final = (
    # The performance of equal GPUs in clusters varied by 8 % (Sinha et al., Not All GPUs Are Created Equal,
    # SC'22), mostly by their clocks.
    _LikenessRule("sm_clock_mhz", "lower", 0.0, 0.1),
    _LikenessRule("utilization_percent", "lower", 20.0, 0.0),
    _LikenessRule("power_watts", "both", 0.0, 0.25),
    # GPUs at the end of a server's air flow are 10 °C hotter than those at its beginning.
    _LikenessRule("temperature_celsius", "higher", 15.0, 0.0),
)


class UnlikeDevice(NamedTuple):
    """A GPU that is unlike those of the other ranks of its job, in one figure."""

    address: HostAddress
    device: str
    """Its label on the host."""
    rank: int
    """The rank that uses it, the first if there are several."""
    figure: str
    """Field of ``DeviceSummary``, such as ``sm_clock_mhz``."""
    value: float
    usual: float
    """Median of all compared GPUs. Both figures are ``UNKNOWN`` for throttle reasons."""
    reasons: str
    """Its throttle reasons, which most others do not have; '' for other figures."""
    compared: int
    """Number of GPUs that were compared, with this one."""


class RankDevice(NamedTuple):
    """A GPU on which a rank runs."""

    address: HostAddress
    device: str
    rank: int


class DeviceSamples:
    """The newest samples of the GPUs of ranks, on all hosts. Not thread-safe."""

    def __init__(self) -> None:
        self._samples: dict[HostAddress, dict[str, deque[DeviceSummary]]] = {}
        self._usual: dict[HostAddress, dict[str, DeviceSummary]] = {}
        """Medians of the samples."""

    def take(self, address: HostAddress, summary: HostSummary) -> None:
        """Takes the next sample of the GPUs of a host's ranks."""
        used = summary.rank_devices
        self._usual.pop(address, None)
        if not used:
            self._samples.pop(address, None)
            return
        before = self._samples.get(address, {})
        self._samples[address] = {
            one.label: before.get(one.label, deque[DeviceSummary](maxlen=KEPT_SAMPLES)) for one in used
        }
        for one in used:
            self._samples[address][one.label].append(one)

    def forget(self, address: HostAddress) -> None:
        """Forgets a host."""
        self._samples.pop(address, None)
        self._usual.pop(address, None)

    def unlike(self, devices: Iterable[RankDevice]) -> tuple[UnlikeDevice, ...]:
        """Returns which of the GPUs of a job are unlike the others: by clock first."""
        models: dict[str, dict[RankDevice, DeviceSummary]] = {}
        seen = set[tuple[HostAddress, str]]()
        for device in sorted(devices, key=lambda one: one.rank):
            usual = self._usual_of(device.address).get(device.device)
            if usual is None or usual.utilization_percent < BUSY_PERCENT or device[:2] in seen:
                continue
            seen.add((device.address, device.device))
            models.setdefault(usual.name, {})[device] = usual
        found = [one for group in models.values() if len(group) >= LEAST_GPUS for one in _unlike_in(group)]
        return tuple(found[:MOST_TOLD])

    def _usual_of(self, address: HostAddress) -> Mapping[str, DeviceSummary]:
        """Returns the medians of a host's GPUs by label, of those that have enough samples."""
        if address not in self._usual:
            self._usual[address] = {
                label: _middle(samples)
                for label, samples in self._samples.get(address, {}).items()
                if len(samples) >= LEAST_SAMPLES
            }
        return self._usual[address]


def _middle(samples: Sequence[DeviceSummary]) -> DeviceSummary:
    """Returns the median of each figure, and the throttle reasons of more than half of the samples."""

    def middle(values: Iterable[float]) -> float:
        known = [value for value in values if value != UNKNOWN]
        return median(known) if known else UNKNOWN

    reasons = [reason for one in samples for reason in one.reasons]
    lasting = [one for one in dict.fromkeys(reasons) if 2 * reasons.count(one) > len(samples)]
    return samples[-1]._replace(
        utilization_percent=middle(one.utilization_percent for one in samples),
        temperature_celsius=middle(one.temperature_celsius for one in samples),
        power_watts=middle(one.power_watts for one in samples),
        sm_clock_mhz=middle(one.sm_clock_mhz for one in samples),
        throttle_reasons="; ".join(lasting),
    )


def _unlike_in(group: Mapping[RankDevice, DeviceSummary]) -> list[UnlikeDevice]:
    found: list[UnlikeDevice] = []
    most = max(MOST_SHARE * len(group), 1)
    for rule in _RULES:
        values = {one: value for one, usual in group.items() if (value := getattr(usual, rule.figure)) >= 0}
        if len(values) < LEAST_GPUS:
            continue
        middle = median(values.values())
        mad = median(abs(value - middle) for value in values.values())
        least = max(rule.least, rule.share * middle, APART * MAD_OF_DEVIATION * mad)
        told = [
            UnlikeDevice(*one, rule.figure, value, middle, "", len(values))
            for one, value in values.items()
            if abs(value - middle) > least and rule.worse in ("both", "lower" if value < middle else "higher")
        ]
        found += told if len(told) <= most else ()
    holders: dict[str, list[RankDevice]] = {}
    for one, usual in group.items():
        for reason in usual.reasons:
            holders.setdefault(reason, []).append(one)
    throttled: dict[RankDevice, list[str]] = {}
    for reason, those in holders.items():
        for one in those if len(those) <= most else ():
            throttled.setdefault(one, []).append(reason)
    found += [
        UnlikeDevice(*one, THROTTLED, UNKNOWN, UNKNOWN, "; ".join(reasons), len(group))
        for one, reasons in throttled.items()
    ]
    return found
