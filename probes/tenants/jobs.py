"""What a Slurm job is called, as its processes' environment says.

The ids of job and step are those of the cgroup wherever there is one, since only Slurm makes cgroups. The
environment is the processes' own: what it says is shown, and nothing is credited by it that a cgroup tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stalltop.model.text.clean import clean
from stalltop.probes.tenants.labels import Labels, bounded

MOST_BYTES: Final = 1 << 18
"""How much of an environment is read."""
LABELS: Final = {
    "SLURM_JOB_NAME": "job",
    "SLURM_JOB_PARTITION": "partition",
    "SLURM_JOB_ACCOUNT": "account",
    "SLURM_ARRAY_TASK_ID": "array task",
}
"""Variables, and what they are called as labels."""
_UNITS: Final = ("slurmd.service", "slurmstepd.scope")
"""Where jobs run while Slurm makes no cgroups for them (without ``ProctrackType=proctrack/cgroup``)."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one process says of its job."""

    id: str
    step: str = ""
    labels: Labels = ()

    @property
    def name(self) -> str:
        """As its user called it."""
        return dict(self.labels).get("job", "")


def job_of(pid: int, root: Path = Path("/")) -> Job | None:
    """The job of a process; None where it says nothing of one. May wait for the process: call it aside."""
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
    """Whether processes of several jobs may run in this systemd unit."""
    return unit in _UNITS
