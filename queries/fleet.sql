-- Decoding of many runs, by machine and run: needs tables that are partitioned (`export --partitioned`, `serve --tables`).
SELECT
    engine,
    host,
    run,
    COUNT(*) AS steps,
    AVG(duration_ns) AS mean_ns,
    CAST(SUM(work_ns) AS DOUBLE) / SUM(duration_ns * GREATEST(lanes, 1)) AS busy
FROM steps
WHERE phase IN ('decode', 'run') AND complete AND recorded = 'whole'
GROUP BY engine, host, run
ORDER BY mean_ns DESC
