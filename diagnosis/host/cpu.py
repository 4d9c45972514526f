"""Describes causes of waits for a CPU: threads of other tenants, the tenant's own threads, a quota, a CPU set
that is too small, and stalltop itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stalltop.diagnosis.attribution.losses import Loss
from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.evidence.processors import cpuset_of, has_idle_cpu, idle_elsewhere
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.host.steps import blamed
from stalltop.diagnosis.links import Who, link_of
from stalltop.diagnosis.wording import commands
from stalltop.diagnosis.wording.culprits import ENDED, OUTSIDE, members, named, ranked
from stalltop.diagnosis.wording.figures import duration, figure
from stalltop.diagnosis.wording.fixes import keep_all_off
from stalltop.model.actions.cpu_places import reserved
from stalltop.model.actions.placeholders import limit_values
from stalltop.model.chain import Fix, Link
from stalltop.model.cpu_list import cpus_of, list_of
from stalltop.model.telling import Telling
from stalltop.model.text.words import numbered

KNOWN: Final = 0.95
"""If less than this part of a loss has a culprit, the chain says that it is not known who had the CPU for the
rest of the time."""
LEAST_QUOTA: Final = 0.5
"""Least quota that a fix proposes, CPUs. A smaller quota would stop the tenant most of the time."""
SHORT_LIVED_PER_S: Final = 1.0
"""If at least this many processes of a tenant end per second, a command for one process soon finds none."""
GOOD_SHARE: Final = 0.15
"""The first culprit always gets a fix. Any other culprit gets a fix only if it took at least this part of the
loss."""
STOLEN_PERCENT: Final = 10.0
"""If the hypervisor takes at least this much of the CPUs' time, waits for a CPU are also its fault."""
MOST_PIDS: Final = 5
"""Maximum number of further process ids that a fix names, besides the one in its command."""


def contention(facts: Facts, loss: Loss) -> Description:
    """Describes waits for CPUs that threads of other tenants had."""
    culprits = ranked(loss.culprits, loss.ns, loss.first)
    holder = f"{facts.name(culprits[0][0].tenant)} holds" if culprits else "others hold"
    told = [(who, ns) for who, ns in culprits if who.tenant and who.tenant != ENDED]
    large = [who for place, (who, ns) in enumerate(told) if place == 0 or ns >= GOOD_SHARE * loss.ns]
    fixes = _keep_off_victim(facts, loss, large)
    for who, _ in told[:1]:
        room = has_idle_cpu(facts, who.tenant, reserved(facts.window, loss.last.pid))
        quota = _limited(facts, loss, who)
        if quota is not None:
            # A process that is moved to a busy CPU takes the time of somebody else there.
            first = quota.command and not (room and _lives(facts, who))
            fixes.insert(0 if first else len(fixes), quota)
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for CPUs that {holder}",
        links=(*blamed(facts, loss, "has the CPU", culprits, len(loss.path) + 2), *_stolen(facts, loss)),
        fixes=tuple(fixes) or (Fix("see which processes run", "top -H", look=True),),
        confidence=_explained(loss),
        unknown=() if _explained(loss) >= KNOWN else ("who had the CPU for the rest of the time",),
    )


def _limited(facts: Facts, loss: Loss, culprit: Who) -> Fix | None:
    """Returns a fix that limits the tenant of ``culprit`` to about half of the CPUs that it uses; None if the
    quota would be below ``LEAST_QUOTA``, or if the tenant is no cgroup of its own."""
    tenant = culprit.tenant
    used = facts.held_use(tenant, "cpus", facts.used_cpus(tenant))
    quota = used / 2
    if quota < LEAST_QUOTA or tenant.startswith(OUTSIDE):
        return None
    taken = sum(ns for who, ns in loss.culprits.items() if who.tenant == tenant)
    name, limit = facts.name(tenant), limit_values(quota)["limit"]
    gain = duration(facts.per_second(taken) / 2)
    command = commands.limit_cpus(facts, tenant, quota)
    victim = facts.name(loss.victim.tenant)
    return Fix(
        f"limit {name} to {limit} CPUs, about half of what it uses: {victim} gains up to {gain} of "
        f"each second, {name} takes longer{commands.needs(command)}",
        command,
        short=f"about half of the {figure(used)} it uses at present",
    )


def _lives(facts: Facts, culprit: Who) -> bool:
    """Returns whether ``culprit`` is a process that will still run when somebody types its PID."""
    use = facts.use(culprit.tenant)
    exits = use.exits / facts.seconds if use is not None else 0.0
    return bool(culprit.pid) and exits < SHORT_LIVED_PER_S


