"""The tools. Each returns a bounded document with figures whose names say their units; what is not known is
said, and never left out."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from stalltop.cli.agent.marking import MEANING, Marker, marked_values, unmarked
from stalltop.cli.agent.places import AgentPlace
from stalltop.formats.documents.diff import diff_document
from stalltop.formats.documents.window import document
from stalltop.formats.episodes import Episodes
from stalltop.formats.text.answer import sentence_of
from stalltop.formats.text.chains import explained, name_of
from stalltop.formats.text.readiness import document as readiness
from stalltop.model.chain import Chain, information_last
from stalltop.model.comparing.chain_difference import compare_chains
from stalltop.model.comparing.compared_windows import ComparedWindows
from stalltop.model.comparing.difference import compare
from stalltop.model.comparing.likeness import alike
from stalltop.model.errors import StalltopError, UsageError
from stalltop.model.rows.dimensions import DIMENSIONS, Dimension
from stalltop.model.rows.filter import parse
from stalltop.model.rows.pivot import pivot
from stalltop.model.telling import Tellings
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE
from stalltop.model.text.style import ENDLESS, Style
from stalltop.model.window import SPLITS, Window
from stalltop.recordings.read.moments import WindowList

MOST: Final = 50
"""The most items of one list in an answer; ``more`` says how many are left out."""
MOST_CHARACTERS: Final = 60_000
"""The longest answer: about 15,000 tokens."""
QUERY_SECONDS: Final = 10.0
_STYLE: Final = Style(ENDLESS, colour=False, glyphs=UNICODE)
"""Without folds: a name that is folded into two lines could not be marked."""
Document = dict[str, Any]


class HostTools:
    """The tools, without a protocol. Any thread may call them; each call is answered by itself."""

    def __init__(self, place: AgentPlace, tellings: Tellings) -> None:
        self._place = place
        self._tellings = tellings

    def problems(self) -> Document:
        """Lists the open problems of this host, worst first: who loses time, because of whom, how much, since
        when, how sure, and what to do. Begin here. An empty list means that nothing was found in what was
        traced; `not_known` says what was not."""
        window, chains = self._place.window(), sorted(self._place.chains(), key=information_last)
        listed = [self._problem(chain, window) for chain in chains if chain.severity != "info"]
        return self._answer(
            window,
            problems=listed[:MOST],
            more=max(len(listed) - MOST, 0),
            facts=[f"{one.title}: {one.summary}" for one in chains if one.severity == "info" and one.open][
                :MOST
            ],
        )

    def explain(self, problem: str) -> Document:
        """Explains one problem in full, from its effect to its root cause, with all remedies. problem: its
        `id` in the answer of `problems`."""
        window, wanted = self._place.window(), unmarked(problem)
        for chain in self._place.chains():
            if unmarked(chain.id) == wanted:
                return self._answer(
                    window, problem=self._problem(chain, window), text=explained(chain, window, _STYLE)
                )
        raise UsageError(f"no problem has the id {wanted!r}", "problems lists them")

    def rows(
        self, by: str = "container,operation", matching: str = "", sort: str = "time", limit: int = 20
    ) -> Document:
        """Lists what programs call, grouped. by: dimensions, separated by commas, of container, namespace,
        pod, process, operation, layer, device, host. matching: words that must occur, or dimension:word, as
        in the filter of the screen. sort: time, calls, p99, max or errors. limit: at most 50."""
        window = self._place.window()
        shown = self._filtered(window, matching)
        groups = pivot(shown, _dimensions(by))
        keys = {
            "time": groups.total_ns,
            "calls": groups.calls,
            "p99": groups.p99_ns,
            "max": groups.max_ns,
            "errors": groups.errors,
        }
        if sort not in keys:
            raise UsageError(f"cannot sort by {sort!r}", f"use one of {', '.join(keys)}")
        order = np.argsort(-keys[sort].astype(np.float64), kind="stable").tolist()
        most = max(min(limit, MOST), 1)
        listed = [
            {
                **dict(zip(groups.by, groups.labels[at], strict=True)),
                "calls": int(groups.calls[at]),
                "calls_per_s": round(float(groups.calls_per_s[at]), 3),
                "errors": int(groups.errors[at]),
                "time_ms": round(int(groups.total_ns[at]) / 1e6, 3),
                "p50_us": int(groups.p50_ns[at]) / 1e3,
                "p99_us": int(groups.p99_ns[at]) / 1e3,
                "max_us": int(groups.max_ns[at]) / 1e3,
                "nested": bool(groups.nested[at]),
                "time_between_calls": bool(groups.between[at]),
            }
            for at in order[:most]
        ]
        return self._answer(window, rows=listed, more=max(len(order) - most, 0))

    def row(self, matching: str) -> Document:
        """Shows where the time of some calls went, and who took it: all rows that are `matching` (see
        `rows`), added up, with the parts of their time (running, runqueue, disk, lock, gpu, …)."""
        window = self._place.window()
        shown = self._filtered(window, matching)
        if not len(shown.rows):
            raise UsageError(f"no row matches {matching!r}", "rows lists them")
        rows = shown.rows
        split = None
        if rows.split_ns is not None:
            sums = rows.split_ns.sum(axis=0).tolist()
            split = {name: round(ns / 1e6, 3) for name, ns in zip(SPLITS, sums, strict=True) if ns}
        together = rows.histograms.grouped(np.zeros(len(rows), np.int64), 1)
        percents = (50.0, 95.0, 99.0, 99.9)
        values = together.percentiles(percents)[0].tolist()
        tenants = {key.tenant for key in rows.keys}
        charged = sorted(
            (one for one in window.evidence.charges if one.tenant in tenants), key=lambda one: -one.ns
        )
        return self._answer(
            window,
            rows=len(rows),
            calls=int(rows.calls.sum()),
            errors=int(rows.errors.sum()),
            time_ms=round(float(rows.total_ns.sum()) / 1e6, 3),
            percentiles_us={f"p{p:g}": ns / 1e3 for p, ns in zip(percents, values, strict=True)},
            longest_us=float(rows.max_ns.max()) / 1e3,
            parts_ms="not measured" if split is None else split,
            taken_by=[
                {
                    "part": one.kind,
                    "victim": name_of(one.tenant, window),
                    "culprit": name_of(one.culprit_tenant, window) if one.culprit_tenant else "no container",
                    "process": one.culprit_process,
                    "ms": round(one.ns / 1e6, 3),
                }
                for one in charged[:MOST]
            ],
            more=max(len(charged) - MOST, 0),
        )

    def stacks(self) -> Document:
        """Shows where slow calls came from, and where threads ran or waited between calls (``reason`` says
        which): stacks (function, file, line; innermost first), those with the most time first. Empty if
        nothing was traced, or if the tracer runs with --stacks off."""
        window = self._place.window()
        found = sorted(document(window)["stacks"], key=lambda stack: -stack["ns"])
        return self._answer(window, stacks=found[:MOST], more=max(len(found) - MOST, 0))

    def devices(self) -> Document:
        """Lists the GPUs with their figures (null: not known) and who uses them."""
        window = self._place.window()
        found = document(window)["devices"]
        return self._answer(window, devices=found[:MOST], more=max(len(found) - MOST, 0))

    def history(self, minutes: float = 60.0) -> Document:
        """Lists the problems of the last `minutes` in the recording of this host, also those that are over,
        with what each cost altogether."""
        recorded = self._recorded()
        try:
            last, found, newest = _end(recorded.moments), Episodes(), self._place.window()
            for newest in recorded.windows(last - 60.0 * minutes, last):
                found.add(newest)
            episodes = [one for one in found.all() if one.chain.severity != "info"]
            listed = [
                {
                    "since": figures.moment(one.chain.since),
                    "until": "still open" if one.chain.open else figures.moment(one.end),
                    "cause": one.chain.cause,
                    "severity": one.chain.severity,
                    "summary": one.chain.summary or one.chain.title,
                    "worst_ms_per_s": round(one.chain.lost_ms_per_s, 3),
                    "lost_ms": round(found.lost_ms.get((one.host, one.chain.identity), 0.0), 3),
                }
                for one in episodes
            ]
            return self._answer(newest, problems=listed[-MOST:], more=max(len(listed) - MOST, 0))
        finally:
            recorded.close()

    def query(self, sql: str) -> Document:
        """Runs one SELECT (`sql`) on the recording of this host. Tables: cuda_events, nccl_events,
        host_events (a row is a call), containers, devices, problems and others: `SELECT name, sql FROM
        sqlite_schema`, or docs/sql.md. Durations are in ns. At most 50 rows are returned, after at most
        10 s."""
        from stalltop.recordings.query.ask import answer

        recorded = self._recorded()
        try:
            found = answer(recorded, sql, QUERY_SECONDS)
            rows: list[list[Any]] = []
            more = False
            for row in found.rows:
                if len(rows) >= MOST:
                    more = True
                    break
                rows.append([one if not isinstance(one, bytes) else f"{len(one)} bytes" for one in row])
            document_ = {
                "columns": list(found.columns),
                "rows": rows,
                "more_rows": more,
                "warnings": list(found.warnings)[:MOST],
            }
        finally:
            recorded.close()
        return self._answer(self._place.window(), **document_)

    def diff(self, before_minutes: float = 60.0, now_minutes: float = 10.0) -> Document:
        """Compares the last now_minutes of the recording with the before_minutes in front of them: which
        operations became slower or faster, and which problems are new."""
        recorded = self._recorded()
        try:
            end = _end(recorded.moments)
            middle = end - 60.0 * now_minutes
            windows = [
                recorded.between(middle - 60.0 * before_minutes, middle),
                recorded.between(middle, end),
            ]
        finally:
            recorded.close()
        if not all(windows):
            raise UsageError("the recording has no windows in one of these times", "choose other lengths")
        then, now = merge_all(windows[0]), merge_all(windows[1])
        by: tuple[Dimension, ...] = ("container", "operation")
        found = compare(alike(then), alike(now), by)
        weight = found.difference.weight
        order = np.lexsort((-weight, ~found.difference.changed)).tolist()[:MOST]
        changes = compare_chains(
            then.chains, now.chains, lambda one: name_of(one, then), lambda one: name_of(one, now)
        )
        told = diff_document(ComparedWindows(then, now, by, found, order, changes, ()))
        return self._answer(now, difference=told)

    def check(self) -> Document:
        """Says whether this host can be traced, what is missing, and what to do about it."""
        from stalltop.probes.readiness.checks import check
        from stalltop.probes.readiness.surroundings import this_host

        return {"note": MEANING, "checks": readiness(check(this_host()))}

    def _recorded(self) -> Any:
        from stalltop.recordings.read.reading import open_file

        if self._place.recording is None or not self._place.recording.exists():
            raise StalltopError(
                "not available: there is no recording of this host",
                "record it with `stalltop record`, and name the file: stalltop mcp --recording FILE",
            )
        return open_file(self._place.recording)

    def _filtered(self, window: Window, text: str) -> Window:
        wanted = parse(unmarked(text))
        if wanted.error:
            raise UsageError(f"filter: {wanted.error}")
        return wanted.apply(window)

    def _problem(self, chain: Chain, window: Window) -> Document:
        first = next(iter(chain.culprits), None)
        said = sentence_of(chain, window, self._tellings)
        culprit = "not known"
        if first is not None and first.of_others:
            culprit = "several"
        elif first is not None:
            named = name_of(first.tenant, window) if first.tenant else first.process or first.device
            culprit = named or culprit
        return {
            "id": chain.id,
            "open": chain.open,
            "severity": chain.severity,
            "cause": chain.cause,
            "title": chain.title,
            "sentence": "".join(text for text, _ in said.parts()),
            "victim": name_of(chain.tenant, window),
            "culprit": culprit,
            "culprit_process": "" if first is None else first.process,
            "culprit_pid": (first.pid or None) if first is not None else None,
            "lost_ms_per_s": round(chain.lost_ms_per_s, 3),
            "since": figures.moment(chain.since),
            "confidence": round(chain.confidence, 2),
            "not_known": list(chain.unknown),
            "remedies": [{"text": one.text, "command": one.command or None} for one in chain.fixes],
        }

    def _answer(self, window: Window, **content: Any) -> Document:
        coverage = window.coverage
        unknown = [coverage.tracing] if coverage.tracing else []
        unknown += [f"{one.what}: {one.reason}" for one in coverage.missing][:MOST]
        unknown += list(window.evidence.unknown)[:MOST]
        if window.lost:
            unknown.append(f"{window.lost} calls were made and not counted")
        told = {
            "host": window.host,
            "simulated": window.simulated,
            "from": figures.moment(window.start),
            "seconds": round(window.seconds, 3),
            **content,
            "not_known": unknown,
        }
        return bounded({"note": MEANING, **marked_values(told, Marker([window]))})


def _end(moments: WindowList) -> float:
    """Returns when the newest window ended, Unix seconds."""
    return float((moments.start + moments.seconds).max()) if len(moments) else time.time()


def merge_all(windows: Sequence[Window]) -> Window:
    """Returns the sum of ``windows``, with the problems of all of them."""
    from stalltop.model.merge.merging import merge

    return merge(list(windows))


def bounded(told: Document) -> Document:
    """Returns a document of at most ``MOST_CHARACTERS`` as JSON: the longest lists lose their ends, and
    ``left_out`` says that."""
    while len(json.dumps(told, ensure_ascii=False)) > MOST_CHARACTERS:
        lists = {name: value for name, value in told.items() if isinstance(value, list) and len(value) > 1}
        if not lists:
            return {
                "note": told.get("note", ""),
                "left_out": "the answer is too long; ask for less, such as with a filter or a smaller limit",
            }
        longest = max(lists, key=lambda name: len(json.dumps(lists[name], ensure_ascii=False)))
        cut = lists[longest][: len(lists[longest]) // 2]
        told = {
            **told,
            longest: cut,
            "left_out": f"too long: {longest} and maybe others were cut",
        }
    return told


def _dimensions(text: str) -> tuple[Dimension, ...]:
    wanted = [one.strip() for one in text.split(",")]
    unknown = [one for one in wanted if one not in DIMENSIONS]
    if unknown or not wanted:
        raise UsageError(f"unknown dimension {unknown[0]!r}", f"use {', '.join(DIMENSIONS)}")
    return tuple(name for one in dict.fromkeys(wanted) for name in DIMENSIONS if name == one)
