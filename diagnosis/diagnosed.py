"""A source whose windows say what is wrong."""

from __future__ import annotations

from dataclasses import replace

from diagnosis.engine import Diagnosis
from model.errors import described
from model.source import Source
from model.window import Window


class Diagnosed:
    """Gives the windows of ``source`` with their chains. Closing it closes ``source``."""

    def __init__(self, source: Source, diagnosis: Diagnosis) -> None:
        self._source = source
        self._diagnosis = diagnosis

    def read(self) -> Window:
        """The next window of the source, diagnosed.

        A diagnosis that fails costs the chains of this window, which says so in what is unknown: what was
        counted is shown all the same.
        """
        window = self._source.read()
        try:
            return self._diagnosis.add(window)
        except Exception as error:
            unknown = f"causes: looking for them failed with {described(error)}"
            evidence = replace(window.evidence, unknown=(*window.evidence.unknown, unknown))
            return replace(window, evidence=evidence)

    def close(self) -> None:
        """Close the source."""
        self._source.close()
