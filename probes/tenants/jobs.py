"""Finds the name and labels of a Slurm job: in files that Slurm's prolog writes, and in the environment of
the job's processes.

If Slurm made a cgroup for the job, the ids of job and step come from that cgroup, because only Slurm makes
such cgroups. Processes control their own environment: its values are shown, but never replace those of a
cgroup or of the prolog.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stalltop.model.text.clean import clean
from stalltop.probes.regular_file import read_regular
from stalltop.probes.tenants.host_files import inside
from stalltop.probes.tenants.labels import Labels, bounded

MOST_BYTES: Final = 1 << 18
"""Maximum number of bytes that are read of an environment."""
LABELS: Final = {
    "SLURM_JOB_NAME": "job",
    "SLURM_JOB_PARTITION": "partition",
    "SLURM_JOB_ACCOUNT": "account",
    "SLURM_JOB_GPUS": "gpus",
    "SLURM_ARRAY_TASK_ID": "array task",
}
"""Environment variables, and their names as labels."""
GPUS: Final = LABELS["SLURM_JOB_GPUS"]
JOBS: Final = "run/stalltop/jobs"
"""Folder below the host's root with a file for each job, which deploy/slurm/prolog writes."""
MAPPING: Final = "run/stalltop/gpus"
"""Default folder below the host's root with a file for each GPU, or ``GPU.INSTANCE`` for a MIG device, whose
lines are the numbers of the jobs that were given it: the job mapping directory of dcgm-exporter."""
MAPPING_VARIABLE: Final = "DCGM_HPC_JOB_MAPPING_DIR"
"""Environment variable of dcgm-exporter that names another such folder."""
_MOST_FILE_BYTES: Final = 1 << 16
_MOST_GPUS: Final = 256
_OWN_UID: Final = os.geteuid()
_GPU: Final = re.compile(r"\d{1,4}(\.\d{1,4})?")
_UNITS: Final = ("slurmd.service", "slurmstepd.scope")
"""Systemd units in which jobs run if Slurm makes no cgroups for them (without
``ProctrackType=proctrack/cgroup``)."""


@dataclass(frozen=True, slots=True)
class Job:
    """The Slurm job of a process, as its environment or the prolog describes it."""

    id: str
    step: str = ""
    labels: Labels = ()
    uid: str = ""
    """The user whose job it is, as the prolog says; '' if unknown."""

    @property
    def name(self) -> str:
        """Returns the name that the user gave the job; '' if there is none."""
        return dict(self.labels).get("job", "")


def job_of(pid: int, root: Path = Path("/")) -> Job | None:
    """Returns the job of a process; None if its environment names none. The read may hang, so this has to be
    called on another thread."""
    try:
        with open(root / f"proc/{pid}/environ", "rb", buffering=0) as file:
            content = file.read(MOST_BYTES)
    except OSError:
        return None
    return _job(content.split(b"\0"))


def prepared_job(number: str, root: Path, mapping: str = "") -> Job | None:
    """Returns the job ``number`` as the prolog describes it; None if there is no file about it.

    ``root`` is the host's. ``mapping`` is the folder with the jobs of each GPU, '' for the default. Files of
    other users than root are ignored.
    """
    if not number.isdecimal():
        return None
    content = _of_root(inside(root, f"{JOBS}/{number}"))
    found = _job(content.split(b"\n")) if content is not None else None
    if found is not None and found.id != number:
        found = None
    if found is None or GPUS not in dict(found.labels):
        gpus = ",".join(_given(number, inside(root, mapping.lstrip("/") or MAPPING)))
        if gpus:
            before = found or Job(number)
            found = Job(number, labels=bounded((*before.labels, (GPUS, gpus))), uid=before.uid)
    return found


def _given(number: str, folder: Path) -> list[str]:
    """Returns the GPUs that were given to a job, in order."""
    try:
        names = [name for name in os.listdir(folder) if _GPU.fullmatch(name)]
    except OSError:
        return []
    names.sort(key=lambda name: [int(part) for part in name.split(".")])
    return [
        name for name in names[:_MOST_GPUS] if number.encode() in (_of_root(folder / name) or b"").split()
    ]


def _of_root(path: Path) -> bytes | None:
    """Returns the content of a file that belongs to root, or to the user of this process; None for any
    other."""
    try:
        if os.stat(path, follow_symlinks=False).st_uid not in (0, _OWN_UID):
            return None
    except OSError:
        return None
    return read_regular(path, _MOST_FILE_BYTES)


def _job(entries: Iterable[bytes]) -> Job | None:
    found = dict[str, str]()
    for entry in entries:
        if entry.startswith(b"SLURM_"):
            name, _, value = entry.partition(b"=")
            found[clean(name)] = clean(value)
    job, step = found.get("SLURM_JOB_ID", ""), found.get("SLURM_STEP_ID", "")
    if not job.isdecimal():
        return None
    named = [(label, found[name]) for name, label in LABELS.items() if found.get(name)]
    return Job(job, step if step.isdecimal() else "", bounded(named), found.get("SLURM_JOB_UID", ""))


def may_hold_jobs(unit: str) -> bool:
    """Returns whether processes of several jobs may run in this systemd unit."""
    return unit in _UNITS
