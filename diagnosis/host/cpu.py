"""CPU causes: others' threads, own threads, a quota, a CPU set."""

from __future__ import annotations

from typing import Final

from diagnosis.facts import Facts
from diagnosis.host import commands
from diagnosis.host.attribution import Loss
from diagnosis.host.description import Description
from diagnosis.host.processors import cpus_of, idle_elsewhere, list_of
from diagnosis.host.wording import blamed, by_tenant, named, ranked
from model.chain import Fix, Link

KNOWN: Final = 0.8
"""Part of a loss with a culprit: less is said to be incomplete."""


def contention(facts: Facts, loss: Loss) -> Description:
    """Other tenants' threads had the CPU."""
    culprits = ranked(loss.culprits, loss.ns)
    holder = next((f"{facts.name(tenant)} holds" for tenant in by_tenant(loss.culprits)), "others hold")
    fixes: list[Fix] = []
    for who in [who for who, _ in culprits if who.pid][:1]:
        fixes.append(_other_cpus(facts, loss, who.pid, who.process, facts.name(who.tenant)))
        use = facts.use(who.tenant)
        used = use.cpu_ns / facts.seconds / 1e9 if use is not None and use.cpu_ns else 1.0
        text = f"or halve the CPU time of {facts.name(who.tenant)} by a quota"
        fixes.append(Fix(text, commands.limit_cpus(facts, who.tenant, used / 2)))
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for CPUs that {holder}",
        links=tuple(blamed(facts, loss, "has the CPU", culprits, len(loss.path) + 2)),
        fixes=tuple(fixes) or (Fix("see which processes run", "top -H"),),
        confidence=_explained(loss),
        unknown=() if _explained(loss) >= KNOWN else ("who had the CPU for the rest of the time",),
    )


def _other_cpus(facts: Facts, loss: Loss, pid: int, process: str, tenant: str) -> Fix:
    """Keep a culprit away from the CPUs of the victim."""
    system, culprit = facts.window.system, facts.process(pid)
    cpus = system.cpus if system is not None else 0
    everywhere = frozenset(range(cpus))
    victim = facts.process(loss.last.pid)
    mine = cpus_of(victim.allowed) if victim is not None else frozenset()
    theirs = everywhere - mine if mine else frozenset()
    if not theirs and cpus > 1:
        theirs = everywhere - frozenset(range((cpus + 1) // 2))
    if culprit is not None and not theirs:
        return Fix(f"lower the priority of {process} (pid {pid}) of {tenant}", f"renice -n 19 -p {pid}")
    where = list_of(theirs)
    return Fix(f"keep {process} of {tenant} on CPUs {where}", commands.move_to_cpus(pid, where))


def own_threads(facts: Facts, loss: Loss) -> Description:
    """The tenant's own threads had the CPU."""
    culprits = ranked(loss.culprits, loss.ns)
    victim = facts.process(loss.last.pid)
    system = facts.window.system
    cpus = (victim.allowed_cpus if victim is not None else 0) or (system.cpus if system is not None else 0)
    threads = max((use.threads for who, _ in culprits if (use := facts.process(who.pid))), default=0)
    tenant = facts.use(loss.victim.tenant)
    factors = []
    if threads and cpus:
        factors.append(_factor(loss, f"{threads} threads may run on {cpus} CPUs"))
    if tenant is not None and tenant.cpu_quota:
        factors.append(_factor(loss, f"its quota is {round(tenant.cpu_quota, 2):g} CPUs"))
    own = facts.name(loss.victim.tenant)
    each = max(int(cpus), 1)
    return Description(
        summary=f"{own} waits for CPUs that its own threads hold",
        links=(*blamed(facts, loss, "has the CPU", culprits, len(loss.path) + 2), *factors),
        fixes=(
            Fix(
                f"run fewer computing threads in {own}: no more than the {each} CPUs it may use",
                f"OMP_NUM_THREADS={each} MKL_NUM_THREADS={each}",
            ),
            Fix("start fewer DataLoader workers: num_workers below the number of CPUs"),
        ),
        confidence=_explained(loss),
    )


def throttling(facts: Facts, loss: Loss) -> Description:
    """A quota stopped the threads."""
    who = loss.last
    use = facts.use(who.tenant)
    quota = use.cpu_quota if use is not None else None
    cgroup = use.quota_cgroup if use is not None else ""
    used = use.cpu_ns / facts.seconds / 1e9 if use is not None else 0.0
    stopped = use.throttled_ns / facts.seconds / 1e9 if use is not None else 0.0
    # What it used, and what it could not run while it was stopped.
    needed = (quota or used) + max(stopped, 0.25)
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
            Fix(
                f"raise the CPU limit of {facts.name(who.tenant)} to {needed:.1f} CPUs or more",
                commands.limit_cpus(facts, who.tenant, needed, now_by=cgroup),
            ),
            Fix("or run fewer threads: OMP_NUM_THREADS, num_workers"),
        ),
        confidence=0.95,
    )


def pinning(facts: Facts, loss: Loss) -> Description:
    """The CPUs it may use are busy while others are idle."""
    who = loss.last
    process = facts.process(who.pid)
    idle = idle_elsewhere(facts, who.pid)
    allowed = process.allowed if process is not None else ""
    better = list_of(idle | cpus_of(allowed))
    culprits = ranked(loss.culprits, loss.ns)
    reason = Link(
        "reason",
        f"{who.process} may run on CPUs {allowed} only; CPUs {list_of(idle)} are idle",
        tenant=who.tenant,
        pid=who.pid,
        process=who.process,
        depth=len(loss.path) + 2,
    )
    return Description(
        summary=f"{named(facts, who)} is pinned to CPUs {allowed} while others are idle",
        links=(reason, *blamed(facts, loss, "runs on the same CPUs", culprits, len(loss.path) + 3)),
        fixes=(
            Fix(f"let {who.process} run on CPUs {better}", commands.move_to_cpus(who.pid, better)),
            Fix("or widen the container's CPU set (cpuset.cpus)"),
        ),
        confidence=_explained(loss),
    )


def tracer(facts: Facts, loss: Loss) -> Description:
    """This program had the CPU."""
    culprits = ranked(loss.culprits, loss.ns)
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for a CPU that stalltop holds",
        links=tuple(blamed(facts, loss, "has the CPU", culprits, len(loss.path) + 2)),
        fixes=(Fix("look less often: --interval 5"),),
        confidence=_explained(loss),
    )


def _factor(loss: Loss, text: str) -> Link:
    return Link("factor", text, tenant=loss.victim.tenant, depth=1)


def _explained(loss: Loss) -> float:
    """How much of the loss has a culprit."""
    return min(sum(loss.culprits.values()) / loss.ns, 1.0) if loss.ns else 0.0
