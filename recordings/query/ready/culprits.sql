-- who lost time off the CPU because of whom, most first
SELECT v.container_id AS victim, k.op AS lost_in, k.waited_for, ifnull(c.container_id, 'the host') AS culprit,
       k.culprit_process, SUM(k.stolen_ns) / 1e6 AS stolen_ms, SUM(k.times) AS times
FROM culprits k JOIN containers v ON v.cgroup_id = k.cgroup_id
LEFT JOIN containers c ON c.cgroup_id = k.culprit_cgroup_id
GROUP BY victim, lost_in, waited_for, culprit, culprit_process ORDER BY stolen_ms DESC LIMIT 40;
