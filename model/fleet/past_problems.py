"""The problems that hosts had in the past, from what they told when problems opened, changed and closed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from stalltop.model.chain import Chain, Fix, Link
from stalltop.model.fleet.host_summary import HostAddress, ProblemSummary
from stalltop.model.fleet.problem_changes import ProblemChange
from stalltop.model.fleet.rolling import rolled_tenant
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window


class PastProblems:
    """Problems by host, one moment after the other."""

    def __init__(self, changes: Iterable[tuple[HostAddress, ProblemChange]]) -> None:
        self._left = sorted(changes, key=lambda one: -one[1].at)
        """Changes that are still to come, the next one last."""
        self._open: dict[tuple[HostAddress, str], Chain] = {}

    def upto(self, window: Window) -> Window:
        """Returns ``window`` with the problems that were open in it, or closed. Windows come in order of
        time."""
        ended: list[Chain] = []
        while self._left and self._left[-1][1].at < window.end:
            address, change = self._left.pop()
            key = address, change.problem.id
            if change.change == "closed":
                if (before := self._open.pop(key, None)) is not None and change.at >= window.start:
                    ended.append(replace(before, seen=change.at, open=False))
            else:
                self._open[key] = chain_of(address, change.problem)
        chains = (*(replace(one, seen=window.end) for one in self._open.values()), *ended)
        tenants = {**_tenants(chains), **window.tenants}
        return replace(window, chains=chains, tenants=tenants)


def _tenants(chains: Sequence[Chain]) -> dict[str, Tenant]:
    found = {}
    for chain in chains:
        for key in (chain.tenant, *(link.tenant for link in chain.culprits)):
            namespace, _, name = key.rpartition("/")
            found[key] = Tenant(key, name, namespace=namespace)
    found.pop("", None)
    return found


def chain_of(address: HostAddress, problem: ProblemSummary) -> Chain:
    """Returns a problem of a host as a problem of the fleet."""
    victim = _tenant(problem.namespace, problem.victim)
    lost = problem.lost_ms_per_s * 1e6 or None
    links = [Link("effect", problem.operation or problem.title, ns_per_s=lost, tenant=victim, depth=0)]
    if problem.line:
        links.append(Link("line", f"in {problem.line}", tenant=victim))
    if problem.culprit:
        culprit = _tenant(problem.culprit_namespace, problem.culprit) if problem.culprit_namespace else ""
        process = "" if culprit else problem.culprit
        links.append(Link("culprit", problem.title, tenant=culprit, process=process, device=problem.device))
    return Chain(
        id=f"{address.text}/{problem.id}",
        cause=problem.cause,
        title=problem.title,
        severity=problem.severity,
        summary=f"{address.text}: {problem.summary or problem.title}",
        tenant=victim,
        pid=0,
        process=problem.process,
        layer="",
        operation=problem.operation,
        lost_ms_per_s=problem.lost_ms_per_s,
        confidence=problem.confidence,
        links=tuple(links),
        fixes=(Fix(problem.fix),) if problem.fix else (),
        unknown=(f"the recording of {address.text} has all that is known about it",),
        since=problem.since,
    )


def _tenant(namespace: str, name: str) -> str:
    return rolled_tenant(Tenant("", name, namespace=namespace)) if name else ""
