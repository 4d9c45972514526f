"""Reads one GPU through NVML. Reads each part at its own interval, and remembers when it read the part."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from stalltop.model.devices.device import DEVICE_COUNTERS, Device, DeviceProcess, MigInstance
from stalltop.model.sharing.ways import MPS_CLIENT
from stalltop.model.text.clean import clean
from stalltop.probes.nvml import mig as nvml_mig
from stalltop.probes.nvml.asking import Asking, NvmlCallError, slowed
from stalltop.probes.nvml.gpm import METRICS, Gpm
from stalltop.probes.nvml.processes import LISTS, Samples, listed, together
from stalltop.probes.nvml.questions import NOT_GIVEN
from stalltop.probes.nvml.readings import EACH_LOOK, ONCE, READINGS, SELDOM, SOON, STEADY, Reading
from stalltop.probes.nvml.switch_log import opened as opened_log
from stalltop.probes.nvml.time_slices import OpenLog, TimeSlices

AGED_SECONDS: Final = 3.0
"""A figure is reported with its age if the age is at least this, and at least ``SOON`` (2 s) more than the
interval at which the figure is read, s."""
LOOK_NS: Final = 2_000_000_000
"""Time limit of one sample of a GPU, ns. What was not read by then is read by the next sample."""
ASKED_AGAIN_SECONDS: Final = 60.0
"""A question that NVML did not support or permit is asked again after this many seconds."""
_EARLY_SECONDS: Final = 0.3
"""Samples are not exactly on time, so a question that would be due within this many seconds is asked now."""
_DURATIONS: Final = 15
"""Number of latest durations that are kept for each question. Their median decides how often the question is
asked."""
_WRONG: Final = ""
"""Key of an answer's problems; all other keys of an answer are its fields."""
_AGING: Final = (
    frozenset(
        figure.field
        for reading in READINGS
        if reading.every_seconds < STEADY
        for figure in reading.figures
        if figure.make in (int, float) or figure.field.endswith("_watts")
    )
    | {"processes", *(metric[1] for metric in METRICS)}
) - set(DEVICE_COUNTERS)
"""Fields that are reported with their age if they are old. Counters are not among them: they are reported
with their age whenever they were not read."""

Question = Callable[[], dict[str, Any] | None]


@dataclass(slots=True)
class _LastAnswer:
    """The last answer to a question."""

    answer: dict[str, Any] = field(default_factory=dict)
    """Values by field."""
    problems: tuple[str, ...] = ()
    """Why there is no answer, or why a part of it is missing. Empty if that need not be reported."""
    at: float = float("-inf")
    asked_now: bool = False
    """Whether the question was asked in the latest sample."""
    every_seconds: float = EACH_LOOK
    """Interval at which the question should be asked, s. Expensive questions are asked less often."""
    again: float = float("-inf")
    """Clock time before which the question must not be asked again."""
    took_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_DURATIONS))


