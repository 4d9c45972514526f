"""Collects the stacks of a window: of captured calls, of calls that hang, and those sampled in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from stalltop.model.row_key import RowKey
from stalltop.model.stacks.stack import StackCount
from stalltop.model.stacks.sums import added_stacks
from stalltop.model.window import Missing, OpenCall
from stalltop.probes.captured_calls import call_stacks
from stalltop.probes.confined.link import Confined
from stalltop.probes.maps.raw import RawCapturedCall
from stalltop.probes.maps.samples import KernelSamples
from stalltop.probes.maps.slots import SlotKey
from stalltop.probes.maps.stacks import KernelStacks
from stalltop.probes.stack_reading.sample_reader import SampleReader
from stalltop.probes.stack_reading.stack_budget import StackBudget
from stalltop.probes.stack_reading.stack_names import Demangles
from stalltop.probes.stack_reading.stack_reader import StackReader
from stalltop.probes.stacks.layout import Stacks

HANGING_NS: Final = 2_000_000_000
"""Age of a call, ns, from which its stack is read although it has not returned."""
MOST_HANGING: Final = 16
"""Maximum number of such calls whose stacks are read in one window: those that are open for longest."""


class WindowStacks:
    """Reads stacks. ``look`` may be called from another thread than the other methods."""

    def __init__(
        self,
        kernel: KernelStacks,
        samples: KernelSamples,
        of: Stacks,
        confined: Confined,
        demangler: Demangles,
    ) -> None:
        """``of`` says of which captured calls stacks are read."""
        kernel.choose(of)
        self._kernel_samples = samples
        budget = StackBudget(kernel.limit, samples.choose)
        self._budget = budget
        self._calls = StackReader(kernel, confined, demangler, confined.impatient, spent=budget.calls_read)
        self._samples = SampleReader(samples, self._calls, spent=budget.samples_read)

    def look(self, remapped: set[int] | None) -> None:
        """Names the stacks that were read, and finds the frames of new threads. To be called several times a
        second. ``remapped`` has the processes that have mapped code since the previous call; None: any
        may have."""
        self._calls.remapped(remapped)
        self._kernel_samples.run(self._calls.look())
        self._samples.look()
        self._budget.keep()

    def take(
        self,
        captured: Sequence[RawCapturedCall],
        open_calls: Iterable[OpenCall],
        row_of: Callable[[SlotKey], RowKey],
    ) -> tuple[StackCount, ...]:
        """Returns the stacks of the captured calls of a window, of calls that hang, and of samples."""
        found = self._calls.take()
        returned = call_stacks(captured, found, row_of)
        self._calls.keep(found)
        return added_stacks([returned, self._hanging(open_calls), self._samples.take(row_of)])

    def missing(self) -> tuple[Missing, ...]:
        """Returns what has no lines."""
        return (*self._calls.missing(), *self._samples.missing())

    def forget(self, pid: int) -> None:
        """Forgets a process that has ended."""
        self._calls.forget(pid)
        self._samples.forget(pid)

    def _hanging(self, open_calls: Iterable[OpenCall]) -> list[StackCount]:
        hanging = [call for call in open_calls if call.age_ns >= HANGING_NS and not call.ended]
        stacks = []
        for call in sorted(hanging, key=lambda call: -call.age_ns)[:MOST_HANGING]:
            stack = self._calls.now(call.pid, call.tid)
            if stack is None:  # Other questions are being answered: the next window tries again.
                break
            if stack.frames:
                who = call.tenant, call.pid, call.process, call.layer, call.operation, call.nested
                stacks.append(StackCount(*who, "open", 1, call.age_ns, stack.frames, stack.cut, call.device))
        return stacks
