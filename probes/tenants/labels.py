"""Labels that people gave to containers and pods, as far as they tell something about the work in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stalltop.model.tenant import MOST_LABELS
from stalltop.model.text.clean import clean

Labels = tuple[tuple[str, str], ...]
_OF_MACHINERY: Final = ("io.kubernetes.", "annotation.", "org.opencontainers.image.", "io.buildah.")
"""How the names of labels begin that kubelets, runtimes and builders of images set for themselves."""
_NAME: Final = 128
_VALUE: Final = 128
"""Longest that is kept, in characters."""


def bounded(labels: Iterable[tuple[object, object]]) -> Labels:
    """What is shown of ``labels``: by name, fit to show, ``MOST_LABELS`` at most. Never raises."""
    found = {
        clean(name, _NAME): clean(value, _VALUE)
        for name, value in labels
        if isinstance(name, str) and isinstance(value, str) and not name.startswith(_OF_MACHINERY)
    }
    found.pop("", None)
    return tuple(sorted(found.items()))[:MOST_LABELS]
