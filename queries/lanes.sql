-- Lanes: their shares of operators, work and waiting. The report's `lane_rows`.
-- Where waiting was recorded in some windows only (null elsewhere), work and waiting are estimated by its share there.
WITH whole AS (
    SELECT step, duration_ns, duration_ns * GREATEST(lanes, 1) AS lane_time_ns
    FROM steps
    WHERE phase <> 'outside' AND complete AND recorded = 'whole'
),
of_step AS (
    SELECT
        l.step,
        l.lane,
        w.duration_ns,
        COUNT(*) AS shares,
        SUM(l.work_ns + COALESCE(l.waiting_ns, 0)) AS lane_ns,
        SUM(l.waiting_ns) AS waiting_ns,
        SUM(CASE WHEN l.waiting_ns IS NOT NULL THEN l.work_ns + l.waiting_ns END) AS divided_ns
    FROM lanes AS l
    INNER JOIN whole AS w ON l.step = w.step
    GROUP BY l.step, l.lane, w.duration_ns
),
grouped AS (
    SELECT
        lane,
        SUM(shares) AS shares,
        SUM(lane_ns) AS lane_ns,
        CAST(SUM(waiting_ns) AS DOUBLE) / GREATEST(SUM(divided_ns), 1) AS waits,
        SUM(duration_ns) AS step_time_ns
    FROM of_step
    GROUP BY lane
)
SELECT
    lane,
    shares,
    CAST(ROUND(lane_ns * (1 - COALESCE(waits, 0))) AS BIGINT) AS work_ns,
    CAST(ROUND(lane_ns * waits) AS BIGINT) AS waiting_ns,
    step_time_ns,
    lane_ns * (1 - COALESCE(waits, 0)) / step_time_ns AS busy,
    lane_ns * waits / step_time_ns AS waiting
FROM grouped
ORDER BY lane
