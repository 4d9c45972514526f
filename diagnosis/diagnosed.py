"""Adds the diagnosis to the windows of a source."""

from __future__ import annotations

from dataclasses import replace

from stalltop.diagnosis.engine import Diagnosis
from stalltop.diagnosis.lines import SourceLines
from stalltop.model.errors import described
from stalltop.model.source import Source
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window


class Diagnosed:
    """Yields the windows of ``source`` with their problems. ``close`` closes ``source`` too."""

    def __init__(self, source: Source, diagnosis: Diagnosis) -> None:
        self._source = source
        self._diagnosis = diagnosis
        self._lines = SourceLines()
        self._named: dict[str, Tenant] = {}

    def read(self) -> Window:
        """Returns the next window of the source, diagnosed. If the diagnosis raises an exception, returns the
        window without problems; ``evidence.unknown`` then has the error. The counts of the window are still
        shown."""
        window = self._source.read()
        try:
            return self._with_names(self._lines.add(self._diagnosis.add(window)))
        except Exception as error:
            unknown = f"causes: the diagnosis failed with {described(error)}"
            evidence = replace(window.evidence, unknown=(*window.evidence.unknown, unknown))
            return replace(window, evidence=evidence)

    def _with_names(self, window: Window) -> Window:
        """Returns ``window`` with entries for all tenants that its problems name. The entries of tenants that
        have ended come from earlier windows."""
        known = {**self._named, **window.tenants}
        spoken = {chain.tenant for chain in window.chains}
        spoken |= {link.tenant for chain in window.chains for link in chain.links}
        self._named = {name: known[name] for name in spoken if name in known}
        return replace(window, tenants={**self._named, **window.tenants})

    def close(self) -> None:
        """Closes the source."""
        self._source.close()
