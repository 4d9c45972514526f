-- the slowest calls that were kept one by one, with arguments
SELECT strftime('%Y-%m-%d %H:%M:%f', start_ns / 1e9, 'unixepoch') AS began_utc, container_id, pid, tid, op,
       duration_ns / 1e6 AS ms, arguments
FROM kept_calls k JOIN containers c ON c.cgroup_id = k.cgroup_id
ORDER BY duration_ns DESC LIMIT 20;
