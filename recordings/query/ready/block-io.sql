-- requests to block devices: who, how much, how long they took
SELECT ifnull(container_id, 'the host') AS container, process, device, CASE write WHEN 1 THEN 'write' ELSE 'read' END AS way,
       SUM(requests) AS requests, SUM(bytes) / 1e6 AS mb, SUM(queued_ns) / 1e6 AS queued_ms,
       SUM(service_ns) / 1e6 AS service_ms, MAX(max_ns) / 1e6 AS max_ms
FROM block_io b LEFT JOIN containers c ON c.cgroup_id = b.cgroup_id
GROUP BY container, process, device, write ORDER BY SUM(queued_ns + service_ns) DESC LIMIT 40;
