-- Steps of each phase: how many, how long. The report's `phases`. Percentiles are by nearest rank.
-- Where waiting was recorded in some windows only (null elsewhere), work and waiting are estimated by its share there.
WITH ranked AS (
    SELECT
        *,
        ROW_NUMBER() OVER (PARTITION BY phase ORDER BY duration_ns) AS place,
        COUNT(*) OVER (PARTITION BY phase) AS n
    FROM steps
    WHERE phase <> 'outside' AND complete
),
grouped AS (
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
        SUM(CASE WHEN recorded = 'whole' THEN work_ns + COALESCE(waiting_ns, 0) ELSE 0 END) AS lane_ns,
        CAST(SUM(CASE WHEN recorded = 'whole' THEN waiting_ns END) AS DOUBLE)
        / GREATEST(SUM(CASE WHEN recorded = 'whole' AND waiting_ns IS NOT NULL THEN work_ns + waiting_ns END), 1) AS waits,
        SUM(CASE WHEN recorded = 'whole' THEN operators ELSE 0 END) AS operators,
        SUM(CASE WHEN recorded = 'whole' THEN graphs ELSE 0 END) AS graphs
    FROM ranked
    GROUP BY phase
)
SELECT
    phase,
    steps,
    whole_steps,
    tokens,
    total_ns,
    mean_ns,
    min_ns,
    p50_ns,
    p90_ns,
    p99_ns,
    max_ns,
    lane_time_ns,
    CAST(ROUND(lane_ns * (1 - COALESCE(waits, 0))) AS BIGINT) AS work_ns,
    CAST(ROUND(lane_ns * waits) AS BIGINT) AS waiting_ns,
    operators,
    graphs
FROM grouped
ORDER BY phase DESC
