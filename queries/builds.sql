-- Decoding by build of an engine and by machine: needs tables that are partitioned (`export --partitioned`,
-- `serve --tables`).
SELECT
    r.engine,
    r.build,
    s.host,
    COUNT(DISTINCT s.run) AS runs,
    COUNT(*) AS steps,
    AVG(s.duration_ns) AS mean_ns,
    CAST(SUM(s.tokens) AS DOUBLE) * 1e9 / SUM(s.duration_ns) AS tokens_per_s
FROM steps AS s
JOIN runs AS r ON r.host = s.host AND r.run = s.run
WHERE s.phase IN ('decode', 'run') AND s.complete
GROUP BY r.engine, r.build, s.host
ORDER BY r.engine, mean_ns DESC
