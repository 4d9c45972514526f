"""Keeps track of the devices that this node's kubelet allocated to pods. Runs on its own thread, which never
delays windows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stalltop.model.devices.allocation import Allocation
from stalltop.model.tenant import Tenant
from stalltop.model.text.clean import clean
from stalltop.model.window import Missing
from stalltop.probes.kubelet.folder import is_node, kubelet_folder
from stalltop.probes.kubelet.joining import Binder, Known, is_scheduled, known, with_pod, with_tenants

if TYPE_CHECKING:
    from stalltop.probes.kubelet.pods import PodReader, Pods

ASK_SECONDS: Final = 5.0
"""Usual time between two requests to the kubelet, in seconds."""
SOON_SECONDS: Final = 1.0
"""Time until the next request to the kubelet, in seconds, if the pod of an allocation is not certain yet, or
if an unknown pod makes calls."""
SOON_TIMES: Final = 8
"""Maximum number of consecutive requests with pauses of ``SOON_SECONDS``. After them, the pause is
``ASK_SECONDS``."""
IDLE_SECONDS: Final = 15.0
"""Time between two checks of a host without a kubelet, in seconds."""
ALLOCATABLE_SECONDS: Final = 60.0
"""Time between two requests for all resources, allocated or not, in seconds."""
STALE_SECONDS: Final = 30.0
"""Age from which an answer is reported as old, s."""
FORGOTTEN_SECONDS: Final = 300.0
"""Age from which an allocation is no longer shown, s. An older allocation is still shown if its pod is known
to exist."""


@dataclass(frozen=True, slots=True)
class KubeletAnswer:
    """The known pods and allocations, for one window."""

    tenants: dict[str, Tenant]
    """The given tenants, with the known facts about their pods."""
    allocations: tuple[Allocation, ...] = ()
    missing: tuple[Missing, ...] = ()
    scheduled: tuple[str, ...] = ()
    """Ids of the tenants whose allocations are all in ``allocations``."""
    allocatable: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Every GPU resource with its devices, allocated or not; empty if unknown."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The pods and allocations that are known at one time. A new answer replaces the whole object."""

    allocations: tuple[Allocation, ...] = ()
    clock: float | None = None
    """When the kubelet reported the allocations; None if it never did."""
    unavailable: str = ""
    """Why the kubelet does not answer now."""
    known: Known = field(default_factory=Known)
    complete: frozenset[str] = frozenset()
    """UIDs of the pods whose allocations are all known."""
    allocatable: tuple[tuple[str, tuple[str, ...]], ...] = ()


class KubeletReader:
    """Returns the pods of this node and their devices as they were a few seconds ago. Used from one thread.

    Another thread sends the requests to the kubelet and the container runtime. If a request hangs, the caller
    does not wait for it, and gets the last answer.
    """

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._answer = _Answer()
        self._named: dict[str, tuple[Tenant, Tenant]] = {}
        """By tenant id: the tenant as given to `read`, and the same tenant with the known facts about its
        pod."""
        self._named_by = self._answer
        self._looked_for: set[str] = set()
        """UIDs of pods that make calls but were in no list. For each of these pods, the lists have been read
        once more, earlier than usual."""
        self._stop, self._wake = threading.Event(), threading.Event()
        self._poll = _Poll(root, clock)
        threading.Thread(target=self._run, name="kubelet", daemon=True).start()

    def read(self, tenants: Mapping[str, Tenant]) -> KubeletAnswer:
        """Returns the known pods and allocations for a window with these tenants. Never raises and never
        waits."""
        answer = self._answer
        if self._named_by is not answer:
            self._named, self._named_by = {}, answer
        found = {key: self._with_pod(tenant, answer.known) for key, tenant in tenants.items()}
        if len(self._named) > 2 * len(tenants):  # Without a kubelet, there is no other answer.
            self._named = {key: named for key, named in self._named.items() if key in tenants}
        if answer.known.pods:
            self._look_for({tenant.pod_uid for tenant in found.values()} - {"", *answer.known.pods})
        return KubeletAnswer(
            found,
            with_tenants(answer.allocations, found, answer.known),
            self._missing(answer),
            self._scheduled(answer, found),
            answer.allocatable,
        )

    def close(self) -> None:
        """Lets the thread end after its present request. Does not wait. May be called twice."""
        self._stop.set()
        self._wake.set()

    def _with_pod(self, tenant: Tenant, found: Known) -> Tenant:
        named = self._named.get(tenant.id)
        if named is None or named[0] is not tenant:
            named = self._named[tenant.id] = tenant, with_pod(tenant, found)
        return named[1]

    def _look_for(self, unknown: set[str]) -> None:
        if not unknown <= self._looked_for:
            self._wake.set()
        self._looked_for = unknown

    def _scheduled(self, answer: _Answer, tenants: Mapping[str, Tenant]) -> tuple[str, ...]:
        if answer.clock is None or answer.unavailable or self._clock() - answer.clock > STALE_SECONDS:
            return ()
        return tuple(key for key, one in tenants.items() if key and is_scheduled(one, answer.complete))

    def _missing(self, answer: _Answer) -> tuple[Missing, ...]:
        since = self._began if answer.clock is None else answer.clock
        age = self._clock() - since if answer.unavailable else 0.0
        if age < STALE_SECONDS:
            return ()
        said = "not known" if answer.clock is None else f"last known {age:.0f} s ago"
        said += f": {answer.unavailable}"
        return (Missing("allocations of GPUs to pods", said, "see whether the kubelet runs"),)

    def _run(self) -> None:
        while not self._stop.is_set():
            began = self._clock()
            self._answer = self._poll.look(self._answer)
            # The pause is at least as long as the request was.
            self._stop.wait(max(SOON_SECONDS, self._clock() - began))
            self._wake.wait(self._poll.pause - SOON_SECONDS)
            self._wake.clear()


