-- time between calls, in which a thread gives a GPU no work
SELECT container_id, process, COUNT(*) AS gaps, SUM(duration_ns) / 1e9 AS total_s, AVG(duration_ns) / 1e6 AS mean_ms,
       MAX(duration_ns) / 1e6 AS max_ms
FROM host_events e JOIN containers c ON c.cgroup_id = e.cgroup_id
WHERE op = 'host gap' GROUP BY container_id, process ORDER BY total_s DESC LIMIT 40;
