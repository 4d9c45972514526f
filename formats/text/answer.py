"""The answer to "what is wrong here?": the worst problem as one sentence or, if there is none, the number of
containers and the slowest operation."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from stalltop.formats.text.chains import amount, each_second, name_of
from stalltop.model.actions.catalogue import briefly
from stalltop.model.chain import Chain, Link, worst_first
from stalltop.model.row_key import RowKey
from stalltop.model.rows.pivot import bounded
from stalltop.model.telling import Telling, Tellings
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.text.sentence import Sentence
from stalltop.model.text.style import BOLD, RED, YELLOW, Style
from stalltop.model.text.words import SEVERAL
from stalltop.model.window import Window

_NETWORK: Final = "network"
"""``Link.device`` of links about connections; it is not the name of a device."""
_NEARLY_ALL: Final = 0.9
"""If the first culprit took less than this part of the loss, the sentence says what it took of the whole."""
_LEAST_NAMED: Final = 0.3
"""If the first culprit took less than this part of the loss, the sentence names no culprit: many share the
fault, and whoever acts against one of them gains little."""
UNSURE_SECONDS: Final = 5.0
"""Seconds after the start of tracing in which it is too early to say that there is no problem: most causes
are reported after two to three seconds."""
FULL_PERCENT: Final = 95.0
"""CPU use (%) from which on a host without a problem is not simply called healthy: whoever needs a CPU next
will wait."""
_THAN: Final = re.compile(r" than the other ranks.*$")
"""The end of the text of a reason, which the sentence leaves out."""
_ROWS_AT_ONCE: Final = 16
"""Number of rows whose p99 ``slowest`` computes in one step."""


def sentence_of(chain: Chain, window: Window, tellings: Tellings, glyphs: Glyphs = UNICODE) -> Sentence:
    """Return ``chain`` as a sentence. If its cause is not in ``tellings``, as in a file of another version,
    the sentence is the summary of the chain."""
    lost, short, shortest = _lost(chain, glyphs)
    telling = tellings.get(chain.cause)
    said = Sentence(chain.summary or chain.title) if telling is None else _said(chain, window, telling)
    said = replace(said, lost=lost, lost_short=short, lost_shortest=shortest)
    first, remedy = next(iter(chain.fixes), None), chain.remedy
    if first is not None and (remedy is None or (remedy.look and not first.look)):
        said = replace(said, advice=_forms(first.text, first.short))
        if chain.is_for_owner(first):
            tenant = window.tenants.get(chain.culprits[0].tenant)
            said = replace(said, for_owner=True, owner="" if tenant is None else tenant.owner)
    if remedy is None:
        return said
    few = remedy.short or briefly(remedy.command)
    # What a command shows is said in a few words: the long text describes the same as the sentence.
    long = remedy.text if not few or not remedy.look else ""
    return replace(said, command=remedy.command, looks=remedy.look, effects=_forms(long, few))


def sentence_now(chain: Chain, window: Window, tellings: Tellings, glyphs: Glyphs = UNICODE) -> Sentence:
    """Return ``chain`` as a sentence for a live screen. If its cause is not seen any more, the sentence says
    so in place of the lost time, and has no fix: nothing is to be done now."""
    said = sentence_of(chain, window, tellings, glyphs)
    if not fades(chain, window):
        return said
    lost = f"not seen for {window.end - chain.seen:.0f} s"
    return replace(said, lost=lost, lost_short="", lost_shortest="", advice=(), command="", effects=())


def fades(chain: Chain, window: Window) -> bool:
    """Return whether the cause of an open ``chain`` was not seen any more at the end of ``window``."""
    return chain.open and not chain.is_seen(window.end)


def _forms(*texts: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, texts)))


def _said(chain: Chain, window: Window, telling: Telling) -> Sentence:
    """Return the sentence of ``chain`` in the words of ``telling``, without its fix."""
    victim, state = _victim(chain, window), telling.state
    culprit, detail, link = _culprit(chain, window)
    users = _users(chain) if link is not None and culprit == link.device else 0
    if users > 1 and state.startswith("is "):
        victim, state = f"{users} tenants", state.replace("is ", "are ", 1)
    if link is None:
        return Sentence(_filled(telling.without, chain, telling, None), victim=victim)
    does = _filled(telling.does, chain, telling, link)
    if culprit == victim:
        return Sentence(does, culprit=culprit, detail=detail)
    if telling.at_fault and culprit == link.device:
        short = "no tenant's fault"
        detail = short if telling.at_fault in does else f"{short}: {telling.at_fault}"
        return Sentence(does, victim, state, culprit, detail, detail_short=short)
    return Sentence(
        does, victim=victim, state=state, culprit=culprit, detail=detail, because=_reason(chain, link)
    )


def _reason(chain: Chain, culprit: Link) -> str:
    """Return why ``culprit`` does what it does, if the chain goes on below it: ``because it waits longer for
    the network``."""
    below = chain.links[chain.links.index(culprit) + 1 :]
    deeper = next((link for link in below if link.role == "reason" and link.depth > culprit.depth), None)
    if deeper is None:
        return ""
    why = _THAN.sub("", deeper.text)
    return f"because {why}" if why.startswith("it ") else why


def _lost(chain: Chain, glyphs: Glyphs) -> tuple[str, str, str]:
    """Return the time lost per second in words, and in short; if the named culprit took less than
    ``_NEARLY_ALL`` of it, with what that culprit took. Also return the whole loss alone, in short. Empty if
    no time was lost yet."""
    lost_ns = chain.lost_ms_per_s * 1e6
    if lost_ns <= 0:
        return "", "", ""
    first = _named(chain)
    part_ns = first.ns_per_s if first is not None else None
    about = "about " if chain.estimated else ""
    long, whole_short = each_second(lost_ns, glyphs), f"{amount(lost_ns, glyphs)}/s"
    short = whole_short
    if part_ns is not None and 0 < part_ns < _NEARLY_ALL * lost_ns:
        part, whole = amount(part_ns, glyphs), amount(lost_ns, glyphs)
        number, _, unit = part.rpartition(" ")
        part = number if whole.endswith(f" {unit}") else part
        summed = ", summed over threads" if lost_ns >= 1e9 else ""
        long, short = f"{part} of the {whole} lost each second{summed}", f"{part} of {short}"
    elif _users(chain) > 1 and lost_ns < 1e9:
        long += ", all together"
    return about + long, about + short, about + whole_short


def _users(chain: Chain) -> int:
    """Return how many tenants lose time because of ``chain``, if it names none of them as the one that does:
    if several use the GPU that it is about."""
    return 0 if chain.tenant else len({key.tenant for key in chain.rows} - {""})


def _victim(chain: Chain, window: Window) -> str:
    """Return who loses time: a tenant, else the device, else the host."""
    effects = [link for link in chain.links if link.role == "effect"]
    tenant = chain.tenant or next((link.tenant for link in effects if link.tenant), "")
    if tenant:
        return name_of(tenant, window)
    return next((link.device for link in chain.links if link.device.startswith("GPU")), "") or window.host


def _named(chain: Chain) -> Link | None:
    """Return the culprit that the sentence names; None if none is known, or if none stands out."""
    link = next(iter(chain.culprits), None)
    if link is None or link.of_others or (link.share is not None and link.share < _LEAST_NAMED):
        return None
    return link


def _culprit(chain: Chain, window: Window) -> tuple[str, str, Link | None]:
    """Return the name of the culprit, its process or PID as text, and its link. Return '', '' and None if no
    culprit is known."""
    link = _named(chain)
    if link is None:
        return "", "", None
    process = SEVERAL.sub(r", \1", link.process)
    pid = f"pid {link.pid}" if link.pid else ""
    tenant = name_of(link.tenant, window) if link.tenant else ""
    own = bool(link.tenant) and link.tenant == chain.tenant
    if process or pid:
        if tenant in (process, ""):  # a tenant outside containers has the name of its program
            return process or pid, pid if process else "", link
        if own:
            return f"its {process or 'process'}", pid, link
        return tenant, ", ".join(part for part in (process, pid) if part), link
    if link.device:
        return link.device, "", link
    return (tenant, "", link) if tenant and not own else ("", "", None)


def _filled(text: str, chain: Chain, telling: Telling, culprit: Link | None) -> str:
    """Return ``text`` with the names of the device and of the operation of ``chain`` in it."""
    links = (culprit, *chain.links) if culprit is not None else chain.links
    device = next((link.device for link in links if link.device not in ("", _NETWORK)), telling.device)
    return text.format(device=device, operation=chain.operation or "a call")


# ---- without a problem


def healthy(
    window: Window, glyphs: Glyphs = UNICODE, kept: RowKey | None = None, *, verdict_in: float = 0.0
) -> tuple[str, str]:
    """Return the answer for a ``window`` without an open problem, in two parts that belong together: ``No
    problems. 4 containers`` and ``slowest p99 cudaStreamSynchronize 5.20 ms (train)``. The second part may be
    empty.

    ``kept`` is the row to name as long as it has calls in the window, so that the text does not change every
    second. ``verdict_in``: seconds until it may be said that there is no problem.
    """
    coverage = window.coverage
    if coverage.tracing:
        return f"Nothing is traced: {coverage.tracing}", ""
    untraced = len({missing.pid or missing.what for missing in coverage.missing if missing.untraced})
    no_problems, busy = "No problems.", busy_percent(window)
    if verdict_in > 0:
        no_problems = f"Measuring: first verdict within {math.ceil(verdict_in)} s."
        if busy:
            no_problems += f" The CPUs are {busy:.0f} % busy."
    elif busy:
        no_problems = f"No problem found, although the CPUs are {busy:.0f} % busy."
    elif untraced:
        processes = coverage.processes + untraced
        no_problems = f"No problems in {coverage.processes} of {processes} processes ({untraced} untraced)."
    callers = {key.tenant for key in window.rows.keys if key.outermost}
    if not callers:
        return f"{no_problems} No CUDA or NCCL call in this window.", ""
    number = f"{len(callers)} container{'' if len(callers) == 1 else 's'}"
    found = slowest(window, kept)
    if found is None:
        return f"{no_problems} {number}", ""
    key, p99_ns = found
    name = name_of(key.tenant, window)
    return f"{no_problems} {number}", f"slowest p99 {key.operation} {amount(p99_ns, glyphs)} ({name})"


def busy_percent(window: Window) -> float:
    """Return how busy the CPUs of the host are, if hardly any CPU time is left, else 0.0 (%)."""
    used = window.system.cpu_percent if window.system is not None else 0.0
    return used if used >= FULL_PERCENT else 0.0


def slowest(window: Window, kept: RowKey | None = None) -> tuple[RowKey, int] | None:
    """Return the row of outermost calls with the largest p99, and this p99 (ns); None if no call returned.

    If the row ``kept`` has calls, it is returned with its p99.
    """
    rows = window.rows
    at = rows.keys.index(kept) if kept is not None and kept.outermost and kept in rows.keys else None
    if at is not None and rows.calls[at] > 0:
        called = np.array([at])
    else:
        called = np.flatnonzero(rows.calls > 0)
        outermost = np.fromiter((rows.keys[at].outermost for at in called.tolist()), np.bool_, len(called))
        called = called[outermost]
    # A p99 is at most the longest call. So rows whose longest call is not longer than the best p99 so far are
    # skipped.
    order = called[np.argsort(-rows.max_ns[called].astype(np.float64), kind="stable")]
    best: tuple[int, int] | None = None
    for first in range(0, len(order), _ROWS_AT_ONCE):
        some = order[first : first + _ROWS_AT_ONCE]
        if best is not None and int(rows.max_ns[some[0]]) <= best[1]:
            break
        p99_ns = bounded(rows.histograms.take(some).percentiles((99.0,)), rows.max_ns[some])[:, 0]
        at = int(np.argmax(p99_ns))
        if best is None or int(p99_ns[at]) > best[1]:
            best = int(some[at]), int(p99_ns[at])
    return None if best is None else (rows.keys[best[0]], best[1])


# ---- printed


def answer_lines(window: Window, chains: Iterable[Chain], tellings: Tellings, style: Style) -> list[str]:
    """Return the answer as lines for printing: the worst open problem of ``chains`` as a sentence, and how
    many more there are."""
    faults = sorted((one for one in chains if one.open and one.severity != "info"), key=worst_first)
    if not faults:
        code = YELLOW if window.coverage.tracing else BOLD
        said = ", ".join(part for part in healthy(window, style.glyphs) if part)
        return [style.paint(line, code) for line in style.folded("", said)]
    worst = sentence_of(faults[0], window, tellings, style.glyphs)
    loud = faults[0].severity in ("critical", "high")
    more = f" ({len(faults) - 1} more)" if len(faults) > 1 else ""
    said = "".join(text for text, _ in worst.parts()) + more
    lines = [style.paint(line, RED if loud else YELLOW) for line in style.folded("", said)]
    if worst.advice:
        lines += style.folded(worst.advice_label, worst.advice[0])
    if worst.command:  # a command that is printed is never broken
        lines.append(worst.label + style.plain(worst.command))
    return lines
