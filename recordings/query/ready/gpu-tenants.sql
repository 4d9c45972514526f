-- who called on which GPU, as far as that was measured
SELECT ifnull(device, 'not measured') AS gpu, container_id, SUM(calls) AS calls,
       SUM(CASE WHEN op LIKE '%Launch%' THEN calls ELSE 0 END) AS launches, 
       SUM(CASE WHEN op LIKE '%Memcpy%' THEN bytes ELSE 0 END) / 1e6 AS copied_mb,
       SUM(total_ns) / 1e9 AS total_s, SUM(gpu_ns) / 1e9 AS waited_s, SUM(errors) AS errors, c.host
FROM operations o JOIN containers c ON c.cgroup_id = o.cgroup_id
WHERE NOT nested AND layer <> 'host'
GROUP BY device, container_id ORDER BY device, total_s DESC LIMIT 100;
