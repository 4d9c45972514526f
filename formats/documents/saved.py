"""A window as gzip-compressed JSON: on its way to a served screen, and in files of the first version.

Its histograms are HdrHistogram V2 payloads. A version number says how to read it: fields may be added within
a version, and a file of a newer version is refused by name. What is saved today is in ``store``.
"""

from __future__ import annotations

import gzip
import json
import os
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stalltop.formats.documents.plain import from_plain, integer, named_tuple, number, text, to_plain
from stalltop.formats.documents.recognise import recognised
from stalltop.formats.files import read_limits as bounds
from stalltop.model.calls import Calls, KeptCall
from stalltop.model.chain import Chain
from stalltop.model.cuda_kernels import KernelCount
from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Devices, System
from stalltop.model.errors import BadUsage, Told
from stalltop.model.evidence import Evidence
from stalltop.model.histograms import payload as hdr_payload
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.tenant import Tenant
from stalltop.model.window import SPLITS, Coverage, OpenCall, RowKey, Rows, Window

FORMAT = "stalltop"
VERSION = 1
_GZIP = b"\x1f\x8b"
MOST_BYTES = 64 << 20
"""Largest content that is written or read, in bytes after decompression."""

_COUNTS = ("calls", "errors", "bytes", "total_ns", "max_ns")


def load(path: Path) -> Window:
    """The window saved in ``path``. Raises BadUsage, with the reason, where that is no such file."""
    try:
        content = _read(path)
    except OSError as error:
        raise BadUsage(f"cannot read {path}: {error.strerror or error}") from error
    try:
        return parse(content)
    except _Newer as error:
        raise BadUsage(f"{path} was saved by a newer stalltop ({error})", "update stalltop") from None
    except (ValueError, RecursionError) as error:
        what = recognised(content)
        raise BadUsage(
            f"{path} is no window saved by stalltop, or damaged: {f'it is {what}' if what else error}",
            "the key w saves windows; their names end in .stalltop" if what else "",
        ) from None


class _Newer(ValueError):
    """The file has a version that this program does not know."""


def dump(window: Window) -> bytes:
    """``window`` as the content of a file. Raises Told where it is too large."""
    content = json.dumps(
        {"format": FORMAT, "version": VERSION, "window": _plain_window(window)},
        allow_nan=False,
        separators=(",", ":"),
    ).encode("ascii")
    if len(content) > MOST_BYTES:
        raise Told(f"the window is too large to save ({len(content) >> 20} MiB)", "narrow it with a filter")
    return gzip.compress(content, 6, mtime=0)


def _plain_window(window: Window) -> dict[str, Any]:
    rows = window.rows
    start = rows.histograms.start.tolist()
    index, count = rows.histograms.index, rows.histograms.count
    return {
        "start": window.start,
        "seconds": window.seconds,
        "host": window.host,
        "simulated": window.simulated,
        "rows": {
            "keys": [list(key) for key in rows.keys],
            **{name: getattr(rows, name).tolist() for name in _COUNTS},
            "histograms": [
                hdr_payload.encode(index[start[row] : start[row + 1]], count[start[row] : start[row + 1]])
                for row in range(len(rows))
            ],
            "splits": None if rows.split_ns is None else list(SPLITS),
            "split_ns": None if rows.split_ns is None else rows.split_ns.tolist(),
        },
        "normals": [window.normals.get(key) for key in rows.keys],
        "tenants": to_plain(list(window.tenants.values())),
        "open_calls": to_plain(window.open_calls),
        "devices": to_plain(window.devices),
        "system": to_plain(window.system),
        "loss": {name: int(count) for name, count in window.loss.items()},
        "coverage": to_plain(window.coverage),
        "evidence": to_plain(window.evidence),
        "chains": to_plain(window.chains),
        "kernels": to_plain(window.kernels),
        "calls": {"kept": to_plain(window.calls.kept), "passed_over": window.calls.passed_over},
        "allocations": to_plain(window.allocations),
    }


def _read(path: Path) -> bytes:
    # Without O_NONBLOCK a pipe of that name would be waited on for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadUsage(f"{path} is no regular file")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MOST_BYTES + 1)
    finally:
        os.close(descriptor)


def parse(content: bytes) -> Window:
    """The window of a file's content. Raises ValueError, with the reason, where that is none."""
    if len(content) > MOST_BYTES:
        raise ValueError("it is too large")
    if not content.startswith(_GZIP):
        raise ValueError("it is neither a SQLite file nor one of an early stalltop")
    inflate = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        plain = inflate.decompress(content, MOST_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"it cannot be decompressed ({error})") from None
    if len(plain) > MOST_BYTES:
        raise ValueError("its content is too large")
    if not inflate.eof:
        raise ValueError("its end is missing")
    if inflate.unused_data:
        raise ValueError("something follows its end")
    found = json.loads(plain, parse_constant=_no_constant)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError("it does not say that stalltop wrote it")
    version = integer(found.get("version"), "version")
    if version > VERSION:
        raise _Newer(f"version {version}, known up to {VERSION}")
    if version < 1:
        raise ValueError("there is no version 0")
    return _window(_object(found.get("window"), "window"))


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _object(plain: object, where: str) -> Mapping[str, Any]:
    if not isinstance(plain, dict):
        raise ValueError(f"{where} is no object")
    return plain


def _list(plain: object, where: str) -> list[Any]:
    if not isinstance(plain, list):
        raise ValueError(f"{where} is no list")
    return plain


