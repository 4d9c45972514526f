-- the slowest calls; captured ones with time and arguments
SELECT strftime('%Y-%m-%d %H:%M:%f', e.start_ns / 1e9, 'unixepoch') AS began_utc, container_id, e.pid, e.tid, e.op,
       e.duration_ns / 1e6 AS ms, CASE WHEN e.kept THEN 'kept' ELSE 'counted' END AS how, k.arguments
FROM (SELECT * FROM (SELECT window_id, cgroup_id, pid, tid, op, start_ns, duration_ns, kept FROM cuda_events
                     ORDER BY duration_ns DESC LIMIT 20)
      UNION ALL
      SELECT * FROM (SELECT window_id, cgroup_id, pid, tid, op, start_ns, duration_ns, kept FROM nccl_events
                     ORDER BY duration_ns DESC LIMIT 20)) e
JOIN containers c ON c.cgroup_id = e.cgroup_id
LEFT JOIN kept_calls k ON e.kept AND NOT k.nested AND k.window_id = e.window_id AND k.pid = e.pid AND k.tid = e.tid
      AND k.op = e.op AND k.start_ns = e.start_ns AND k.duration_ns = e.duration_ns
ORDER BY e.duration_ns DESC LIMIT 20;
