-- ranks of NCCL communicators: who is late, who is behind
SELECT communicator, rank, container_id, pid, SUM(collectives) AS collectives,
       round(100.0 * SUM(last) / SUM(joined), 1) AS last_percent,
       SUM(late_ns) / 1e6 / SUM(joined) AS mean_late_ms, MAX(behind) AS most_behind
FROM ranks r JOIN containers c ON c.cgroup_id = r.cgroup_id
GROUP BY communicator, rank, container_id, pid ORDER BY mean_late_ms DESC LIMIT 40;
