-- Operators by layer; null: of no layer. The report's `layers`.
WITH whole AS (
    SELECT step, duration_ns, duration_ns * GREATEST(lanes, 1) AS lane_time_ns
    FROM steps
    WHERE phase <> 'outside' AND complete AND recorded = 'whole'
)
SELECT
    o.layer,
    COUNT(*) AS count,
    SUM(o.work_ns) AS total_ns,
    SUM(o.waiting_ns) AS waiting_ns,
    CAST(SUM(o.work_ns) AS DOUBLE) / (SELECT SUM(lane_time_ns) FROM whole) AS share,
    AVG(o.elapsed_ns) AS mean_ns,
    MIN(o.elapsed_ns) AS min_ns,
    MAX(o.elapsed_ns) AS max_ns
FROM operators AS o
INNER JOIN whole AS w ON o.step = w.step
GROUP BY o.layer
ORDER BY total_ns DESC
