-- Barriers and other regions. The report's `regions`.
WITH whole AS (
    SELECT step, duration_ns, duration_ns * GREATEST(lanes, 1) AS lane_time_ns
    FROM steps
    WHERE phase <> 'outside' AND complete AND recorded = 'whole'
)
SELECT
    r.region,
    COUNT(*) AS count,
    SUM(r.duration_ns) AS total_ns,
    SUM(CASE WHEN r.operator IS NULL THEN 0 ELSE r.duration_ns END) AS in_operators_ns,
    AVG(r.duration_ns) AS mean_ns,
    MAX(r.duration_ns) AS max_ns,
    CAST(SUM(r.duration_ns) AS DOUBLE) / (SELECT SUM(lane_time_ns) FROM whole) AS share
FROM regions AS r
INNER JOIN whole AS w ON r.step = w.step
GROUP BY r.region
ORDER BY total_ns DESC
