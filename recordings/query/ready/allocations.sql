-- devices that a scheduler gave to containers, and their use
SELECT a.namespace, a.pod, a.pod_container AS container, a.resource, ifnull(a.device, a.uuid) AS gpu, a.given_s,
       CASE WHEN u.active_s IS NOT NULL THEN u.active_s
            WHEN a.cgroup_id IN (SELECT cgroup_id FROM activity WHERE device IS NULL) THEN NULL
            WHEN a.cgroup_id IS NOT NULL AND EXISTS (SELECT 1 FROM activity WHERE device IS NOT NULL) THEN 0.0
       END AS active_s,
       CASE WHEN k.calls IS NOT NULL THEN k.calls WHEN a.cgroup_id IS NOT NULL AND e.calls IS NULL THEN 0
       END AS calls, e.calls AS calls_somewhere, a.host
FROM (SELECT w.host, namespace, pod, pod_uid, pod_container, resource, device, uuid,
             MAX(n.cgroup_id) AS cgroup_id, SUM(window_seconds) AS given_s
      FROM allocations n JOIN windows w USING (window_id)
      GROUP BY w.host, namespace, pod, pod_uid, pod_container, resource, device, uuid) a
LEFT JOIN (SELECT cgroup_id, device, SUM(active_ns) / 1e9 AS active_s FROM activity GROUP BY cgroup_id, device) u
       ON u.cgroup_id = a.cgroup_id AND u.device = a.device
LEFT JOIN (SELECT cgroup_id, device, SUM(calls) AS calls FROM operations WHERE NOT nested AND layer <> 'host'
           GROUP BY cgroup_id, device) k ON k.cgroup_id = a.cgroup_id AND k.device = a.device
LEFT JOIN (SELECT cgroup_id, SUM(calls) AS calls FROM operations
           WHERE device IS NULL AND NOT nested AND layer <> 'host' GROUP BY cgroup_id) e
       ON e.cgroup_id = a.cgroup_id
ORDER BY a.host, a.namespace, a.pod, container, gpu LIMIT 100;
