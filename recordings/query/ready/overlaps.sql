-- activity of containers on a GPU, and its overlap with others
SELECT ifnull(a.device, 'not known') AS gpu, c.container_id, a.active_s, o.container_id AS beside, p.overlap_s,
       round(100 * p.overlap_s / a.active_s, 1) AS percent, c.host
FROM (SELECT device, cgroup_id, SUM(active_ns) / 1e9 AS active_s FROM activity GROUP BY device, cgroup_id) a
JOIN containers c ON c.cgroup_id = a.cgroup_id
LEFT JOIN (SELECT device, cgroup_id, other_cgroup_id, SUM(overlap_ns) / 1e9 AS overlap_s
           FROM overlaps GROUP BY device, cgroup_id, other_cgroup_id) p
       ON p.device IS a.device AND p.cgroup_id = a.cgroup_id
LEFT JOIN containers o ON o.cgroup_id = p.other_cgroup_id
ORDER BY a.device, a.active_s DESC, p.overlap_s DESC LIMIT 100;
