"""Makes a window with hostile names: markup, spreadsheet formulas, terminal escape sequences."""

from __future__ import annotations

from dataclasses import replace

from stalltop.model.chain import Fix
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, rows
from tests.windows.full import full_window

NAMES = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd",
    "+1+1",
    "-2+3",
    "\t=1+1",
    "\x1b[2J\x1b]52;c;cm0gLXJmIC8=\x07",
    "\u202egpj.exe",
    "a,b;c\"d'e\nf\rg",
    "&lt;b&gt;&#x3c;",
    "]]></style></title><!--",
    "日本" * 40,
    "",
)
"""Names that processes, containers and operations may have."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of a cell that make a spreadsheet read it as a formula."""


def hostile_window() -> Window:
    """Returns a window that uses all of ``NAMES`` as operations, processes and containers, and in a chain
    with its fix."""
    calls = [
        Calls(key(name, tenant=f"docker:{at}", pid=at + 1, process=name), [1_000 * (at + 1)] * 3, errors=at)
        for at, name in enumerate(NAMES)
    ]
    full = full_window()
    chain = replace(
        full.chains[0],
        title=NAMES[0],
        summary=NAMES[1],
        process=NAMES[0],
        fixes=(Fix(NAMES[0], f"echo {NAMES[0]}"), *full.chains[0].fixes),
        links=tuple(replace(link, text=NAMES[1], process=NAMES[0]) for link in full.chains[0].links),
        unknown=(NAMES[0],),
    )
    return replace(
        full,
        host=NAMES[0],
        rows=rows(calls, split=True),
        tenants={
            f"docker:{at}": Tenant(f"docker:{at}", name, container_id=str(at))
            for at, name in enumerate(NAMES)
        },
        chains=(chain,),
        coverage=replace(full.coverage, tracing=NAMES[0]),
    )
