"""Selects the labels of containers and pods that a person has set and that describe the work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stalltop.model.tenant import MOST_LABELS
from stalltop.model.text.clean import clean

Labels = tuple[tuple[str, str], ...]
_OF_MACHINERY: Final = ("io.kubernetes.", "annotation.", "org.opencontainers.image.", "io.buildah.")
"""Prefixes of labels that kubelets, runtimes and image builders set for themselves."""
_NAME: Final = 128
_VALUE: Final = 128
"""Maximum number of characters that are kept of a label's value."""


def bounded(labels: Iterable[tuple[object, object]]) -> Labels:
    """Returns the ``labels`` to show: sorted by name, safe to display, at most ``MOST_LABELS``. Never
    raises."""
    found = {
        clean(name, _NAME): clean(value, _VALUE)
        for name, value in labels
        if isinstance(name, str) and isinstance(value, str) and not name.startswith(_OF_MACHINERY)
    }
    found.pop("", None)
    return tuple(sorted(found.items()))[:MOST_LABELS]
