-- what was wrong, by its total loss, with its worst severity
SELECT CASE MIN(CASE severity WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'medium' THEN 2 WHEN 'low' THEN 3 ELSE 4 END)
       WHEN 0 THEN 'critical' WHEN 1 THEN 'high' WHEN 2 THEN 'medium' WHEN 3 THEN 'low' ELSE 'info' END AS severity,
       title, ifnull(container_id, 'the host') AS container, op, SUM(lost_ms) / 1e3 AS lost_s,
       SUM(window_seconds) AS for_s, datetime(MIN(since), 'unixepoch') AS first_utc,
       datetime(MAX(seen), 'unixepoch') AS last_utc
FROM chains k JOIN windows w USING (window_id) LEFT JOIN containers c ON c.cgroup_id = k.cgroup_id
WHERE open GROUP BY chain_id ORDER BY lost_s DESC, for_s DESC LIMIT 40;
