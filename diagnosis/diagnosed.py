"""A source whose windows say what is wrong."""

from __future__ import annotations

from diagnosis.engine import Diagnosis
from model.source import Source
from model.window import Window


class Diagnosed:
    """Gives the windows of ``source`` with their chains. Closing it closes ``source``."""

    def __init__(self, source: Source, diagnosis: Diagnosis) -> None:
        self._source = source
        self._diagnosis = diagnosis

    def read(self) -> Window:
        """The next window of the source, diagnosed."""
        return self._diagnosis.add(self._source.read())

    def close(self) -> None:
        """Close the source."""
        self._source.close()