def _window(plain: Mapping[str, Any]) -> Window:
    tenants = [
        from_plain(Tenant, item, f"tenants[{at}]")
        for at, item in enumerate(_list(plain.get("tenants"), "tenants"))
    ]
    start, seconds = number(plain.get("start"), "start"), number(plain.get("seconds"), "seconds")
    bounds.check_span(start, seconds)
    simulated = plain.get("simulated")
    if not isinstance(simulated, bool):
        raise ValueError("simulated is neither true nor false")
    rows = _rows(_object(plain.get("rows"), "rows"))
    return Window(
        start=start,
        seconds=seconds,
        host=text(plain.get("host"), "host"),
        rows=rows,
        normals=_normals(plain.get("normals", []), rows),
        tenants={tenant.id: tenant for tenant in tenants},
        open_calls=tuple(
            from_plain(OpenCall, item, f"open_calls[{at}]")
            for at, item in enumerate(_list(plain.get("open_calls"), "open_calls"))
        ),
        devices=from_plain(Devices, plain.get("devices"), "devices"),
        system=None if plain.get("system") is None else from_plain(System, plain["system"], "system"),
        loss={
            text(name, "loss"): integer(count, f"loss.{name}")
            for name, count in _object(plain.get("loss"), "loss").items()
        },
        coverage=from_plain(Coverage, plain.get("coverage"), "coverage"),
        simulated=simulated,
        evidence=_evidence(plain.get("evidence", {})),
        chains=_chains(plain.get("chains", [])),
        kernels=_kernels(plain.get("kernels", [])),
        calls=_calls(plain.get("calls", {})),
        allocations=tuple(
            from_plain(Allocation, item, f"allocations[{at}]")
            for at, item in enumerate(_list(plain.get("allocations", []), "allocations"))
        ),
    )


def _normals(plain: object, rows: Rows) -> dict[RowKey, tuple[int, int]]:
    """p50 and p99 of each row, null where none is known; older files have no list."""
    found: dict[RowKey, tuple[int, int]] = {}
    for at, (key, item) in enumerate(zip(rows.keys, _list(plain, "normals"), strict=False)):
        if item is None:
            continue
        if len(_list(item, f"normals[{at}]")) != 2:
            raise ValueError(f"normals[{at}] is no pair")
        found[key] = integer(item[0], f"normals[{at}]"), integer(item[1], f"normals[{at}]")
    return found


def _evidence(plain: object) -> Evidence:
    evidence = from_plain(Evidence, plain, "evidence")
    bounds.check_evidence(evidence)
    return evidence


def _chains(plain: object) -> tuple[Chain, ...]:
    chains = tuple(from_plain(Chain, item, f"chains[{at}]") for at, item in enumerate(_list(plain, "chains")))
    bounds.check_chains(chains)
    return chains


def _kernels(plain: object) -> tuple[KernelCount, ...]:
    kernels = tuple(
        named_tuple(KernelCount, item, f"kernels[{at}]") for at, item in enumerate(_list(plain, "kernels"))
    )
    bounds.check_kernels(kernels)
    return kernels


def _calls(plain: object) -> Calls:
    found = _object(plain, "calls")
    kept = [
        named_tuple(KeptCall, item, f"calls.kept[{at}]")
        for at, item in enumerate(_list(found.get("kept", []), "calls.kept"))
    ]
    bounds.check_calls(kept)
    return Calls(kept, integer(found.get("passed_over", 0), "calls.passed_over"))


def _rows(plain: Mapping[str, Any]) -> Rows:
    keys = tuple(_key(item, at) for at, item in enumerate(_list(plain.get("keys"), "rows.keys")))
    if len(set(keys)) != len(keys):
        raise ValueError("rows.keys: a key occurs twice")
    n = len(keys)
    columns = {name: _column(plain.get(name), n, f"rows.{name}") for name in _COUNTS}
    payloads = _list(plain.get("histograms"), "rows.histograms")
    if len(payloads) != n:
        raise ValueError(f"rows.histograms has {len(payloads)} elements, not {n}")
    parts = [hdr_payload.decode(text(payload, "rows.histograms", most=None)) for payload in payloads]
    start = np.cumsum([0, *(len(index) for index, _ in parts)], dtype=np.int64)
    index = np.concatenate([np.zeros(0, np.uint16), *(index for index, _ in parts)])
    count = np.concatenate([np.zeros(0, np.uint64), *(count for _, count in parts)])
    return Rows(keys, **columns, histograms=Histograms(start, index, count), split_ns=_splits(plain, n))


def _key(plain: object, at: int) -> RowKey:
    key: RowKey = named_tuple(RowKey, plain, f"rows.keys[{at}]")
    return key


def _column(plain: object, n: int, where: str) -> np.ndarray[Any, np.dtype[np.uint64]]:
    values = _list(plain, where)
    if len(values) != n:
        raise ValueError(f"{where} has {len(values)} elements, not {n}")
    return np.array([integer(value, where) for value in values], np.uint64)


def _splits(plain: Mapping[str, Any], n: int) -> np.ndarray[Any, np.dtype[np.uint64]] | None:
    if plain.get("split_ns") is None:
        return None
    names = _list(plain.get("splits"), "rows.splits")
    lines = _list(plain["split_ns"], "rows.split_ns")
    if names != list(SPLITS) or len(lines) != n:
        raise ValueError("rows.split_ns does not fit its names or rows")
    splits = np.zeros((n, len(SPLITS)), np.uint64)
    for row, line in enumerate(lines):
        splits[row] = _column(line, len(SPLITS), "rows.split_ns")
    return splits
