-- Graphs by backend, and the work of their operators. The report's `backends`.
WITH whole AS (
    SELECT step, duration_ns, duration_ns * GREATEST(lanes, 1) AS lane_time_ns
    FROM steps
    WHERE phase <> 'outside' AND complete AND recorded = 'whole'
),
of_operators AS (
    SELECT o.backend, COUNT(*) AS operators, SUM(o.work_ns) AS operators_ns
    FROM operators AS o
    INNER JOIN whole AS w ON o.step = w.step
    GROUP BY o.backend
)
SELECT
    g.backend,
    COUNT(*) AS graphs,
    SUM(g.duration_ns) AS total_ns,
    AVG(g.duration_ns) AS mean_ns,
    MAX(g.duration_ns) AS max_ns,
    CAST(SUM(g.duration_ns) AS DOUBLE) / (SELECT SUM(duration_ns) FROM whole) AS share,
    COALESCE(MAX(o.operators), 0) AS operators,
    COALESCE(MAX(o.operators_ns), 0) AS operators_ns
FROM graphs AS g
INNER JOIN whole AS w ON g.step = w.step
LEFT JOIN of_operators AS o ON g.backend = o.backend
GROUP BY g.backend
ORDER BY total_ns DESC
