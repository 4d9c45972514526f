"""Who shares a device, in words: the same on the screen, in ``once`` and in ``explain``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from model.device import Device
from model.sharing import Holding, Sharer, Sharing, Use, Way, users_of, way_of
from model.window import Window
from outputs import figures
from outputs.chain_text import name_of

WORDS: Final[Mapping[Way, str]] = {
    "unused": "nobody",
    "exclusive": "one tenant",
    "time-sliced": "time-sliced",
    "mps": "MPS",
    "mig": "MIG",
    "vgpu": "vGPU",
    "unknown": "not known",
}
"""How a device is shared, in a column."""

NO_SPLIT: Final = "a split is not measurable here"
UNKNOWN_TENANT: Final = "tenant not known"

_USES: Final[Mapping[Use, str]] = {
    "used": "used",
    "idle": "not used: its processes are on the device, and made no call in this window",
    "absent": "not used: none of its processes is on the device",
    "unknown": "which tenant it is was not seen",
}


def short(device: Device) -> str:
    """How many tenants use a device, and how, in a cell: ``4 by MPS``, ``2 in turns``, ``1 tenant``; empty
    where that is not known."""
    way, users = way_of(device), users_of(device)
    words: Mapping[Way, str] = {
        "unused": "nobody",
        "exclusive": "1 tenant",
        "time-sliced": f"{users} in turns",
        "mps": f"{users} by MPS",
        "mig": f"MIG {len(device.instances)}",
        "vgpu": f"{users} on vGPU",
    }
    return words.get(way, "")


def who(tenant: str, window: Window) -> str:
    """A tenant as a person knows it."""
    return name_of(tenant, window) if tenant else UNKNOWN_TENANT


def statement(sharing: Sharing, window: Window, *, unicode: bool = True) -> str:
    """How a device is shared, by how many, how busy it is, and what is not known: a sentence or two."""
    gpu = f"GPU {sharing.label}"
    number = len(sharing.sharers)
    if sharing.way == "mig":
        return _divided(sharing, gpu)
    busy = (
        ""
        if sharing.busy_percent is None
        else f"; the device is {_percent(sharing.busy_percent, unicode)} busy"
    )
    if sharing.shared:
        how = "at once, through MPS" if sharing.way == "mps" else "in turns (time slicing)"
        said = f"{number} tenants share {gpu} {how}{busy}; {NO_SPLIT}."
    elif sharing.way == "vgpu":
        users = (
            f"{number} tenant{'s use' if number != 1 else ' uses'} it here"
            if number
            else "nobody uses it here"
        )
        said = (
            f"{gpu} is a vGPU: other virtual machines may use the same board, and cannot be seen from here; "
            f"{users}{busy}."
        )
    elif number == 1:
        through = ", through MPS" if sharing.way == "mps" else ""
        tenant = sharing.sharers[0].tenant
        users = f"Only {who(tenant, window)} uses" if tenant else "Processes whose tenant is not known use"
        said = f"{users} {gpu}{through}{busy}."
    elif sharing.way == "unknown":
        said = f"Who uses {gpu} is not known{busy}."
    else:
        said = f"No process uses {gpu}{busy}."
    if not sharing.watched:
        said += " The driver does not list its processes: who is not traced is missing."
    return said


def _divided(sharing: Sharing, gpu: str) -> str:
    parts = len(sharing.parts)
    used = [part for part in sharing.parts if part.sharers]
    tenants = {sharer.tenant for part in used for sharer in part.sharers}
    if not parts:
        return f"{gpu} is in MIG mode, and has no instance: no program can use it."
    said = f"{gpu} is divided by MIG into {_many(parts, 'instance')}, each with compute and memory of its own"
    if not used:
        return f"{said}; nobody uses them."
    users = f"{_many(len(tenants), 'tenant')} {'use' if len(tenants) != 1 else 'uses'}"
    return f"{said}; {users} {len(used)} of them."


def worth_telling(sharing: Sharing) -> bool:
    """Whether a device is anything but one tenant's own, or given and used otherwise than it was given."""
    odd = [holding for holding in sharing.holdings if holding.use in ("idle", "absent")]
    ungiven = [one for one in sharing.sharers if one.given is False]
    return sharing.shared or sharing.way in ("mig", "vgpu") or bool(odd or ungiven)


def help_text(sharing: Sharing) -> str:
    """What would tell more, or keep tenants apart; empty where nothing is to be said."""
    if not sharing.shared:
        return ""
    apart = "MIG instances, or a device each," if sharing.divisible else "A device each"
    return f"{apart} would tell them apart, and keep them from slowing each other down."


def overlaps(sharer: Sharer, window: Window, *, most: int = 4) -> str:
    """With whom a tenant was on the device at once, of its own time: ``serve 62%, batch 10%``."""
    if not sharer.active_ns:
        return ""
    told = [
        f"{who(other, window)} {_whole(min(100.0 * ns / sharer.active_ns, 100.0))}"
        for other, ns in sharer.overlaps[:most]
        if ns
    ]
    more = len(sharer.overlaps) - most
    return ", ".join(told) + (f" and {more} more" if told and more > 0 else "")


def given(holding: Holding) -> tuple[str, str]:
    """What was given to whom, and what becomes of it."""
    one = holding.allocation
    shares = len([device for device in one.devices if device])
    name = f"{one.namespace}/{one.pod}" if one.namespace else one.pod
    part = f"{name}, container {one.container}: {shares} {one.resource}"
    return part, _USES[holding.use]


def not_given(sharing: Sharing, window: Window) -> list[str]:
    """Tenants that use a device no scheduler gave them, where one tells what it gave."""
    return [who(one.tenant, window) for one in sharing.sharers if one.given is False]


def _percent(value: float, unicode: bool) -> str:
    return "100%" if value >= 99.95 else figures.percent(value, unicode=unicode).strip().replace(".0%", "%")


def _whole(percent: float) -> str:
    """What is not quite nothing never reads as nothing."""
    return "<1%" if 0 < percent < 1 else f"{percent:.0f}%"


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
