-- calls of NCCL: how many, how long on average and at most
SELECT container_id, op, COUNT(*) AS calls, AVG(duration_ns)/1e6 AS avg_ms, MAX(duration_ns)/1e6 AS p100_ms
FROM nccl_events e JOIN containers c ON c.cgroup_id = e.cgroup_id
GROUP BY container_id, op;
