"""Reads how an administrator has configured the sharing of a node's GPUs, from the file that
gpu-feature-discovery writes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stalltop.model.text.clean import clean
from stalltop.probes.regular_file import read_regular

FILE: Final = "etc/kubernetes/node-feature-discovery/features.d/gfd"
"""Path below the root of the host's files; each line is ``nvidia.com/…=…``."""
_MOST_BYTES: Final = 64 << 10


def node_labels(root: Path = Path("/")) -> dict[str, str]:
    """Returns the GPU labels of this node, by name without ``nvidia.com/``; empty if there is no such
    file."""
    content = (read_regular(root / FILE, _MOST_BYTES) or b"").decode("utf-8", "replace")
    found = {}
    for line in content.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.startswith("nvidia.com/"):
            found[clean(name.removeprefix("nvidia.com/"))] = clean(value)
    return found


def sharing(labels: dict[str, str]) -> str:
    """Returns how GPUs are shared, in a few words; '' if the labels do not say."""
    found = []
    strategy, replicas = labels.get("gpu.sharing-strategy", ""), labels.get("gpu.replicas", "")
    if strategy == "none":
        found.append("not shared")
    elif strategy:
        found.append(f"{strategy}, {replicas} replicas of each" if replicas else strategy)
    if (mig := labels.get("mig.strategy", "none")) != "none" and labels.get("mig.capable") == "true":
        found.append(f"MIG strategy {mig}")
    return "; ".join(found)
