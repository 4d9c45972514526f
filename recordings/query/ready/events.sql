-- events at one moment: out of memory, errors of GPUs, etc.
SELECT datetime(time, 'unixepoch') AS at_utc, e.kind, container_id, process, text
FROM events e LEFT JOIN containers c ON c.cgroup_id = e.cgroup_id ORDER BY time LIMIT 200;
