"""Filters: text that selects rows of a window.

A filter consists of terms separated by blanks. A row passes if all terms match; case is ignored:

* ``word``: a name of the row or its tenant contains the word; a number also matches the PID;
* ``"two words"``: a name of the row or its tenant contains the quoted text, which may have blanks;
* ``/regex/``: the regular expression occurs in a name (see ``model.rows.expression``);
* ``key:value`` and ``key:/regex/``: only the name that ``key`` stands for is searched; ``KEYS`` has the keys;
* ``gpu:0``, ``gpu:0-3``, ``gpu:0:3``: the row ran, or may have run, on one of these devices
  (``model.sharing.placing``);
* ``-term``: the term must not match.

A user may have typed only a part of a filter: invalid text sets ``Filter.error``, and the filter matches no
row.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.model.devices.labels import is_wanted, text_of, wanted_of
from stalltop.model.evidence import operation_names
from stalltop.model.row_key import RowKey
from stalltop.model.rows.expression import MOST_LETTERS, compiled, found
from stalltop.model.sharing.placing import Labels, placement
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window

_UNKNOWN = Tenant(id="", name="", kind="host")

KEYS: Mapping[str, Callable[[RowKey, Tenant, Labels], str]] = {
    "container": lambda key, tenant, on: f"{tenant.name} {tenant.container_id} {key.tenant}",
    "process": lambda key, tenant, on: key.process,
    "pid": lambda key, tenant, on: str(key.pid),
    "operation": lambda key, tenant, on: operation_names(key.operation),
    "layer": lambda key, tenant, on: key.layer,
    "host": lambda key, tenant, on: key.host,
    "pod": lambda key, tenant, on: tenant.pod,
    "namespace": lambda key, tenant, on: tenant.namespace,
    "runtime": lambda key, tenant, on: tenant.runtime,
    "kind": lambda key, tenant, on: tenant.kind,
    "cgroup": lambda key, tenant, on: tenant.cgroup_path,
    "device": lambda key, tenant, on: text_of(on),
}
"""Keys of ``key:value``, each with the function that returns the text to search."""

SHORT_KEYS: Mapping[str, str] = {
    "c": "container",
    "gpu": "device",
    "tenant": "container",
    "proc": "process",
    "op": "operation",
    "ns": "namespace",
}
"""Short forms and other names of keys, each with the key that it stands for."""

_ANYWHERE = tuple(name for name in KEYS if name not in ("pid", "device"))
_TERM = re.compile(
    r"""
    (?P<negated>-(?=\S))?
    (?:(?P<key>[A-Za-z]+):)?
    (?: /(?P<regex>(?:\\.|.)*?)/(?=\s|$)   # complete expression, may contain blanks
      | "(?P<quoted>[^"]*)"?               # the closing quote may not be typed yet
      | (?P<word>\S*)
    )
    """,
    re.VERBOSE,
)

_Test = Callable[[RowKey, Tenant, Labels], bool]
_Sought = tuple[str, re.Pattern[str]]
"""What a term searches: (its key, or '' for all names; the pattern to find)."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter. An empty filter matches every row."""

    text: str = ""
    tests: tuple[_Test, ...] = ()
    error: str = ""
    """What is wrong with ``text``, in one line; '' if it is valid."""
    sought: tuple[_Sought, ...] = ()
    """Patterns of the terms that must match, for highlighting."""
    hint: str = ""
    """One line that suggests a key if the text before a colon is not a key; else ''."""
    places: bool = False
    """True if a term selects devices."""

    def __bool__(self) -> bool:
        return bool(self.tests or self.error)

    def matches(self, key: RowKey, tenant: Tenant | None = None, on: Labels = ()) -> bool:
        """Returns True if the row with the key ``key`` passes. ``tenant`` is the tenant of the row; ``on``
        are the devices on which its calls ran or may have run."""
        return not self.error and all(test(key, tenant or _UNKNOWN, on) for test in self.tests)

    def of(self, window: Window) -> Callable[[RowKey], bool]:
        """Returns a function that takes the key of a row of ``window`` and returns True if the row passes."""
        find = window.tenants.get
        if not self.places:
            return lambda key: self.matches(key, find(key.tenant))
        devices = placement(window).devices
        return lambda key: self.matches(key, find(key.tenant), devices(key))

    def spans(self, text: str, name: str) -> tuple[tuple[int, int], ...]:
        """Returns (start, end) of each part of ``text`` that the filter matches, for highlighting.

        ``text`` is the text of a row for the key ``name``, one of ``KEYS``. Overlapping parts are joined.
        """
        parts = {
            match.span()
            for key, pattern in self.sought
            if key in ("", name) or (key == "pid" and name == "process")
            for match in pattern.finditer(text, 0, MOST_LETTERS)
            if match.end() > match.start()
        }
        spans: list[tuple[int, int]] = []
        for start, end in sorted(parts):
            if spans and start <= spans[-1][1]:
                spans[-1] = spans[-1][0], max(end, spans[-1][1])
            else:
                spans.append((start, end))
        return tuple(spans)

    def rows(self, window: Window) -> NDArray[np.bool_]:
        """Returns, for each row of ``window``, True if it passes; shape (rows,)."""
        return np.fromiter(map(self.of(window), window.rows.keys), np.bool_, len(window.rows))

    def apply(self, window: Window) -> Window:
        """Returns ``window`` without the rows and open calls that do not pass; everything else stays."""
        if not self:
            return window
        passes = self.of(window)
        open_calls = tuple(call for call in window.open_calls if passes(RowKey(window.host, *call.row)))
        rows = window.rows.take(np.flatnonzero(self.rows(window)))
        return replace(window, rows=rows, open_calls=open_calls)


