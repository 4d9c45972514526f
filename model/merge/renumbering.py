"""Devices whose labels change: a GPU that was lost or added, a driver loaded anew, MIG devices made anew.

Rows name devices by label, and a label may be another device's from one window to the next. Where such
windows are put together, all labels are those of the last one; a device that has none there is called by its
UUID. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stalltop.model.devices.device import Devices


def uuids_by_label(devices: Devices) -> dict[str, str]:
    """UUIDs of GPUs and MIG devices, as far as they are known; none of several hosts, whose labels are
    alike."""
    found: dict[str, str] = {}
    # One that is lost may be told beside the one that has its number by now.
    for device in sorted(devices.devices, key=lambda device: not device.lost):
        if device.host:
            return {}
        found[device.label] = device.uuid
        found.update((one.label, one.uuid) for one in device.instances)
    return {label: uuid for label, uuid in found.items() if uuid}


def renumbered(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """What the labels of ``before``, and UUIDs that stand for labels, are called ``now`` (UUIDs by label);
    empty where no label changed."""
    labels = {uuid: label for label, uuid in now.items()}
    found: dict[str, str] = {}
    for label, uuid in before.items():
        called = labels.get(uuid, uuid if label in now else label)
        if called != label:
            found[label] = called
    return labels | found if found else {}


def added_labels(now: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """UUIDs by label ``now``, with those of ``before`` that are not there any more: by their labels, or by
    their UUIDs where another device has the label."""
    there = set(now.values())
    gone = {label: uuid for label, uuid in before.items() if uuid not in there}
    return {uuid if label in now else label: uuid for label, uuid in gone.items()} | dict(now)


def renumberings(following: Iterable[Devices]) -> Sequence[Mapping[str, str]]:
    """Of windows that follow each other: what the labels of each one are called in the last one."""
    now: dict[str, str] = {}
    found = []
    for devices in reversed(list(following)):
        before = uuids_by_label(devices)
        found.append(renumbered(before, now))
        now = added_labels(now, before)
    return found[::-1]
