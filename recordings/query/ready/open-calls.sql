-- calls that had not returned when the last window ended
SELECT container_id, pid, tid, op, age_ns / 1e9 AS age_s, CASE ended WHEN 1 THEN 'its thread ended' ELSE 'open' END AS state
FROM open_calls o JOIN containers c ON c.cgroup_id = o.cgroup_id
WHERE window_id IN (SELECT window_id FROM (SELECT window_id, MAX(window_start) FROM windows GROUP BY host))
ORDER BY age_ns DESC LIMIT 40;
