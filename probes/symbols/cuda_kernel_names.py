"""Finds the names of CUDA kernels: the kernel side has captured them, or they are in the program's symbols.

A program launches a CUDA kernel by the address of the host function that stands for it, or by a handle of the
driver. Programs that were started before the probes were attached registered the names unobserved. In such a
program, an address is looked up in the symbols of the file that is mapped there, and then in the file's code.
A handle stays unknown.
"""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from stalltop.model.text.clean import ELLIPSIS, clean
from stalltop.model.window import Missing
from stalltop.probes.confined.examiner import Examiner
from stalltop.probes.confined.link import Answerer, Here
from stalltop.probes.maps.launches import RawKernel
from stalltop.probes.operations import RUNTIME, operation
from stalltop.probes.symbols.demangler import Demangler, is_mangled
from stalltop.probes.symbols.name_search import NameSearch, NotYetError

MOST_NAME_BYTES: Final = 4096
"""Maximum number of bytes that are read of a mangled name. A longer name is cut."""
MOST_NAME: Final = 1024
"""Maximum number of characters that are shown of a demangled name."""
MOST_SHOWN: Final = 65536
"""Maximum number of displayed names that are remembered: four for each record of a CUDA kernel."""
INSTALL_LIBRARY: Final = "install libstdc++ (apt install libstdc++6)"
BUDGET_SECONDS: Final = 0.5
"""Time limit in each window for waiting for names that are searched in files and in the memory of processes,
s. Usually that takes some ms. The next window continues the search."""
SEARCH_SECONDS: Final = 10.0
"""Time in which a name must be found in code, s. Searching a large library takes seconds."""
TRIES: Final = 3
"""A name is searched for in at most this many windows. If it is not found by then, the CUDA kernel stays
without a name."""
_STUB: Final = "__device_stub__"
"""Prefix that compilers may put before the name of the host function that stands for a CUDA kernel."""

Inherited = Callable[[int, int], int]
"""Called with a PID and the address of a host function. Returns the address of the name that the parent of
the process registered for this host function; 0 if it registered none."""
Runs = Callable[[int, int], bool]
"""Called with a PID and ``RawKernel.born_ns`` of a program. Returns whether the process still runs that
program."""
_Which = tuple[int, int, int, bytes]
"""Key of a CUDA kernel within a process: function, ``born_ns`` of the program, generation, and the name that
was captured."""


class _Name(NamedTuple):
    """What is known of the name of a CUDA kernel."""

    text: bytes
    """The name, mangled or not; empty if it is not known."""
    cut: bool = False
    """Whether ``text`` is cut, so that only the beginning of the name is known."""


_UNKNOWN: Final = _Name(b"")


