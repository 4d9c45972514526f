-- what was wrong, by what it cost in all
SELECT severity, title, ifnull(container_id, 'the host') AS container, op, SUM(lost_ms) / 1e3 AS lost_s,
       SUM(window_seconds) AS for_s, datetime(MIN(since), 'unixepoch') AS first_utc,
       datetime(MAX(seen), 'unixepoch') AS last_utc
FROM chains k JOIN windows w USING (window_id) LEFT JOIN containers c ON c.cgroup_id = k.cgroup_id
WHERE open GROUP BY chain_id, severity ORDER BY lost_s DESC, for_s DESC LIMIT 40;
