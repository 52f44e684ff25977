-- Lanes: their shares of operators, work and waiting. The report's `lane_rows`.
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
        SUM(l.work_ns) AS work_ns,
        SUM(l.waiting_ns) AS waiting_ns
    FROM lanes AS l
    INNER JOIN whole AS w ON l.step = w.step
    GROUP BY l.step, l.lane, w.duration_ns
)
SELECT
    lane,
    SUM(shares) AS shares,
    SUM(work_ns) AS work_ns,
    SUM(waiting_ns) AS waiting_ns,
    SUM(duration_ns) AS step_time_ns,
    CAST(SUM(work_ns) AS DOUBLE) / SUM(duration_ns) AS busy,
    CAST(SUM(waiting_ns) AS DOUBLE) / SUM(duration_ns) AS waiting
FROM of_step
GROUP BY lane
ORDER BY lane
