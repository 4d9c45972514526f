"""Commands that read a recording read the past of a fleet if ``fleet:`` is given in place of a file.

``fleet:`` stands for the last hour of all clusters, ``fleet:CLUSTER@1d`` for a day of one. The environment
says which NATS server is asked, and as whom (docs/fleet.md).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

PREFIX: Final = "fleet:"
_OPTIONS: Final = ("file", "then", "now")
"""Names of the arguments that are files to read."""


@contextmanager
def fleets_as_files(options: argparse.Namespace) -> Iterator[None]:
    """Replaces ``fleet:…`` in ``options`` by files, which are removed afterwards. Raises UsageError, and
    StalltopError if a fleet has no past."""
    given = {name: str(getattr(options, name, "")) for name in _OPTIONS}
    fleets = {name: text.removeprefix(PREFIX) for name, text in given.items() if text.startswith(PREFIX)}
    with ExitStack() as ending:
        if fleets:
            from stalltop.cli.fleet.options import add_server_options, server_access
            from stalltop.cli.fleet.past import as_file, past_named
            from stalltop.cli.tracing import say

            named = argparse.ArgumentParser()
            add_server_options(named)
            access = server_access(named.parse_args([]))
            for name, text in fleets.items():
                setattr(options, name, ending.enter_context(as_file(access, past_named(text), say)))
        yield