class Gpu:
    """Reads one GPU, each part at its own interval. Used from one thread."""

    def __init__(
        self,
        index: int,
        ask: Asking,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        known: Gpu | None = None,
        open_log: OpenLog = opened_log,
    ) -> None:
        """``known`` is the GPU that had this index before NVML was opened again. If the GPU cannot report its
        name and UUID any more, it gets those of ``known``. ``open_log`` opens the log of context switches."""
        self.index = index
        self.uuid: str = known.uuid if known else ""
        self.name: str = known.name if known else f"GPU {index}"
        self._ask = ask
        self._clock = clock
        self._kept: dict[str, _LastAnswer] = {}
        self._samples = Samples(clock=wall_clock)
        self._gpm: Gpm | None = None
        self._slices = TimeSlices(open_log)
        self._named = False
        self._mig: bool | None = None
        self._asked: list[tuple[str, _LastAnswer]] = []
        """The questions of the latest sample, with their answers."""
        self._spent_ns = 0
        """``Asking.spent_ns``, the total time of all calls so far, as it was when the latest sample began."""
        self._first = 0
        """Index of the reading with which the latest sample began: the first reading that the previous sample
        left out because its time was up; 0 if it left out none."""
        self._late = ""

    def look(self, handle: Any, watch: Callable[[], None]) -> Device:
        """Returns the GPU as it is now, without its XIDs. ``watch`` registers the GPU so that its XIDs are
        reported. Raises what ``Asking`` raises."""
        ask = self._ask
        self._asked.clear()
        self._first = next((at for at, reading in enumerate(READINGS) if reading.name == self._late), 0)
        self._late, self._spent_ns = "", ask.spent_ns
        if not self._named:
            self.uuid = clean(ask("nvmlDeviceGetUUID", handle))
            self.name = clean(ask("nvmlDeviceGetName", handle)) or self.name
            self._named = True
        self._take("XIDs", ONCE, watch, optional=False)
        told: dict[str, Any] = {}
        told |= self._take(
            "bus", ONCE, lambda: {"pci_bus_id": clean(ask("nvmlDeviceGetPciInfo", handle).busId)}
        )
        instances = self._instances(handle)
        told |= self._take("GPM", EACH_LOOK, lambda: self._performance(handle))
        for reading in (*READINGS[self._first :], *READINGS[: self._first]):
            if reading.given not in told:
                told |= self._of_now(
                    reading,
                    self._take(
                        reading.name, reading.every_seconds, self._question(reading, handle), reading.optional
                    ),
                )
        processes = self._processes(handle, instances)
        logged, processes = self._with_residency(told, processes)
        instances = nvml_mig.with_processes(instances, processes)
        return Device(
            index=self.index,
            uuid=self.uuid,
            name=self.name,
            mig=self._mig,
            processes=processes,
            instances=instances,
            notes=tuple(self._notes()),
            ages=tuple(self._ages()),
            **told,
            **logged,
        )

    def close(self) -> None:
        """Frees the memory that the driver holds for the GPM samples of this GPU, and closes the log of its
        context switches."""
        if self._gpm is not None:
            self._gpm.close()
            self._gpm = None
        self._slices.close()

    def _take(self, name: str, every: float, question: Question, optional: bool = True) -> dict[str, Any]:
        """Returns the answer to a question. The question is asked now if it is due and the sample has time
        left; otherwise the last answer is returned."""
        ask = self._ask
        kept = self._kept.setdefault(name, _LastAnswer())
        kept.every_seconds, kept.asked_now = every, False
        self._asked.append((name, kept))
        now = self._clock()
        if now < kept.again:
            return kept.answer
        if ask.spent_ns - self._spent_ns > LOOK_NS:
            self._late = self._late or name
            return kept.answer
        kept.asked_now = True
        before = ask.spent_ns
        kept.answer, kept.problems = {}, ()
        ask.begin()
        rhythm = every
        try:
            kept.answer = question() or {}
            kept.problems = kept.answer.pop(_WRONG, ())
        except NvmlCallError as none:
            if not (none.unsupported and (optional or self._mig)):
                kept.problems = (str(none),)
            rhythm = max(ASKED_AGAIN_SECONDS, 0.0 if every == ONCE else every) if none.lasting else EACH_LOOK
        finally:
            kept.took_ns.append(ask.spent_ns - before)
        rhythm = max(rhythm, slowed(kept.took_ns))
        ask.rhythm(f"{self.index} {name}", None if rhythm == ONCE else rhythm)
        kept.at = self._clock()
        kept.again = now + rhythm - _EARLY_SECONDS
        return kept.answer

    def _of_now(self, reading: Reading, answer: dict[str, Any]) -> dict[str, Any]:
        """Returns ``answer``. If the question was not asked in this sample, the counters are left out: their
        present values are unknown, and the old values would look as if nothing had been counted since."""
        if self._kept[reading.name].asked_now:
            return answer
        return {name: value for name, value in answer.items() if name not in DEVICE_COUNTERS}

    def _question(self, reading: Reading, handle: Any) -> Question:
        """Returns a question that makes the call of ``reading``, and whose answer has fields of
        ``Device``."""

        def question() -> dict[str, Any]:
            found: dict[str, Any] = {}
            for figure, value in zip(reading.figures, reading.ask(self._ask, handle), strict=True):
                if value is None or value in NOT_GIVEN:
                    continue
                if 0 <= value <= figure.most:
                    found[figure.field] = figure.make(value)
                else:
                    found[_WRONG] = ("an implausible answer",)
            return found

        return question

    def _performance(self, handle: Any) -> dict[str, Any]:
        if self._gpm is None:
            self._gpm = Gpm(self._ask, handle)
        return dict(self._gpm.read(handle))

    def _instances(self, handle: Any) -> tuple[MigInstance, ...]:
        """Returns the present MIG devices."""
        ask = self._ask
        mode = self._take("MIG mode", SELDOM, lambda: {"on": bool(ask("nvmlDeviceGetMigMode", handle)[0])})
        self._mig = mode.get("on")
        if not self._mig:
            return ()
        there = self._take(
            "MIG devices", SELDOM, lambda: {"all": nvml_mig.instances(ask, handle)}, optional=False
        )
        found: list[MigInstance] = []
        for one in there.get("all", ()):
            told = self._take(
                f"MIG device {one.index}",
                EACH_LOOK,
                lambda one=one: {"now": nvml_mig.read(ask, self.index, one)},  # type: ignore[misc]
            )
            found += told.values()
        return tuple(found)

    def _processes(self, handle: Any, instances: tuple[MigInstance, ...]) -> tuple[DeviceProcess, ...]:
        """Returns all processes on the GPU, including those of its MIG devices."""
        lists: dict[str, Any] = {}
        for name, what, kind in LISTS:
            told = self._take(
                name,
                EACH_LOOK,
                lambda what=what: {"processes": listed(self._ask, handle, what)},  # type: ignore[misc]
                optional=False,
            )
            lists[kind] = told.get("processes", ())
        found = {process.pid: process for process in together(lists)}
        for instance in instances:
            found |= {process.pid: process for process in instance.processes}
        if found and not self._mig:
            self._take("process samples", EACH_LOOK, lambda: self._samples.look(self._ask, handle))
            found = {pid: self._samples.of(process) for pid, process in found.items()}
        return tuple(found[pid] for pid in sorted(found))

    def _with_residency(
        self, told: dict[str, Any], processes: tuple[DeviceProcess, ...]
    ) -> tuple[dict[str, Any], tuple[DeviceProcess, ...]]:
        """Returns the sums of the log of context switches since the first sample, as fields of ``Device``,
        and ``processes`` with the time in which each had the GPU since then.

        The log is open only while several processes share the GPU by time-slicing. MPS clients share one
        context, whose time the log gives to one of them or to the MPS server.
        """
        name, minor, place = "context switches", told.get("minor"), told.get("pci_bus_id")
        apart = self._mig or len(processes) < 2 or any(one.kind == MPS_CLIENT for one in processes)
        if apart or minor is None or place is None:
            self._slices.close()
            return {}, processes
        answer = self._take(name, EACH_LOOK, lambda: self._slices.read(minor, place))
        if not answer or not self._kept[name].asked_now:
            return {}, processes
        resident_ns = self._slices.resident_ns
        return answer, tuple(replace(one, resident_ns=resident_ns(one.pid)) for one in processes)

    def _ages(self) -> Iterator[tuple[str, float]]:
        """Yields the names of figures that are not new, and of counters that were not read in this sample,
        each with its age in s."""
        now = self._clock()
        old: dict[str, float] = {}
        for _, kept in self._asked:
            age = round(now - kept.at, 1)
            if not kept.asked_now:
                old |= {name: age for name in kept.answer if name in DEVICE_COUNTERS}
            if age >= max(AGED_SECONDS, kept.every_seconds + SOON):
                old |= {name: age for name in kept.answer if name in _AGING}
        yield from old.items()

    def _notes(self) -> Iterator[str]:
        """Yields one line for each reason why something could not be read."""
        reasons: dict[str, list[str]] = {}
        for name, kept in self._asked:
            for reason in kept.problems:
                reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            yield f"{', '.join(names)}: {reason}"
