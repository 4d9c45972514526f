-- where the time of calls and of the gaps between them went, in %
SELECT container_id, CASE layer WHEN 'host' THEN op ELSE 'calls' END AS what,
       round(SUM(total_ns) / 1e6, 1) AS total_ms,
       round(100.0 * SUM(running_ns) / SUM(total_ns), 1) AS running,
       round(100.0 * SUM(runqueue_ns) / SUM(total_ns), 1) AS runqueue,
       round(100.0 * SUM(disk_ns) / SUM(total_ns), 1) AS disk,
       round(100.0 * SUM(memory_ns) / SUM(total_ns), 1) AS memory,
       round(100.0 * SUM(lock_ns) / SUM(total_ns), 1) AS lock,
       round(100.0 * SUM(gpu_ns) / SUM(total_ns), 1) AS gpu,
       round(100.0 * SUM(network_ns) / SUM(total_ns), 1) AS network,
       round(100.0 * SUM(process_ns + sleep_ns + other_ns) / SUM(total_ns), 1) AS others
FROM operations o JOIN containers c ON c.cgroup_id = o.cgroup_id
WHERE NOT nested GROUP BY container_id, what ORDER BY total_ms DESC;
