"""Commands that read a recording read the past of a fleet if ``fleet:`` is given in place of a file.

``fleet:`` stands for the last hour of all clusters, ``fleet:CLUSTER@1d`` for a day of one, and
``fleet:CLUSTER/RACK/HOST@10m`` for ten minutes of a host. The environment says which NATS server is asked,
and as whom (docs/fleet.md).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stalltop.fleet.connection import ServerAccess
    from stalltop.model.fleet.host_summary import HostAddress

PREFIX: Final = "fleet:"
_OPTIONS: Final = ("file", "then", "now")
"""Names of the arguments that are files to read."""


@contextmanager
def fleets_as_files(options: argparse.Namespace) -> Iterator[None]:
    """Replaces ``fleet:…`` in ``options`` by files, which are removed afterwards; but ``query``
    sends its SQL to a host instead. Raises UsageError, and StalltopError if a fleet has no past."""
    given = {name: str(getattr(options, name, "")) for name in _OPTIONS}
    fleets = {name: text.removeprefix(PREFIX) for name, text in given.items() if text.startswith(PREFIX)}
    with ExitStack() as ending:
        if fleets:
            access = _access()
            from stalltop.cli.fleet.past import as_file, past_named
            from stalltop.cli.tracing import say

            for name, text in fleets.items():
                past = past_named(text)
                if past.host is None or not hasattr(options, "sql"):
                    setattr(options, name, ending.enter_context(as_file(access, past, say)))
        yield


def host_named(text: str) -> tuple[ServerAccess, HostAddress] | None:
    """Returns the host that ``text`` names in place of a file, and how to reach it; None if it names a file.
    Raises UsageError."""
    if not text.startswith(PREFIX):
        return None
    access = _access()
    from stalltop.cli.fleet.past import past_named

    host = past_named(text.removeprefix(PREFIX)).host
    return None if host is None else (access, host)


def _access() -> ServerAccess:
    """Returns the server that the environment names. Raises UsageError, and StalltopError if the client
    library is missing."""
    from stalltop.cli.fleet.options import add_server_options, server_access

    named = argparse.ArgumentParser()
    add_server_options(named)
    return server_access(named.parse_args([]))