class _Term(NamedTuple):
    """One parsed term: its test, and the key and pattern that it searches (see ``_Sought``)."""

    test: _Test
    name: str
    pattern: re.Pattern[str]


def parse(text: str) -> Filter:
    """Parses a filter. Never raises an error: if ``text`` is invalid, ``Filter.error`` says why."""
    tests: list[_Test] = []
    sought: list[_Sought] = []
    hint = ""
    places = False
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        typed = _TERM.match(text, at)
        if typed is None or typed.end() == at:
            break
        at = typed.end()
        term = _term_of(typed)
        if isinstance(term, str):
            return Filter(text, (), term)
        if term is None:
            continue
        hint = hint or _hint(typed)
        places = places or term.name == "device"
        if typed["negated"]:
            tests.append(_negated(term.test))
        else:
            tests.append(term.test)
            sought.append((term.name, term.pattern))
    return Filter(text, tuple(tests), sought=tuple(sought), hint=hint, places=places)


def _hint(typed: re.Match[str]) -> str:
    """Returns a hint if the text before a colon is not a key; else ''. An unknown key is no error, because
    names such as image:tag contain colons."""
    name = (typed["key"] or "").lower()
    if not name or name in KEYS or name in SHORT_KEYS:
        return ""
    near = difflib.get_close_matches(name, (*KEYS, *SHORT_KEYS), 1)
    meant = f"did you mean {near[0]}:" if near else f"keys: {', '.join(KEYS)}"
    return f"{name}: is not a key, so the whole term is searched as one word; {meant}"


def _term_of(typed: re.Match[str]) -> _Term | str | None:
    """Parses one term. Returns an error message if the term is invalid, and None if it is still empty, such
    as a key without a value."""
    name = (typed["key"] or "").lower()
    name = SHORT_KEYS.get(name, name)
    regex = typed["regex"]
    value = typed["quoted"] if typed["quoted"] is not None else typed["word"] or ""
    if regex is None and typed["quoted"] is None and value.startswith("/"):
        regex = value[1:]  # the closing slash is not typed yet
    if name and name not in KEYS:
        if regex is not None:
            return f"unknown key {name!r}; keys: {', '.join(KEYS)}"
        value, name = f"{typed['key']}:{value}", ""  # names such as image:tag contain colons
    if regex is not None:
        return _expression(regex, name)
    if not value:
        return None
    if name == "device" and not wanted_of(value):
        return f"{typed['key']}: needs device numbers, such as 0, 0-3 or 0:1 (MIG)"
    return _Term(_test_of(value.casefold(), name), name, re.compile(re.escape(value), re.IGNORECASE))


def _test_of(value: str, name: str) -> _Test:
    """Returns a function that tests whether a row matches ``value``, which must be casefolded. If ``name`` is
    ``pid`` or ``device``, ``value`` is the PID or a list of devices; for all other keys, it is a part of the
    text of the key ``name``. If ``name`` is '', ``value`` is the PID or a part of any name."""
    if name == "pid":
        return lambda key, tenant, on: str(key.pid) == value
    if name == "device":
        wanted = wanted_of(value)
        return lambda key, tenant, on: any(is_wanted(wanted, label) for label in on)
    if name:
        get = KEYS[name]
        return lambda key, tenant, on: value in get(key, tenant, on).casefold()
    return lambda key, tenant, on: (
        str(key.pid) == value or any(value in KEYS[name](key, tenant, on).casefold() for name in _ANYWHERE)
    )


def _expression(regex: str, name: str) -> _Term | str | None:
    if not regex:
        return None
    try:
        pattern = compiled(regex)
    except ValueError as error:
        return str(error)
    if name:
        get = KEYS[name]
        return _Term(lambda key, tenant, on: found(pattern, get(key, tenant, on)), name, pattern)
    return _Term(
        lambda key, tenant, on: any(found(pattern, KEYS[name](key, tenant, on)) for name in _ANYWHERE),
        name,
        pattern,
    )


def _negated(test: _Test) -> _Test:
    return lambda key, tenant, on: not test(key, tenant, on)
