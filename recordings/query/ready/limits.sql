-- what containers used of the host, and what limits denied them
SELECT container_id, SUM(cpu_ns) / 1e9 AS cpu_s, SUM(throttled_ns) / 1e9 AS throttled_s,
       SUM(reclaim_ns) / 1e6 AS reclaim_ms, SUM(oom_kills) AS oom_kills, SUM(limit_hits) AS limit_hits,
       MAX(memory_used_bytes) / 1048576.0 AS most_memory_mib
FROM tenant_use u JOIN containers c ON c.cgroup_id = u.cgroup_id
GROUP BY container_id ORDER BY cpu_s DESC LIMIT 40;
