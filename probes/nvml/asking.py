"""Makes calls of NVML, one at a time; measures how long each takes, and interprets its errors.

The functions are those of the nvidia-ml-py bindings (module ``pynvml``), called by their names. If a version
of the bindings or of the driver lacks a function, only the figures of that function are missing.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from stalltop.model.call_cost import CallCost
from stalltop.model.text.clean import clean

LATEST: Final = 256
"""Number of latest durations that are kept for each function."""
RHYTHMS: Final = ((50_000_000, 60.0), (5_000_000, 10.0))
"""Pairs of a duration (ns) and an interval (s). A question whose calls together usually take longer than this
duration is asked only once per interval."""
FEW: Final = 7
"""Number of known durations of a question. With at least this many, their median decides whether the question
is slow. With fewer, the shortest duration decides. With fewer than ``FEW // 2`` (3), the question does not
count as slow."""
_MANGLED: Final = (
    ArithmeticError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
    ctypes.ArgumentError,
    AttributeError,
)
"""Exceptions that the bindings raise if an answer of the library has another form than they expect."""


class NvmlUnavailableError(Exception):
    """NVML cannot be read at all, for instance without a driver; the text is one line that says why."""


class GpuLostError(Exception):
    """This GPU does not answer any more; the text says why."""


class NvmlCallError(Exception):
    """One call failed, but not the GPU or NVML as a whole; the text says why."""

    def __init__(
        self,
        reason: str,
        *,
        lasting: bool = False,
        unsupported: bool = False,
        missing: bool = False,
        nothing_new: bool = False,
        of_all: str = "",
    ) -> None:
        super().__init__(reason)
        self.lasting = lasting
        """Whether the failure is lasting, so that asking again soon makes no sense."""
        self.unsupported = unsupported
        """Whether this board or driver does not support the call, which is not a fault."""
        self.missing = missing
        """Whether this driver lacks the function, so that an older function has to be called instead."""
        self.nothing_new = nothing_new
        """Whether NVML found nothing (yet)."""
        self.of_all = of_all
        """One line that says what this error means if it occurs while NVML is opened."""


@dataclass(slots=True)
class _Durations:
    calls: int = 0
    failures: int = 0
    latest: deque[int] = field(default_factory=lambda: deque(maxlen=LATEST))
    rhythms: dict[str, float] = field(default_factory=dict)
    """Intervals in seconds at which questions call this function, by name of the question."""


class Asking:
    """Makes calls of ``nvml``, the module ``pynvml``, and measures what they cost. Used from one thread."""

    def __init__(self, nvml: Any, *, timer: Callable[[], int] = time.perf_counter_ns) -> None:
        self.nvml = nvml
        self._timer = timer
        self._costs: dict[str, _Durations] = {}
        self.spent_ns = 0
        """Time spent in all calls so far."""
        self._lately: set[str] = set()
        """Functions that were called since ``begin``."""

    def __call__(self, function: str, *arguments: object) -> Any:
        """Calls ``function`` of the bindings and returns its result. An argument that names an NVML constant
        (``NVML_...``) is replaced by the constant's value.

        Raises NvmlCallError if the call fails, GpuLostError if the device answers no call any more, and
        NvmlUnavailableError if NVML as a whole answers no calls.
        """
        nvml = self.nvml
        call = getattr(nvml, function, None)
        known = [getattr(nvml, a) if isinstance(a, str) and a.startswith("NVML_") else a for a in arguments]
        if call is None:
            raise NvmlCallError(
                "the nvidia-ml-py bindings are too old for this call", lasting=True, unsupported=True
            )
        cost = self._costs.setdefault(function, _Durations())
        began = self._timer()
        failed = True
        try:
            answer = call(*known)
            failed = False
        except nvml.NVMLError as error:
            raise self._meaning(error) from error
        except _MANGLED as error:
            raise NvmlCallError(f"an answer that cannot be read ({type(error).__name__})") from error
        finally:
            took = self._timer() - began
            cost.calls += 1
            cost.failures += failed
            cost.latest.append(took)
            self._lately.add(function)
            self.spent_ns += took
        return answer

    def begin(self) -> None:
        """Begins a new question: forgets which functions earlier questions called."""
        self._lately.clear()

    def rhythm(self, question: str, every_seconds: float | None) -> None:
        """Records how often a question is asked. Every function that was called since ``begin`` belongs to
        ``question``, which is asked once every ``every_seconds`` seconds (0: in each sample; None: only
        once). For each function, ``costs`` reports the shortest of its intervals."""
        for name in self._lately:
            rhythms = self._costs[name].rhythms
            if every_seconds is None:
                rhythms.pop(question, None)
            else:
                rhythms[question] = every_seconds
        self._lately.clear()

    def costs(self) -> tuple[CallCost, ...]:
        """Returns the cost of calls to each function called so far, the longest median duration first."""
        found = [_cost(name, durations) for name, durations in self._costs.items() if durations.calls]
        return tuple(sorted(found, key=lambda cost: (-cost.median_ns, cost.name)))

    def _meaning(self, error: Any) -> Exception:
        nvml = self.nvml
        if error.value in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED):
            return GpuLostError(in_words(error))
        if error.value in (nvml.NVML_ERROR_UNINITIALIZED, nvml.NVML_ERROR_DRIVER_NOT_LOADED):
            return NvmlUnavailableError(self._why_not(error))
        unsupported = error.value in (
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_INVALID_ARGUMENT,
        )
        lasting = unsupported or error.value == nvml.NVML_ERROR_NO_PERMISSION
        return NvmlCallError(
            in_words(error),
            lasting=lasting,
            unsupported=unsupported,
            missing=error.value == nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nothing_new=error.value == nvml.NVML_ERROR_NOT_FOUND,
            of_all=self._why_not(error),
        )

    def _why_not(self, error: Any) -> str:
        """Returns, in one line, the meaning of an error that concerns NVML as a whole."""
        nvml = self.nvml
        known = {
            nvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver on this host (libnvidia-ml.so.1 not found)",
            nvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
            nvml.NVML_ERROR_UNINITIALIZED: "the NVIDIA driver was unloaded",
            nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
                "the loaded NVIDIA driver and its library differ in version: reload the driver or reboot"
            ),
            nvml.NVML_ERROR_NO_PERMISSION: "this user may not use the NVIDIA driver",
        }
        return known.get(error.value, f"NVML: {in_words(error)}")


def slowed(took_ns: deque[int]) -> float:
    """Returns how many seconds have to pass until a question is asked again, given how long its calls took
    each time that it was asked lately; 0 if it is cheap.

    If only a few durations are known, the shortest one decides: the first call of many functions wakes the
    board, and any call may have had to wait for a CPU.
    """
    if len(took_ns) < FEW // 2:
        return 0.0
    usual = min(took_ns) if len(took_ns) < FEW else statistics.median_low(took_ns)
    return next((seconds for limit, seconds in RHYTHMS if usual > limit), 0.0)


def in_words(error: Exception) -> str:
    """Returns the message of an NVML error in a form that fits into a sentence."""
    return clean(str(error)).rstrip(".").lower().replace("gpu", "GPU")


def _cost(name: str, durations: _Durations) -> CallCost:
    ordered = sorted(durations.latest)
    return CallCost(
        name=name,
        calls=durations.calls,
        failures=durations.failures,
        median_ns=statistics.median_low(ordered),
        p99_ns=ordered[min(len(ordered) * 99 // 100, len(ordered) - 1)],
        max_ns=ordered[-1],
        every_seconds=min(durations.rhythms.values(), default=None),
    )