class KernelNames:
    """Finds the names of CUDA kernels by process, program and function. Used from one thread, except for
    ``prepare``."""

    def __init__(
        self,
        inherited: Inherited = lambda tgid, function: 0,
        runs: Runs = lambda tgid, born_ns: True,
        demangler: Demangler | None = None,
        asks: Answerer | None = None,
        searches: Answerer | None = None,
    ) -> None:
        """``asks`` examines files and memory of processes, and ``searches`` searches code, which takes long;
        by default, that is done in this process."""
        self._inherited = inherited
        self._runs = runs
        self._reads = NameSearch(asks or Here())
        self._searches = NameSearch(searches or Here())
        self._demangler = demangler or Demangler()
        self._names: dict[int, dict[_Which, _Name]] = {}
        """Known names, by process."""
        self._launched: dict[int, dict[tuple[int, int], tuple[int, str]]] = {}
        """The window in which a function was last launched, and the name of the CUDA kernel; by process, then
        by program and function. The name is '' if the function stood for two CUDA kernels in that window."""
        self._window = 0
        self._shown: dict[bytes, str] = {}
        """Displayed names by mangled name. Processes that run the same program share them."""
        self._spent = 0.0
        """Time spent in this window searching for names, s. Limited by ``BUDGET_SECONDS``."""
        self._patience = 0.0
        """For how long an answer is awaited, s."""
        self._tries: Counter[tuple[int, _Which]] = Counter()
        """Number of failed searches for a name, by process and CUDA kernel."""

    def close(self) -> None:
        """Stops the search for names."""
        self._reads.close()
        self._searches.close()
        self._demangler.close()

    def prepare(self) -> None:
        """Starts the demangler. Called when there is a program that may launch CUDA kernels, so that names
        will have to be demangled soon."""
        self._demangler.prepare()

    def missing(self) -> tuple[Missing, ...]:
        """Returns why names are shown mangled; nothing if they are demangled."""
        reason = self._demangler.unavailable
        if not reason:
            return ()
        remedy = INSTALL_LIBRARY if self._demangler.no_library else ""
        return (Missing("C++ names of CUDA kernels", f"shown mangled: {reason}", remedy),)

    def begin(self) -> None:
        """Begins a new window, with a new time limit for searching."""
        self._spent = 0.0
        self._window += 1

    def names(self, launches: Iterable[RawKernel]) -> list[str]:
        """Returns the name to show for each of ``launches``; '' if it is not known, or if no time is left to
        search.

        A name is shown mangled until it is demangled.
        """
        # All questions are asked before the first answer is awaited.
        self._patience = 0.0
        begun = [(raw, self._name(raw)) for raw in launches]
        self._patience = BUDGET_SECONDS
        found = [(raw, name or self._name(raw) or _UNKNOWN) for raw, name in begun]
        for old in list(itertools.islice(self._shown, max(len(self._shown) - MOST_SHOWN, 0))):
            del self._shown[old]
        asked = [name.text for _, name in found if not name.cut and is_mangled(name.text)]
        answers = self._demangler.ask(name for name in asked if name not in self._shown)
        self._shown |= {name: for_display(answer) for name, answer in answers.items()}
        return [self._noted(raw, name) for raw, name in found]

    def _noted(self, raw: RawKernel, found: _Name) -> str:
        name = self._shown.get(found.text)
        if name is None:
            name = for_display(found.text)
            if not is_mangled(found.text):
                self._shown[found.text] = name
        name += ELLIPSIS if found.cut else ""
        launched = self._launched.setdefault(raw.key.tgid, {})
        window, before = launched.get((raw.born_ns, raw.function), (-1, ""))
        both = window == self._window and before != name
        launched[raw.born_ns, raw.function] = (self._window, "" if both else name)
        return name

    def known(self, tgid: int, born_ns: int, function: int) -> str:
        """Returns the name of the CUDA kernel for which ``function`` of a program (``born_ns`` as in
        ``RawKernel``) stood in the latest window in which it was launched.

        Returns '' if the name is not known, or if the function stood for two CUDA kernels in that window.
        """
        return self._launched.get(tgid, {}).get((born_ns, function), (0, ""))[1]

    def forget(self, tgid: int) -> None:
        """Forgets a process that has ended and whose last counts were read."""
        self._names.pop(tgid, None)
        self._launched.pop(tgid, None)
        for which in [which for which in self._tries if which[0] == tgid]:
            del self._tries[which]

    def _name(self, raw: RawKernel) -> _Name | None:
        """Returns what is known of the name of a launched CUDA kernel; None if the search is not finished."""
        known = self._names.setdefault(raw.key.tgid, {})
        which = (raw.function, raw.born_ns, raw.generation, raw.name)
        name = known.get(which)
        if name is None:
            if (raw.cut or not raw.name) and self._spent > BUDGET_SECONDS:
                return _UNKNOWN
            began = time.monotonic()
            try:
                name = self._find(raw)
            except NotYetError:
                return None
            finally:
                self._spent += time.monotonic() - began
            self._tries[raw.key.tgid, which] += not name.text
            if not name.text and self._tries[raw.key.tgid, which] < TRIES:
                return _UNKNOWN  # The process may have just begun another program.
            self._tries.pop((raw.key.tgid, which))
            known[which] = name
            # Records of the same CUDA kernel from before the name was captured get this name, too.
            if raw.name:
                known.setdefault((*which[:3], b""), name)
        return name

    def _read(self, question: Callable[..., bytes | None], *arguments: int) -> bytes | None:
        """Asks a question that is usually answered at once. Raises NotYetError."""
        return self._reads.found(question, *arguments, patience_seconds=self._patience - self._spent)

    def _find(self, raw: RawKernel) -> _Name:
        """Returns the name of the launched CUDA kernel. The text of the name is empty if no name was found.
        Raises NotYetError if the search is not finished."""
        tgid = raw.key.tgid
        name, cut = raw.name, raw.cut
        if cut or not name:
            at = raw.name_at or (0 if name else self._inherited(tgid, raw.function))
            whole = (self._read(Examiner.text, tgid, at, MOST_NAME_BYTES) or b"") if at else b""
            if whole.startswith(name):
                name, cut = whole, len(whole) >= MOST_NAME_BYTES
        if not name and operation(raw.key.operation).layer == RUNTIME:
            symbol = self._read(Examiner.symbol, tgid, raw.function)
            if symbol == b"":
                symbol = self._searches.found(Examiner.registered, tgid, raw.function, patience_seconds=0.0)
            name = symbol or b""
        if name != raw.name and not self._runs(tgid, raw.born_ns):
            # The process no longer runs this program. The name that was read from memory or symbols may be of
            # another program, so only the captured name is used.
            name, cut = raw.name, raw.cut
        return _Name(_without_stub(name), cut and bool(name))


def for_display(name: bytes) -> str:
    """Returns a name, demangled or not, in the form in which it is shown: on one line, at most ``MOST_NAME``
    characters, without the prefix ``__device_stub__`` that compilers add."""
    # Older libraries put a blank between closing angle brackets.
    return re.sub(r"> (?=>)", ">", clean(name, MOST_NAME)).replace(_STUB, "")


def _without_stub(name: bytes) -> bytes:
    """Returns the name of the CUDA kernel if ``name`` is the name of its stub: ``_Z5scalePf`` for
    ``__device_stub__Z5scalePf``. Other names are returned unchanged."""
    return name.removeprefix(_STUB[:-1].encode()) if name.startswith(_STUB.encode() + b"Z") else name
