-- what each GPU showed: use, memory, power, temperature, clocks
SELECT gpu, model, AVG(utilization_percent) AS mean_use_percent, MAX(memory_used_bytes) / 1073741824.0 AS most_memory_gib,
       MAX(power_watts) AS most_watts, MAX(temperature_celsius) AS hottest, MIN(sm_clock_mhz) AS least_mhz,
       SUM(power_held_ns) / 1e9 AS power_held_s, SUM(thermal_held_ns) / 1e9 AS thermal_held_s
FROM devices GROUP BY uuid, gpu, model ORDER BY gpu;