class _Poll:
    """Sends requests to the kubelet and reads the sources of pods. Keeps the results of a request that the
    next one needs. Used from the background thread."""

    def __init__(self, root: Path, clock: Callable[[], float]) -> None:
        self._root = root
        self._clock = clock
        self._pods: PodReader | None = None
        self._before: Pods | None = None
        """Pods as they were before the next request to the kubelet: the pods that were read after the
        previous request. None if the next request has to read them first."""
        self._binder = Binder()
        self._unsure: set[tuple[str, str, str]] = set()
        """Containers whose pods were uncertain in the last answer."""
        self._soon = 0
        """Number of consecutive requests after which the same containers were uncertain as after the request
        before."""
        self._allocatable: tuple[tuple[str, tuple[str, ...]], ...] = ()
        self._allocatable_due = clock()
        self.pause = IDLE_SECONDS
        """Seconds until the next request."""

    def look(self, last: _Answer) -> _Answer:
        """Makes one request, and returns the pods and allocations that are then known. ``last`` is the
        previous answer. Never raises."""
        try:
            if not kubelet_folder(self._root).exists():
                self.pause, self._before = IDLE_SECONDS, None
                return last if last == _Answer() else _Answer()
            return self._ask(last)
        # An unexpected answer must not stop the thread. Only the allocations are then unknown.
        except Exception as error:
            self.pause = ASK_SECONDS
            said = clean(f"{type(error).__name__}: {error}")
            return _Answer(last.allocations, last.clock, said, last.known)

    def _ask(self, last: _Answer) -> _Answer:
        # Imported here because gRPC takes a while to load, and most hosts are not Kubernetes nodes.
        from stalltop.probes.kubelet import pod_resources
        from stalltop.probes.kubelet.pods import PodReader

        if self._pods is None:
            self._pods = PodReader(self._root)
        before = self._before or self._pods.read()
        due = self._clock() >= self._allocatable_due
        told = pod_resources.read(self._root, allocatable=due)
        after = self._before = self._pods.read()
        if told.unavailable:
            allocations, clock = self._left(last, after), last.clock
            complete: frozenset[str] = frozenset()
        else:
            # If a pod appeared during the request to the kubelet, the answer may lack this pod.
            there = set(before.uids().items()) & set(after.uids().items())
            complete = frozenset(uid for name, uid in there if name in told.pods)
            if due:
                self._allocatable = told.allocatable
                self._allocatable_due = self._clock() + ALLOCATABLE_SECONDS
            allocations = self._binder.bound(told.allocations, before.uids(), after.uids())
            clock = self._clock()
        unsure = {(one.namespace, one.pod, one.container) for one in allocations if not one.pod_uid}
        self._soon = 0 if unsure != self._unsure else self._soon + 1
        self._unsure = unsure
        self.pause = SOON_SECONDS if unsure and self._soon < SOON_TIMES else ASK_SECONDS
        # Without a subfolder for pods and without a socket, no kubelet ever ran here. So nothing is missing.
        why = told.unavailable if clock is not None or is_node(self._root) else ""
        return _Answer(allocations, clock, why, known(after.pods), complete, self._allocatable)

    def _left(self, last: _Answer, now: Pods) -> tuple[Allocation, ...]:
        """Returns the last known allocations of pods that still exist. If it is unknown whether a pod exists,
        its allocations are returned unless they are too old."""
        old = last.clock is None or self._clock() - last.clock > FORGOTTEN_SECONDS
        alive = {pod.uid for pod in now.pods}
        return tuple(
            one
            for one in last.allocations
            if (one.pod_uid in alive if one.pod_uid and now.source else not old)
        )
