"""Sentences about the tenants that share a device, for the screen, ``once`` and ``explain``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from stalltop.formats.text.chains import name_of
from stalltop.model.devices.device import Device
from stalltop.model.sharing.sharing import Holding, Sharer, Sharing, Use, Why
from stalltop.model.sharing.ways import Way, unnamed, users_of, way_of
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.text.words import numbered
from stalltop.model.window import Window

WORDS: Final[Mapping[Way, str]] = {
    "unused": "nobody",
    "exclusive": "one tenant",
    "time-sliced": "time-sliced",
    "mps": "MPS",
    "mig": "MIG",
    "vgpu": "vGPU",
    "unknown": "not known",
}
"""For each way in which a device is shared: the words for the cell of a table."""

NO_SPLIT: Final = "the share of each tenant is not measurable here"
UNKNOWN_TENANT: Final = "tenant not known"

_USES: Final[Mapping[Use, str]] = {
    "used": "used",
    "idle": "not used: its processes are on the device, and made no call in this window",
    "absent": "not used: none of its processes is on the device",
}
_NOT_KNOWN: Final[Mapping[Why, str]] = {
    "tenant": "not known: no tenant was seen that runs in it",
    "list": "not known: the driver does not tell who uses the device",
    "device": "not known: it makes calls, but it was not measured on which GPU",
}
IDLE_SECONDS: Final = 10.0
"""Least length, in seconds, of a window from which stalltop concludes that a tenant without calls does not
use its device. A shorter window may lie between two steps of the tenant's program."""
MOST_NAMED: Final = 3
"""Maximum number of tenants that a sentence names."""


def short(device: Device) -> str:
    """Return how many tenants the driver lists on a device and how they share it, for a cell of a table: ``4
    via MPS``, ``2 time-sliced``, ``1 tenant``.

    Returns ``2 processes`` if the tenant of at least one of the processes is not known, and '' if the driver
    does not say which processes use the device.
    """
    way, users = way_of(device), users_of(device)
    if way in ("time-sliced", "mps", "vgpu") and unnamed(device):
        return _many(unnamed(device), "process", "es")
    words: Mapping[Way, str] = {
        "unused": "none seen",
        "exclusive": "1 tenant",
        "time-sliced": f"{users} time-sliced",
        "mps": f"{users} via MPS",
        "mig": f"MIG {len(device.instances)}",
        "vgpu": f"{users} on vGPU",
    }
    return words.get(way, "")


def who(tenant: str, window: Window) -> str:
    """Return the name of a tenant as shown to users."""
    return name_of(tenant, window) if tenant else UNKNOWN_TENANT


def statement(sharing: Sharing, window: Window, glyphs: Glyphs = UNICODE) -> str:
    """Return sentences that say how a device is shared, by how many tenants, how busy it is, and what is not
    known."""
    said = [_divided(sharing) if sharing.way == "mig" else _used(sharing, window, glyphs)]
    if sharing.hidden == "guests" and sharing.sharers:
        said.append("Virtual machines use it, too, and cannot be seen from here.")
    if len(sharing.tenants) not in (0, len(sharing.sharers)):
        said.append("Processes that have ended made calls on it, too.")
    if not sharing.watched:
        said.append("The driver does not list its processes, so tenants that are not traced are missing.")
    if sharing.unplaced and ":" not in sharing.label:
        others = _many(len(sharing.unplaced), "more tenant" if sharing.sharers else "tenant")
        said.append(f"{others} made calls on a GPU that is not known: {_named(sharing.unplaced, window)}.")
    return " ".join(said)


def _used(sharing: Sharing, window: Window, glyphs: Glyphs) -> str:
    """Return the sentence about a device without MIG."""
    gpu = f"GPU {sharing.label}"
    number = len(sharing.tenants)
    percent = sharing.busy_percent
    busy = "" if percent is None else f"; the device is {_percent(percent, glyphs)} busy"
    if sharing.shared:
        clients = sum(one.mps_client for one in sharing.tenants)
        how = " by time-slicing"
        if sharing.way == "mps":
            how = " at once, through MPS" if clients in (0, number) else f", {clients} of them through MPS"
        split = NO_SPLIT
        if sharing.switches_per_second is not None:
            turns = figures.rate(sharing.switches_per_second, glyphs).strip()
            split = f"it changes between their processes {turns} times a second"
        return f"{_counted(sharing.tenants)} share {gpu}{how}{busy}; {split}."
    if sharing.way == "vgpu":
        verb = "uses" if number == 1 and sharing.tenants[0].tenant else "use"
        users = f"{_counted(sharing.tenants)} {verb} it here" if number else "nobody is seen to use it here"
        return (
            f"{gpu} is a vGPU: other virtual machines may use the same board, and cannot be seen from here; "
            f"{users}{busy}."
        )
    all_seen = sharing.watched and not sharing.hidden and not sharing.unplaced
    if number == 1:
        through = ", through MPS" if sharing.way == "mps" else ""
        tenant = sharing.tenants[0].tenant
        only = "Only " if all_seen else ""
        users = f"{only}{who(tenant, window)} uses" if tenant else "Processes whose tenant is not known use"
        return f"{users} {gpu}{through}{busy}."
    if sharing.sharers and all_seen:
        return f"Only processes that have ended made calls on {gpu}{busy}."
    if sharing.hidden == "guests":
        return f"{gpu} is for virtual machines, and which of them use it cannot be seen from here{busy}."
    if sharing.hidden:
        return f"{gpu} is used, but the driver does not tell by whom{busy}."
    if not all_seen or sharing.way == "unknown":
        return f"Who uses {gpu} is not known{busy}."
    if sharing.way == "mps":
        return f"Only the server of MPS is on {gpu}{busy}."
    return f"No process uses {gpu}{busy}."


