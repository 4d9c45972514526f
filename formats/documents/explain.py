"""The JSON object that ``explain --json`` prints: all chains of a window in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from stalltop.formats.documents.window import chain_document, document
from stalltop.formats.examined import examined, is_healthy
from stalltop.model.chain import Chain, information_last
from stalltop.model.window import Window

SCHEMA: Final = "stalltop.explain/1"
"""Name and version of the JSON object."""


def explain_document(window: Window, chains: Sequence[Chain]) -> dict[str, Any]:
    """Return ``chains`` of ``window``, and how many calls, processes and so on were examined, as dicts,
    lists, strings and numbers."""
    whole = document(window)
    seen = examined(window)
    return {
        "schema": SCHEMA,
        "host": whole["host"],
        "simulated": whole["simulated"],
        "window": whole["window"],
        "tracing": window.coverage.tracing,
        "healthy": is_healthy(window, chains),
        "chains": [chain_document(chain) for chain in sorted(chains, key=information_last)],
        "looked_at": seen,
        "unknown": list(window.evidence.unknown),
        "tenants": whole["tenants"],
        "devices": [
            {name: device[name] for name in ("index", "uuid", "name", "utilization_percent", "sharing")}
            for device in whole["devices"]
        ],
        "unplaced_tenants": whole["unplaced_tenants"],
    }
