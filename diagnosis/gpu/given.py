"""Finds tenants that use other devices than the scheduler gave them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import link_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import Usage
from stalltop.diagnosis.wording.figures import figure
from stalltop.model.chain import Fix
from stalltop.model.sharing.sharing import Sharer, Sharing, sharings
from stalltop.model.telling import Telling

CAUSES: Final = (
    Cause(
        "gpu_not_given",
        "Uses a GPU not assigned to it",
        "a tenant works on a device that Kubernetes gave to others, or to nobody",
        Telling(
            "uses {device}, which Kubernetes did not give it",
            "uses {device}, which Kubernetes did not give it",
            state="takes a GPU",
        ),
    ),
)


def gpu_not_given(facts: Facts, callers: Sequence[Usage]) -> Iterator[Suspicion]:
    """Yields tenants that use a device that the scheduler gave to others, or to nobody."""
    if not facts.window.allocations:
        return
    by_pid = {usage.pid: usage for usage in callers}
    for sharing in sharings(facts.window):
        for place in sharing.parts or (sharing,):
            for sharer in place.sharers:
                users = [by_pid[pid] for pid in sharer.pids if pid in by_pid]
                if sharer.given is False and sharer.launches and users:
                    yield _taken(facts, place, sharer, max(users, key=lambda usage: usage.kernels))


def _taken(facts: Facts, place: Sharing, sharer: Sharer, usage: Usage) -> Suspicion:
    gpu = f"GPU {place.label}"
    owners = sorted({f"{one.allocation.namespace}/{one.allocation.pod}" for one in place.holdings})
    others = f"it was given to {', '.join(owners[:3])}" if owners else "it was given to nobody"
    does = f"{usage.process} launches {figure(facts.per_second(sharer.launches))} kernels a second on {gpu}"
    return usage.suspect(
        "gpu_not_given",
        f"{facts.name(sharer.tenant)} uses {gpu}, which Kubernetes did not give it",
        0.0,
        confidence=0.8,
        links=(
            link_of(usage, "mechanism", does, device=gpu),
            link_of(usage, "reason", others, device=gpu, depth=2),
        ),
        fixes=(
            Fix(
                "see how it reaches the device: a privileged container, or an image that sets "
                "NVIDIA_VISIBLE_DEVICES=all",
                f"tr '\\0' '\\n' < /proc/{usage.pid}/environ | grep -E 'NVIDIA|CUDA'",
                look=True,
            ),
            Fix(
                "let the container runtime take devices from the device plugin only: accept-nvidia-visible-"
                "devices-envvar-when-unprivileged = false in its config.toml"
            ),
        ),
        hit=usage.launched,
        about=gpu,
        verb="spends",
    )