def _keep_off_victim(facts: Facts, loss: Loss, culprits: Sequence[Who]) -> list[Fix]:
    """Returns fixes that keep ``culprits`` away from the CPUs of the victim and from each other. If a culprit
    stands for many processes that no single command moves, its fix moves the process that took most."""
    moved: dict[Who, Who] = {}
    whole = {who.tenant for who in culprits if not who.pid and commands.set_cpus(facts, who.tenant, "0")}
    for place, culprit in enumerate(culprits):
        movable = culprit.pid or culprit.tenant in whole
        target = culprit if movable else next(iter(members(loss.culprits, culprit)), culprit)
        # A command that moves a whole tenant moves each of its processes.
        alone = not target.pid or target.tenant not in whole
        if place == 0 or (alone and (movable or target.pid)):
            moved[culprit] = target
    fixes: list[Fix] = []
    kept = keep_all_off(facts, loss.last.pid, list(moved.values()))
    for (culprit, target), fix in zip(moved.items(), kept, strict=True):
        if target is not culprit:
            others = members(loss.culprits, culprit)[1:]
            pids = ", ".join(str(who.pid) for who in others[:MOST_PIDS])
            rest = ", …" if len(others) > MOST_PIDS else ""
            then = f", then {pids}{rest}" if pids else ""
            fix = Fix(f"{fix.text}: pid {target.pid}, which took most{then}", fix.command)
        # Two processes of one container may get the same command, for the container.
        if not fix.command or all(fix.command != other.command for other in fixes):
            fixes.append(fix)
    return fixes


def own_threads(facts: Facts, loss: Loss) -> Description:
    """Describes waits for CPUs that the tenant's own threads had."""
    culprits = ranked(loss.culprits, loss.ns, loss.first)
    victim = facts.process(loss.last.pid)
    system = facts.window.system
    cpus = (victim.allowed_cpus if victim is not None else 0) or (system.cpus if system is not None else 0)
    threads = max((use.threads for who, _ in culprits if (use := facts.process(who.pid))), default=0)
    tenant = facts.use(loss.last.tenant)
    quota = tenant.cpu_quota if tenant is not None else None
    factors = []
    if threads and cpus:
        factors.append(_factor(loss, f"{numbered(threads, 'thread')} may run on {numbered(cpus, 'CPU')}"))
    if quota:
        factors.append(_factor(loss, f"its quota is {round(quota, 2):g} CPUs"))
    factors += _stolen(facts, loss)
    own = facts.name(loss.victim.tenant)
    most = min(float(cpus), quota) if quota else float(cpus)
    each = max(int(most), 1)
    return Description(
        summary=f"{own} waits for CPUs that its own threads hold",
        links=(*blamed(facts, loss, "has the CPU", culprits, len(loss.path) + 2), *factors),
        fixes=(
            Fix(
                f"run fewer computing threads in {own}: it may use {most:.2g} CPUs with all its processes; "
                f"start it with OMP_NUM_THREADS={each} MKL_NUM_THREADS={each} or less",
                short=f"start it with OMP_NUM_THREADS={each} or less",
            ),
            Fix("start fewer worker processes than there are CPUs: DataLoader(num_workers=…), n_jobs=…"),
        ),
        confidence=_explained(loss),
    )


def throttling(facts: Facts, loss: Loss) -> Description:
    """Describes waits in which a CPU quota stopped the threads."""
    who = loss.last
    use = facts.use(who.tenant)
    quota = use.cpu_quota if use is not None else None
    cgroup = use.quota_cgroup if use is not None else ""
    used = facts.used_cpus(who.tenant)
    stopped = use.throttled_ns / facts.seconds / 1e9 if use is not None else 0.0
    # The tenant needs its quota, and what it would have used while it was stopped. The stopped time is summed
    # over CPUs. It is a lower bound, because several threads of the tenant may have waited for one CPU.
    needed = (quota or used) + max(stopped, 0.25)
    cpus = facts.window.system.cpus if facts.window.system is not None else 0
    fewer = Fix("or run fewer threads: OMP_NUM_THREADS, num_workers")
    raised = f"raise the CPU limit of {facts.name(who.tenant)}{commands.quota_file(use)}"
    if cpus and needed >= cpus:
        needed = float(cpus)
        text = f"{raised} to the {cpus} CPUs that the host has, or lift it"
    else:
        text = f"{raised} to {limit_values(needed)['limit']} CPUs or more"
    command = commands.limit_cpus(facts, who.tenant, needed, now_by=cgroup)
    share = use.throttled_periods / use.periods if use is not None and use.periods else None
    of = f" of {round(quota, 2):g} CPUs" if quota else ""
    where = f" of cgroup {cgroup}" if cgroup else ""
    culprit = Link(
        "culprit",
        f"the CPU quota{of}{where} is used up"
        + (f" in {share:.0%} of its periods" if share is not None else ""),
        share=1.0,
        ns_per_s=facts.per_second(loss.ns),
        tenant=who.tenant,
        depth=len(loss.path) + 2,
    )
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} is stopped by its CPU quota{of}",
        links=(culprit,),
        fixes=(
            Fix(text + commands.needs(command), command, short="raise its CPU quota"),
            fewer,
        ),
        confidence=0.95,
    )


