-- calls, time in them and errors of each minute
SELECT datetime(60 * CAST(window_start / 60 AS INTEGER), 'unixepoch') AS minute_utc, SUM(calls) AS calls,
       SUM(total_ns) / 1e9 AS total_s, SUM(errors) AS errors, MAX(max_ns) / 1e6 AS max_ms
FROM operations WHERE NOT nested AND layer <> 'host' GROUP BY minute_utc ORDER BY minute_utc;
