"""Wire format between the server and its screens: a window as gzip-compressed JSON.

Both ends belong to one installation, so the JSON has no version, and every field of the window must be there.
Names in a window are chosen by other users, so decoding removes control characters from them.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from stalltop.files.plain import integer, text, to_plain, value
from stalltop.model.calls import CapturedCall, CapturedCalls
from stalltop.model.chain import Chain
from stalltop.model.cuda_kernels import KernelCount
from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Devices, System
from stalltop.model.errors import StalltopError
from stalltop.model.evidence import Evidence
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import SPLITS, Coverage, OpenCall, Rows, Window

MOST_BYTES: Final = 64 << 20
"""Maximum size of an encoded window, in bytes before compression."""

_TYPES: Final[dict[str, Any]] = {
    "start": float,
    "seconds": float,
    "host": str,
    "open_calls": tuple[OpenCall, ...],
    "devices": Devices,
    "system": System | None,
    "coverage": Coverage,
    "simulated": bool,
    "evidence": Evidence,
    "chains": tuple[Chain, ...],
    "kernels": tuple[KernelCount, ...],
    "allocations": tuple[Allocation, ...],
}
"""Fields of a window that are encoded according to their types. `encode` and `_window` have code of their own
for each of the other fields."""
_COUNTS: Final = ("calls", "errors", "bytes", "total_ns", "max_ns")
_HISTOGRAMS: Final = {"start": np.int64, "index": np.uint16, "count": np.uint64}


def encode(window: Window) -> bytes:
    """Encodes ``window``. Raises StalltopError if it is too large."""
    rows = window.rows
    plain = {name: to_plain(getattr(window, name)) for name in _TYPES} | {
        "rows": _plain_rows(rows),
        "tenants": to_plain(list(window.tenants.values())),
        "loss": {name: int(count) for name, count in window.loss.items()},
        "normals": [[at, *window.normals[key]] for at, key in enumerate(rows.keys) if key in window.normals],
        "calls": {"kept": to_plain(window.calls.kept), "passed_over": window.calls.passed_over},
    }
    content = json.dumps(plain, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(content) > MOST_BYTES:
        raise StalltopError(
            f"the window is too large to send to a browser: {len(content) >> 20} MiB of "
            f"{MOST_BYTES >> 20} MiB"
        )
    return gzip.compress(content, 6, mtime=0)


def decode(content: bytes) -> Window:
    """Decodes a window that ``encode`` has encoded. Raises ValueError if ``content`` is not an encoded
    window."""
    try:
        return _window(json.loads(gzip.decompress(content)))
    except (OSError, EOFError, zlib.error, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _window(plain: Mapping[str, Any]) -> Window:
    rows = _rows(plain["rows"])
    tenants = value(tuple[Tenant, ...], plain["tenants"], "tenants")
    return Window(
        **{name: value(kind, plain[name], name) for name, kind in _TYPES.items()},
        rows=rows,
        tenants={tenant.id: tenant for tenant in tenants},
        loss={text(name, "loss"): integer(count, f"loss.{name}") for name, count in plain["loss"].items()},
        normals={
            rows.keys[at]: (integer(p50_ns, "normals"), integer(p99_ns, "normals"))
            for at, p50_ns, p99_ns in plain["normals"]
        },
        calls=CapturedCalls(
            value(tuple[CapturedCall, ...], plain["calls"]["kept"], "calls.kept"),
            integer(plain["calls"]["passed_over"], "calls.passed_over"),
        ),
    )


def _plain_rows(rows: Rows) -> dict[str, Any]:
    return {
        "keys": to_plain(rows.keys),
        **{name: getattr(rows, name).tolist() for name in _COUNTS},
        "histograms": {name: getattr(rows.histograms, name).tolist() for name in _HISTOGRAMS},
        "split_ns": None if rows.split_ns is None else rows.split_ns.tolist(),
    }


def _rows(plain: Mapping[str, Any]) -> Rows:
    split = plain["split_ns"]
    return Rows(
        value(tuple[RowKey, ...], plain["keys"], "rows.keys"),
        **{name: np.array(plain[name], np.uint64) for name in _COUNTS},
        histograms=Histograms(
            **{name: np.array(plain["histograms"][name], kind) for name, kind in _HISTOGRAMS.items()}
        ),
        split_ns=None if split is None else np.array(split, np.uint64).reshape(-1, len(SPLITS)),
    )
