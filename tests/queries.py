"""SQL queries whose answers several suites check."""

from __future__ import annotations

LAUNCHES = """
SELECT container_id, kernel_name, COUNT(*) AS launches, SUM(duration_ns)/1e6 AS total_ms
FROM cuda_events e JOIN containers c ON c.cgroup_id = e.cgroup_id
GROUP BY container_id, kernel_name ORDER BY total_ms DESC LIMIT 20;
"""
NCCL = """
SELECT container_id, op, COUNT(*) AS calls, AVG(duration_ns)/1e6 AS avg_ms, MAX(duration_ns)/1e6 AS p100_ms
FROM nccl_events e JOIN containers c ON c.cgroup_id = e.cgroup_id
GROUP BY container_id, op;
"""
