"""Reads the name and labels of a Slurm job from the environment of its processes.

If Slurm made a cgroup for the job, the ids of job and step come from that cgroup, because only Slurm makes
such cgroups. Processes control their own environment: its values are shown, but never replace those of a
cgroup.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stalltop.model.text.clean import clean
from stalltop.probes.tenants.labels import Labels, bounded

MOST_BYTES: Final = 1 << 18
"""Maximum number of bytes that are read of an environment."""
LABELS: Final = {
    "SLURM_JOB_NAME": "job",
    "SLURM_JOB_PARTITION": "partition",
    "SLURM_JOB_ACCOUNT": "account",
    "SLURM_ARRAY_TASK_ID": "array task",
}
"""Environment variables, and their names as labels."""
_UNITS: Final = ("slurmd.service", "slurmstepd.scope")
"""Systemd units in which jobs run if Slurm makes no cgroups for them (without
``ProctrackType=proctrack/cgroup``)."""


@dataclass(frozen=True, slots=True)
class Job:
    """The Slurm job of a process, as its environment describes it."""

    id: str
    step: str = ""
    labels: Labels = ()

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
    found = dict[str, str]()
    for entry in content.split(b"\0"):
        if entry.startswith(b"SLURM_"):
            name, _, value = entry.partition(b"=")
            found[clean(name)] = clean(value)
    job, step = found.get("SLURM_JOB_ID", ""), found.get("SLURM_STEP_ID", "")
    if not job.isdecimal():
        return None
    named = [(label, found[name]) for name, label in LABELS.items() if found.get(name)]
    return Job(job, step if step.isdecimal() else "", bounded(named))


def may_hold_jobs(unit: str) -> bool:
    """Returns whether processes of several jobs may run in this systemd unit."""
    return unit in _UNITS
