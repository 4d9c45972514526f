-- calls and time by container and CUDA kernel; NULL: no launch
SELECT container_id, kernel_name, COUNT(*) AS launches, SUM(duration_ns)/1e6 AS total_ms
FROM cuda_events e JOIN containers c ON c.cgroup_id = e.cgroup_id
GROUP BY container_id, kernel_name ORDER BY total_ms DESC LIMIT 20;
