"""Makes windows to export: consecutive windows with a gap between two of them, and a window with hostile
names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stalltop.model.calls import CapturedCall, CapturedCalls
from stalltop.model.tenant import Tenant
from stalltop.model.window import SPLITS, OpenCall, Window
from tests.windows.full import full_window
from tests.windows.hostile import NAMES, hostile_window

BAD_TEXT = ("\udc80surrogate", "\x00nul", "\u2028line", "</script><!--")
"""Hostile text besides ``NAMES``."""


def span_of(windows: Sequence[Window]) -> tuple[float, float]:
    """Returns the first start and the last end of ``windows``."""
    return min((one.start for one in windows), default=0.0), max((one.end for one in windows), default=0.0)


def several(count: int = 5, gap: float = 20.0) -> list[Window]:
    """Returns ``count`` windows of two seconds, with ``gap`` seconds missing before the last. An open call
    and chains last through all of them."""
    one = full_window()
    windows = []
    for number in range(count):
        shift = 2.0 * number + (gap if number == count - 1 else 0.0)
        start = one.start + shift
        calls = tuple(call._replace(start_ns=call.start_ns + round(shift * 1e9)) for call in one.calls.kept)
        windows.append(
            replace(
                one,
                start=start,
                chains=tuple(replace(chain, seen=chain.seen + shift) for chain in one.chains),
                calls=CapturedCalls(calls, one.calls.passed_over),
                open_calls=tuple(
                    call if call.ended else replace(call, age_ns=call.age_ns + round(shift * 1e9))
                    for call in one.open_calls
                ),
                evidence=replace(one.evidence, events=one.evidence.events if number == 0 else ()),
            )
        )
    return windows


def hostile() -> Window:
    """Returns a window with hostile names everywhere: rows, captured calls, open calls and CUDA kernels."""
    one = hostile_window()
    names = [*NAMES, *BAD_TEXT]
    tenants = {**one.tenants, "docker:x": Tenant("docker:x", BAD_TEXT[0])}
    keys = [
        key._replace(process=BAD_TEXT[at % len(BAD_TEXT)]) if at < len(BAD_TEXT) else key
        for at, key in enumerate(one.rows.keys)
    ]
    kept = tuple(
        CapturedCall(
            *(
                "docker:x",
                at + 1,
                name,
                "runtime",
                name,
                False,
                7,
                1_700_000_000_500_000_000 + 1_000 * at,
                900,
            ),
            *((900, *[0] * (len(SPLITS) - 1)), 0, 0, name, name, "slow"),
        )
        for at, name in enumerate(names)
    )
    hanging = tuple(
        OpenCall("docker:x", at + 1, 9, name, "driver", name, 3_000_000_000) for at, name in enumerate(names)
    )
    return replace(
        one,
        rows=replace(one.rows, keys=tuple(keys)),
        tenants=tenants,
        calls=CapturedCalls(kept),
        open_calls=hanging,
        kernels=tuple(count._replace(tenant="docker:x", kernel=BAD_TEXT[3]) for count in one.kernels),
    )
