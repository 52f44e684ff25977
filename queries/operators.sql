-- Operators of the same name, whatever their layer. The report's `operators`.
-- Where waiting was recorded in some windows only (null elsewhere), work and waiting are estimated by its share there.
WITH whole AS (
    SELECT step, duration_ns, duration_ns * GREATEST(lanes, 1) AS lane_time_ns
    FROM steps
    WHERE phase <> 'outside' AND complete AND recorded = 'whole'
),
grouped AS (
    SELECT
        o.pattern AS name,
        o.op,
        o.covers_pattern AS covers,
        COUNT(DISTINCT o.layer) AS layers,
        COUNT(*) AS count,
        SUM(o.work_ns + COALESCE(o.waiting_ns, 0)) AS lane_ns,
        CAST(SUM(o.waiting_ns) AS DOUBLE)
        / GREATEST(SUM(CASE WHEN o.waiting_ns IS NOT NULL THEN o.work_ns + o.waiting_ns END), 1) AS waits,
        AVG(o.elapsed_ns) AS mean_ns,
        MIN(o.elapsed_ns) AS min_ns,
        MAX(o.elapsed_ns) AS max_ns
    FROM operators AS o
    INNER JOIN whole AS w ON o.step = w.step
    GROUP BY o.pattern, o.op, o.covers_pattern
)
SELECT
    name,
    op,
    covers,
    layers,
    count,
    CAST(ROUND(lane_ns * (1 - COALESCE(waits, 0))) AS BIGINT) AS total_ns,
    CAST(ROUND(lane_ns * waits) AS BIGINT) AS waiting_ns,
    lane_ns * (1 - COALESCE(waits, 0)) / (SELECT SUM(lane_time_ns) FROM whole) AS share,
    mean_ns,
    min_ns,
    max_ns
FROM grouped
ORDER BY total_ns DESC
