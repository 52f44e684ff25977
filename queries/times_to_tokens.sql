-- Time to first token (of each generation) and time per output token, ns. The statistics' `steps.ttft` and `steps.tpot`.
-- Percentiles are by nearest rank. Pauses of a sampled recording are not in the tables: use it on recordings without.
WITH ordered AS (
    SELECT
        *,
        start_ns + duration_ns AS end_ns,
        LAG(phase) OVER by_thread AS phase_before,
        LAG(complete) OVER by_thread AS complete_before,
        LAG(start_ns + duration_ns) OVER by_thread AS end_before_ns
    FROM steps
    WHERE phase <> 'outside'
    WINDOW by_thread AS (PARTITION BY pid, tid ORDER BY start_ns, step)
),
numbered AS (
    SELECT
        *,
        SUM(CASE WHEN phase = phase_before THEN 0 ELSE 1 END) OVER (
            PARTITION BY pid, tid ORDER BY start_ns, step ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS stretch
    FROM ordered
),
times AS (
    SELECT 'ttft' AS measure, MAX(end_ns) - MIN(start_ns) AS ns
    FROM numbered
    WHERE phase = 'prefill'
    GROUP BY pid, tid, stretch
    HAVING MIN(CASE WHEN complete THEN 1 ELSE 0 END) = 1
    UNION ALL
    SELECT 'tpot' AS measure, end_ns - end_before_ns AS ns
    FROM ordered
    WHERE phase IN ('decode', 'run') AND complete AND complete_before
),
ranked AS (
    SELECT
        *,
        ROW_NUMBER() OVER (PARTITION BY measure ORDER BY ns) AS place,
        COUNT(*) OVER (PARTITION BY measure) AS n
    FROM times
)
SELECT
    measure,
    COUNT(*) AS count,
    SUM(ns) AS total_ns,
    AVG(ns) AS mean_ns,
    MIN(ns) AS min_ns,
    MAX(CASE WHEN place = FLOOR((50 * n + 99) / 100) THEN ns END) AS p50_ns,
    MAX(CASE WHEN place = FLOOR((90 * n + 99) / 100) THEN ns END) AS p90_ns,
    MAX(CASE WHEN place = FLOOR((99 * n + 99) / 100) THEN ns END) AS p99_ns,
    MAX(ns) AS max_ns
FROM ranked
GROUP BY measure
ORDER BY measure DESC
