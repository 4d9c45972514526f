"""Defines a pod of this node. The definition does not depend on the source that reported the pod."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from stalltop.model.text.clean import clean
from stalltop.probes.kubelet.protobuf import messages, text
from stalltop.probes.tenants.labels import Labels, bounded

MOST_BYTES: Final = 32 << 20
"""Largest answer about pods, bytes: a few hundred pods of some tens of KiB each."""
MOST_PODS: Final = 4_096
_NAMES: Final = 253
"""Longest name of a Kubernetes object, characters."""


@dataclass(frozen=True, slots=True)
class PodContainer:
    """One container of a pod."""

    name: str
    id: str
    """Container id: 64 hexadecimal digits, as in the path of its cgroup."""
    running: bool = True


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod. A ``uid`` is never used again. A ``name`` may have belonged to another pod before, and may
    belong to another one later."""

    uid: str
    namespace: str
    name: str
    labels: Labels = ()
    containers: tuple[PodContainer, ...] = ()


def object_name(name: str) -> str:
    """Returns ``name``, which comes from outside, in a form that is safe to display."""
    return clean(name, _NAMES)


def labels_in(message: bytes, number: int) -> Iterator[tuple[str, str]]:
    """Yields the entries of a field that is a map of strings."""
    for entry in messages(message, number):
        yield text(entry, 1), text(entry, 2)


def kept_labels(message: bytes, number: int) -> Labels:
    """Returns the labels in a field that is a map of strings. `bounded` limits their number and length."""
    return bounded(labels_in(message, number))
