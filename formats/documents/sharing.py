"""The JSON of ``devices[].sharing`` in a window: tenants of a device. docs/json.md describes every field."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from stalltop.formats.text.sharing_text import statement
from stalltop.model.sharing.sharing import Holding, Sharer, Sharing, unplaced
from stalltop.model.text.glyphs import ASCII
from stalltop.model.window import Window


def sharing_document(sharing: Sharing, window: Window) -> dict[str, Any]:
    """Return how a device is shared, as dicts, lists, strings and numbers, for JSON."""
    return {
        "way": sharing.way,
        "statement": statement(sharing, window, ASCII),
        "switches_per_second": sharing.switches_per_second,
        "watched": sharing.watched,
        "hidden": sharing.hidden,
        **_users(sharing),
        "instances": [
            {
                "device": part.label,
                "uuid": part.uuid,
                "profile": part.profile,
                "way": part.way,
                **_users(part),
            }
            for part in sharing.parts
        ],
    }


def unplaced_document(window: Window) -> list[dict[str, Any]]:
    """Return the tenants with calls on a GPU that is not known."""
    return [
        {
            "tenant": one.tenant,
            "pids": list(one.pids),
            "calls": one.calls,
            "launches": one.launches,
            "copied_bytes": one.copied_bytes,
            "waited_ns": one.waited_ns,
            "in_flight": one.in_flight,
            "held_bytes": one.memory_bytes,
        }
        for one in unplaced(window)
    ]


def _users(sharing: Sharing) -> dict[str, Any]:
    return {
        "tenants": [_sharer(one) for one in sharing.sharers],
        "given": [_holding(one) for one in sharing.holdings],
    }


def _sharer(one: Sharer) -> dict[str, Any]:
    return asdict(one) | {
        "pids": list(one.pids),
        "also": list(one.also),
        "overlaps": [{"tenant": tenant, "ns": ns} for tenant, ns in one.overlaps],
    }


def _holding(one: Holding) -> dict[str, Any]:
    return asdict(one.allocation) | {
        "devices": list(one.allocation.devices),
        "use": one.use,
        "why": one.why,
    }