def _divided(sharing: Sharing) -> str:
    parts, gpu = len(sharing.parts), f"GPU {sharing.label}"
    if not parts:
        return f"{gpu} is in MIG mode, and has no instance: no program can use it."
    said = f"{gpu} is divided by MIG into {_many(parts, 'instance')}, each with compute and memory of its own"
    used = [part for part in sharing.parts if part.sharers]
    if not used:
        unused = all(part.way == "unused" for part in sharing.parts)
        return f"{said}; {'nobody uses them' if unused else 'who uses them is not known'}."
    users = [sharer for part in used for sharer in part.sharers]
    one = len({sharer.tenant for sharer in users}) == 1 and users[0].tenant
    return f"{said}; {_counted(users)} {'uses' if one else 'use'} {len(used)} of them."


def _counted(sharers: Iterable[Sharer]) -> str:
    """Return how many tenants there are: ``3 tenants``, or ``1 tenant and 2 processes whose tenant is not
    known``."""
    sharers = tuple(sharers)
    known = len({one.tenant for one in sharers if one.tenant and not one.ended})
    others = len({pid for one in sharers if not one.tenant for pid in one.pids})
    said = [_many(known, "tenant")] if known else []
    said += [f"{_many(others, 'process', 'es')} whose tenant is not known"] if others else []
    return " and ".join(said)


def did(one: Sharer, window: Window) -> str:
    """Return the name of a tenant with its number of launches or, without launches, of calls: ``serve (700
    launches)``."""
    what = _many(one.launches, "launch", "es") if one.launches else _many(one.calls, "call")
    return f"{who(one.tenant, window)} ({what})"


def _named(sharers: Sequence[Sharer], window: Window) -> str:
    """Return the first ``MOST_NAMED`` tenants, each as ``did`` returns it, and how many more there are."""
    said = [did(one, window) for one in sharers[:MOST_NAMED]]
    more = len(sharers) - MOST_NAMED
    return ", ".join(said) + (f" and {more} more" if more > 0 else "")


def worth_telling(sharing: Sharing, window: Window) -> bool:
    """Return whether the sharing of a device is reported: the device is shared or divided, has users that
    cannot be seen, or is not used as it was allocated."""
    odd = any(is_wasted(holding, window) for holding in sharing.holdings)
    ungiven = any(one.given is False for one in sharing.sharers)
    return sharing.shared or sharing.way in ("mig", "vgpu") or bool(odd or ungiven or sharing.hidden)


def help_text(sharing: Sharing) -> str:
    """Return advice on how to separate the tenants of a shared device; '' if the device is not shared."""
    if not sharing.shared:
        return ""
    apart = "MIG instances, or a device each," if sharing.divisible else "A device each"
    return f"{apart} would separate their figures, and keep them from slowing each other down."


def overlaps(sharer: Sharer, window: Window, *, most: int = 4) -> str:
    """Return which tenants were active at the same time as ``sharer``, each with a share: the part of the
    active time of ``sharer`` in which both were active. Example: ``serve 62%, batch 10%``."""
    if not sharer.active_ns:
        return ""
    told = [
        f"{who(other, window)} {_whole(min(100.0 * ns / sharer.active_ns, 100.0))}"
        for other, ns in sharer.overlaps[:most]
        if ns
    ]
    more = len(sharer.overlaps) - most
    return ", ".join(told) + (f" and {more} more" if told and more > 0 else "")


def given(holding: Holding, sharing: Sharing) -> tuple[str, str]:
    """Return two texts: the container with the devices that a scheduler gave it, and how it uses them. If
    only some of these devices are parts of the device of ``sharing``, the first text says how many."""
    one = holding.allocation
    here = {sharing.uuid, *(part.uuid for part in sharing.parts)}
    shares = [device for device in one.devices if device]
    of_it = sum(device.partition("::")[0] in here for device in shares)
    number = f"{len(shares)}" if of_it in (0, len(shares)) else f"{of_it} of {len(shares)}"
    name = f"{one.namespace}/{one.pod}" if one.namespace else one.pod
    use = _USES.get(holding.use) or _NOT_KNOWN.get(holding.why, _NOT_KNOWN["tenant"])
    return f"{name}, container {one.container}: {number} {one.resource}", use


def is_wasted(holding: Holding, window: Window) -> bool:
    """Return whether a container does not use the device that it was given. If it has a context on the device
    but makes no calls, the window must be at least ``IDLE_SECONDS`` long."""
    return holding.use == "absent" or (holding.use == "idle" and window.seconds >= IDLE_SECONDS)


def _percent(value: float, glyphs: Glyphs) -> str:
    return "100%" if value >= 99.95 else figures.percent(value, glyphs).strip().replace(".0%", "%")


def _whole(percent: float) -> str:
    """Return ``percent`` as text without decimals; ``<1%`` for a value between 0 and 1."""
    return "<1%" if 0 < percent < 1 else f"{percent:.0f}%"


def _many(number: int, what: str, plural: str = "s") -> str:
    return numbered(number, what, what + plural)
