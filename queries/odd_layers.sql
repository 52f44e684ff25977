-- Layers beside the median layer of the same step. The statistics' `layers` of one model: `z` beyond 3.5 is far; whether
-- it is more than chance only the statistics say.
WITH whole AS (
    SELECT step, duration_ns, duration_ns * GREATEST(lanes, 1) AS lane_time_ns
    FROM steps
    WHERE phase <> 'outside' AND complete AND recorded = 'whole'
),
in_step AS (
    SELECT o.phase, o.layer, o.step, CAST(SUM(o.work_ns) AS DOUBLE) AS work_ns
    FROM operators AS o
    INNER JOIN whole AS w ON o.step = w.step
    WHERE o.layer IS NOT NULL
    GROUP BY o.phase, o.layer, o.step
),
medians AS (
    SELECT step, MEDIAN(work_ns) AS median_ns
    FROM in_step
    GROUP BY step
    HAVING COUNT(*) >= 4 AND MEDIAN(work_ns) > 0
),
layers AS (
    SELECT
        i.phase,
        i.layer,
        COUNT(*) AS steps,
        AVG(i.work_ns) AS work_ns,
        AVG(i.work_ns / m.median_ns - 1) AS off
    FROM in_step AS i
    INNER JOIN medians AS m ON i.step = m.step
    GROUP BY i.phase, i.layer
),
middles AS (
    SELECT phase, MEDIAN(off) AS middle
    FROM layers
    GROUP BY phase
),
scales AS (
    SELECT l.phase, MIN(m.middle) AS middle, GREATEST(MEDIAN(ABS(l.off - m.middle)), 0.01) / 0.6745 AS scale
    FROM layers AS l
    INNER JOIN middles AS m ON l.phase = m.phase
    GROUP BY l.phase
)
SELECT l.phase, l.layer, l.steps, l.work_ns, l.off, (l.off - s.middle) / s.scale AS z
FROM layers AS l
INNER JOIN scales AS s ON l.phase = s.phase
ORDER BY l.phase, ABS(l.off - s.middle) DESC
