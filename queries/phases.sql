-- Steps of each phase: how many, how long. The report's `phases`. Percentiles are by nearest rank.
WITH ranked AS (
    SELECT
        *,
        ROW_NUMBER() OVER (PARTITION BY phase ORDER BY duration_ns) AS place,
        COUNT(*) OVER (PARTITION BY phase) AS n
    FROM steps
    WHERE phase <> 'outside' AND complete
)
SELECT
    phase,
    COUNT(*) AS steps,
    SUM(CASE WHEN recorded = 'whole' THEN 1 ELSE 0 END) AS whole_steps,
    SUM(tokens) AS tokens,
    SUM(duration_ns) AS total_ns,
    AVG(duration_ns) AS mean_ns,
    MIN(duration_ns) AS min_ns,
    MAX(CASE WHEN place = FLOOR((50 * n + 99) / 100) THEN duration_ns END) AS p50_ns,
    MAX(CASE WHEN place = FLOOR((90 * n + 99) / 100) THEN duration_ns END) AS p90_ns,
    MAX(CASE WHEN place = FLOOR((99 * n + 99) / 100) THEN duration_ns END) AS p99_ns,
    MAX(duration_ns) AS max_ns,
    SUM(CASE WHEN recorded = 'whole' THEN duration_ns * GREATEST(lanes, 1) ELSE 0 END) AS lane_time_ns,
    SUM(CASE WHEN recorded = 'whole' THEN work_ns ELSE 0 END) AS work_ns,
    SUM(CASE WHEN recorded = 'whole' THEN waiting_ns ELSE 0 END) AS waiting_ns,
    SUM(CASE WHEN recorded = 'whole' THEN operators ELSE 0 END) AS operators,
    SUM(CASE WHEN recorded = 'whole' THEN graphs ELSE 0 END) AS graphs
FROM ranked
GROUP BY phase
ORDER BY phase DESC
