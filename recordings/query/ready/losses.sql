-- what was lost, by counter
SELECT name, SUM(count) AS count FROM losses GROUP BY name HAVING SUM(count) > 0 ORDER BY 2 DESC;
