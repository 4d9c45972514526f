"""Finds CUDA graphs that do not pay off: they are captured again and again, or never launched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.links import link_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import Usage
from stalltop.diagnosis.wording.figures import duration, figure
from stalltop.model.chain import Fix
from stalltop.model.families import Family
from stalltop.model.telling import Telling

CAUSES: Final = (
    Cause(
        "graph_recapture",
        "CUDA graphs recaptured",
        "capturing costs what the graph should save",
        Telling("captures CUDA graphs again and again", "captures CUDA graphs again and again"),
    ),
    Cause(
        "graph_unlaunched",
        "CUDA graphs never launched",
        "graphs are captured and never used",
        Telling("never launches its CUDA graphs", "never launches its CUDA graphs"),
    ),
)

MADE_PER_S: Final = 0.5
"""Least number of graphs made per second that is reported. Some programs capture one graph for each shape,
but only while they start."""
LAUNCHES_PER_GRAPH: Final = 5.0
"""A graph pays off if it is launched more often than this, because making it takes as long as launching its
CUDA kernels several times."""


def graph_recapture(usage: Usage) -> Iterator[Suspicion]:
    """Yields processes that capture graphs anew in their loop and launch each graph only a few times."""
    made, launched = usage.of(Family.GRAPH_INSTANTIATE), usage.of(Family.GRAPH_LAUNCH)
    if made.calls < 2 or usage.per_second(made.calls) < MADE_PER_S or not launched.calls:
        return
    if launched.calls > LAUNCHES_PER_GRAPH * made.calls:
        return
    hit = usage.of(Family.GRAPH_INSTANTIATE, Family.GRAPH_CAPTURE)
    if not usage.noticeable(hit.total_ns):
        return
    yield usage.suspect(
        "graph_recapture",
        f"{usage.who} makes CUDA graphs anew instead of launching those it has",
        hit.total_ns,
        confidence=0.9,
        links=(
            usage.step(
                f"{figure(usage.per_second(made.calls))} graphs made per second, {duration(made.mean_ns)} "
                f"each, {figure(launched.calls / made.calls)} launches of each",
                hit,
                hit.total_ns,
            ),
            usage.own(f"{usage.process} captures in its loop", share=1.0, ns=hit.total_ns),
        ),
        fixes=(
            Fix(
                f"capture once in {usage.process} and launch the same graph again: keep shapes and "
                "addresses the same (static input buffers, padding to a few sizes)",
                short="capture once, launch the same graph again",
            ),
            Fix(
                "if only parameters change: cudaGraphExecUpdate or cudaGraphExecKernelNodeSetParams; for "
                "torch.compile TORCH_LOGS=recompiles,cudagraphs tells why it captures again"
            ),
        ),
        hit=hit,
        unknown=("how long captures take: the time between their begin and their end is not counted",),
    )


UNLAUNCHED_SECONDS: Final = 60.0
"""Graphs count as never launched if none was launched this many seconds after the first one was made. Servers
capture all their graphs at start, for some tens of seconds, before they launch the first one."""
WORKING_PER_S: Final = 2.0
"""Least number of CUDA kernels that the program launches per second one by one. A program with fewer launches
is hardly at work."""


def graph_unlaunched(usage: Usage) -> Iterator[Suspicion]:
    """Yields processes that made graphs, but launch CUDA kernels one by one and none of the graphs."""
    facts = usage.facts
    made = facts.trend("graphs_made", usage.tenant, usage.pid)
    launched = facts.trend("graphs_launched", usage.tenant, usage.pid)
    here = usage.of(Family.GRAPH_INSTANTIATE)
    count = made[-1][1] if made else here.calls
    seconds = made[-1][0] - made[0][0] if made else facts.seconds
    if not count or seconds < UNLAUNCHED_SECONDS:
        return
    if usage.of(Family.GRAPH_LAUNCH).calls or (launched and launched[-1][1]):
        return
    if usage.per_second(usage.launched.calls) < WORKING_PER_S:
        return
    hit = usage.of(Family.GRAPH_INSTANTIATE, Family.GRAPH_CAPTURE)
    yield usage.suspect(
        "graph_unlaunched",
        f"{usage.who} made CUDA graphs and launches its kernels one by one",
        hit.total_ns,
        confidence=0.8,
        links=(
            link_of(
                usage,
                "mechanism",
                f"{figure(count)} graphs made, none launched for {duration(seconds * 1e9)}; "
                f"{figure(usage.per_second(usage.launched.calls))} kernels launched per second",
            ),
            usage.own(f"{usage.process} does not use its graphs"),
        ),
        fixes=(
            Fix(
                f"see why {usage.process} does not launch them: sizes that no captured graph fits (vLLM "
                "--cuda-graph-sizes, padding of batches), or a switch to eager mode",
                short="pad batches to the sizes of the captured graphs",
            ),
            Fix("if graphs are not wanted, do not capture them: each graph holds device memory"),
        ),
        hit=hit if hit.calls else usage.launched,
        unknown=("whether graphs were made before tracing began",),
    )


PROCESS_RULES: Final = (graph_recapture, graph_unlaunched)
