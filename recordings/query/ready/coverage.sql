-- hosts, periods of time, and what was traced in them
SELECT host, datetime(MIN(window_start), 'unixepoch') AS first_utc,
       datetime(MAX(window_start + window_seconds), 'unixepoch') AS last_utc, COUNT(*) AS windows,
       SUM(window_seconds) AS seconds, MAX(simulated) AS simulated, MAX(attached) AS most_probes,
       MAX(traced_processes) AS most_processes, AVG(cost_percent) AS mean_cost_percent, MAX(tracing) AS tracing
FROM windows GROUP BY host;
