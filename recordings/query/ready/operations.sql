-- each operation of each container, most time first
SELECT c.container_id, op, SUM(calls) AS calls, SUM(errors) AS errors,
       round(SUM(total_ns) / 1e6, 3) AS total_ms,
       round(p(hmerge(histogram), 50, MAX(max_ns)) / 1e6, 3) AS p50_ms,
       round(p(hmerge(histogram), 99, MAX(max_ns)) / 1e6, 3) AS p99_ms,
       round(MAX(max_ns) / 1e6, 3) AS max_ms
FROM operations o JOIN containers c ON c.cgroup_id = o.cgroup_id
WHERE NOT nested AND layer <> 'host'
GROUP BY c.container_id, op ORDER BY SUM(total_ns) DESC LIMIT 40;
