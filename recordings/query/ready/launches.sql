-- launches of each CUDA kernel, and the time in the launching calls
SELECT container_id, kernel_name, COUNT(*) AS launches, SUM(duration_ns) / 1e6 AS total_ms,
       AVG(duration_ns) / 1e3 AS mean_us, MAX(duration_ns) / 1e3 AS max_us
FROM cuda_events e JOIN containers c ON c.cgroup_id = e.cgroup_id
WHERE kernel_name IS NOT NULL
GROUP BY container_id, kernel_name ORDER BY launches DESC LIMIT 40;