def pinning(facts: Facts, loss: Loss) -> Description:
    """Describes a process whose CPUs are busy while CPUs that it may not use are idle."""
    who = loss.last
    process = facts.process(who.pid)
    idle = idle_elsewhere(facts, who.pid)
    allowed = process.allowed if process is not None else ""
    culprits = ranked(loss.culprits, loss.ns, loss.first)
    reason = link_of(
        who,
        "reason",
        f"{who.process} may run on CPUs {allowed} only; CPUs {list_of(idle)} are idle",
        depth=len(loss.path) + 2,
    )
    return Description(
        summary=f"{named(facts, who)} is pinned to CPUs {allowed} while others are idle",
        links=(reason, *blamed(facts, loss, "runs on the same CPUs", culprits, len(loss.path) + 3)),
        fixes=_more_cpus(facts, who, cpus_of(allowed), idle),
        confidence=_explained(loss),
    )


def _more_cpus(facts: Facts, who: Who, allowed: frozenset[int], idle: frozenset[int]) -> tuple[Fix, ...]:
    """Returns fixes that let a process use idle CPUs. If its cgroup may use these CPUs, the fix moves the
    process. If the cgroup may use none of them, the fix widens its CPU set. If it may use some of them, or
    its CPU set is not known, both fixes are returned."""
    name, cpuset = facts.name(who.tenant), cpuset_of(facts, who.tenant)
    all_of_them = list_of(idle | allowed)
    tenant = facts.window.tenants.get(who.tenant)
    path = f" {tenant.cgroup_path}" if tenant is not None and tenant.cgroup_path else ""
    wider = Fix(
        f"widen the CPU set of {name} (cpuset.cpus of cgroup{path}) to {all_of_them}",
        commands.set_cpus(facts, who.tenant, all_of_them),
        short=f"widen its CPU set to {all_of_them}",
    )
    if cpuset and not cpuset & idle:
        return (wider,)
    within = list_of((idle & cpuset if cpuset else idle) | allowed)
    own = Fix(f"let {who.process} run on CPUs {within}", commands.move_to_cpus(who.pid, within))
    # A CPU set that is not known may be what limits the process. Then moving the process alone fails.
    return (own,) if cpuset >= idle else (own, wider)


def tracer(facts: Facts, loss: Loss) -> Description:
    """Describes waits for CPUs that stalltop had."""
    culprits = ranked(loss.culprits, loss.ns, loss.first)
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for a CPU that stalltop holds",
        links=tuple(blamed(facts, loss, "has the CPU", culprits, len(loss.path) + 2)),
        fixes=(Fix("start stalltop with --interval 5 or --budget 1%"),),
        confidence=_explained(loss),
    )


def _stolen(facts: Facts, loss: Loss) -> list[Link]:
    """Returns a link of role ``factor`` if this is a virtual machine whose CPUs do much for others."""
    stolen = facts.window.system.cpu_steal_percent if facts.window.system is not None else 0.0
    if stolen < STOLEN_PERCENT:
        return []
    return [_factor(loss, f"the hypervisor takes {stolen:.0f}% of this machine's CPU time (steal)")]


def _factor(loss: Loss, text: str) -> Link:
    return Link("factor", text, tenant=loss.victim.tenant, depth=1)


def _explained(loss: Loss) -> float:
    """Returns the part of the loss that has a culprit, 0 to 1."""
    return min(sum(loss.culprits.values()) / loss.ns, 1.0) if loss.ns else 0.0


CAUSES: Final = (
    HostCause(
        Cause(
            "cpu_contention",
            "CPU taken by another tenant",
            "threads wait for a CPU that others hold",
            Telling("takes its CPU", "waits for CPUs that others hold", parts=("runqueue",)),
        ),
        contention,
    ),
    HostCause(
        Cause(
            "own_threads",
            "Too many threads of its own",
            "threads wait for a CPU that the tenant's own threads hold",
            Telling(
                "has too many threads for its CPUs", "has too many threads for its CPUs", parts=("runqueue",)
            ),
        ),
        own_threads,
    ),
    HostCause(
        Cause(
            "cfs_throttling",
            "Throttled by its CPU quota",
            "the CPU quota of its cgroup stops all its threads",
            Telling("uses up its CPU quota", "is stopped by its CPU quota", parts=("runqueue",)),
        ),
        throttling,
        certain=True,
    ),
    HostCause(
        Cause(
            "cpu_pinning",
            "Pinned to too few CPUs",
            "threads wait for their CPUs while others are idle",
            Telling(
                "runs on them, too",
                "is pinned to busy CPUs while others are idle",
                state="is pinned to busy CPUs",
                parts=("runqueue",),
            ),
        ),
        pinning,
        certain=True,
    ),
    HostCause(
        Cause(
            "tracer",
            "stalltop is using this tenant's CPU",
            "tracing takes a noticeable part of the time",
            Telling("costs it time by tracing", "loses time because stalltop traces it"),
        ),
        tracer,
        certain=True,
    ),
)
