"""Lists all rules. The rule `waits` finds the causes in ``host.waits.HOST_CAUSES``. The rule `gpu_causes`
finds the causes that ``gpu.causes`` lists, except hung calls and host-bound programs, which have rules of
their own here."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.gpu.causes import gpu_causes
from stalltop.diagnosis.gpu.hung_calls import hung_call
from stalltop.diagnosis.gpu.own_work import host_bound
from stalltop.diagnosis.host import events
from stalltop.diagnosis.host.waits import waits
from stalltop.diagnosis.suspicion import Rule

RULES: Final[tuple[Rule, ...]] = (
    waits,
    events.oom_kill,
    hung_call,
    events.tracer,
    gpu_causes,
    host_bound,
)
