-- operations that returned errors, most first
SELECT container_id, process, op, SUM(errors) AS errors, SUM(calls) AS calls,
       round(100.0 * SUM(errors) / SUM(calls), 3) AS percent
FROM operations o JOIN containers c ON c.cgroup_id = o.cgroup_id
WHERE errors > 0 GROUP BY container_id, process, op ORDER BY SUM(errors) DESC LIMIT 40;
