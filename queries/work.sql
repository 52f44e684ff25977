-- Time against work by operator type and backend: what an operator takes to begin with, and each unit of its work beyond
-- that. The statistics' `work`, without its outliers. The line is by least squares of the error as a part of the time,
-- over operations or over bytes, whichever it explains better. Operators outside steps are left out.
WITH whole AS (
    SELECT step, duration_ns, duration_ns * GREATEST(lanes, 1) AS lane_time_ns
    FROM steps
    WHERE phase <> 'outside' AND complete AND recorded = 'whole'
),
kinds AS (
    SELECT
        o.op,
        o.backend,
        o.phase,
        o.dtype,
        o.shape,
        COUNT(*) AS n,
        SUM(o.elapsed_ns) AS elapsed_ns,
        CASE WHEN COUNT(o.flops) = COUNT(*) THEN ROUND(AVG(CAST(o.flops AS DOUBLE))) END AS flops,
        CASE WHEN COUNT(o.bytes) = COUNT(*) THEN ROUND(AVG(CAST(o.bytes AS DOUBLE))) END AS bytes
    FROM operators AS o
    INNER JOIN whole AS w ON o.step = w.step
    GROUP BY o.op, o.backend, o.phase, o.dtype, o.shape, o.name, o.covers, o.layer
),
sizes AS (
    SELECT
        op,
        backend,
        flops,
        bytes,
        SUM(n) AS n,
        SUM(elapsed_ns) AS elapsed_ns,
        CAST(SUM(elapsed_ns) AS DOUBLE) / SUM(n) AS ns
    FROM kinds
    GROUP BY op, backend, phase, dtype, shape, flops, bytes
),
points AS (
    SELECT op, backend, 'flops' AS measure, flops AS x, ns AS y, 1 / (ns * ns) AS weight
    FROM sizes
    WHERE flops IS NOT NULL AND ns > 0
    UNION ALL
    SELECT op, backend, 'bytes' AS measure, bytes AS x, ns AS y, 1 / (ns * ns) AS weight
    FROM sizes
    WHERE bytes IS NOT NULL AND ns > 0
),
centred AS (
    SELECT
        *,
        SUM(weight * x) OVER (PARTITION BY op, backend, measure)
            / SUM(weight) OVER (PARTITION BY op, backend, measure) AS mean_x,
        SUM(weight * y) OVER (PARTITION BY op, backend, measure)
            / SUM(weight) OVER (PARTITION BY op, backend, measure) AS mean_y
    FROM points
),
moments AS (
    SELECT
        op,
        backend,
        measure,
        MIN(mean_x) AS mean_x,
        MIN(mean_y) AS mean_y,
        SUM(weight * (x - mean_x) * (x - mean_x)) AS xx,
        SUM(weight * (x - mean_x) * (y - mean_y)) AS xy,
        SUM(weight * (y - mean_y) * (y - mean_y)) AS yy
    FROM centred
    GROUP BY op, backend, measure
    HAVING COUNT(DISTINCT x) >= 3
),
lines AS (
    SELECT
        op,
        backend,
        measure,
        xy / xx AS ns_per_unit,
        mean_y - xy / xx * mean_x AS overhead_ns,
        CASE WHEN yy > 0 THEN xy * xy / xx / yy ELSE 0 END AS r2
    FROM moments
),
best AS (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY op, backend ORDER BY ROUND(r2, 9) DESC, measure) AS place
    FROM lines
),
types AS (
    SELECT
        op,
        backend,
        SUM(n) AS count,
        SUM(elapsed_ns) AS total_ns,
        SUM(CASE WHEN flops IS NOT NULL THEN flops * n END) * 1e9
            / SUM(CASE WHEN flops IS NOT NULL THEN elapsed_ns END) AS flops_per_s,
        SUM(CASE WHEN bytes IS NOT NULL THEN bytes * n END) * 1e9
            / SUM(CASE WHEN bytes IS NOT NULL THEN elapsed_ns END) AS bytes_per_s
    FROM sizes
    GROUP BY op, backend
)
SELECT
    t.op,
    t.backend,
    t.count,
    t.total_ns,
    CAST(t.total_ns AS DOUBLE) / (SELECT SUM(total_ns) FROM types) AS share,
    t.flops_per_s,
    t.bytes_per_s,
    b.measure,
    b.overhead_ns,
    b.ns_per_unit,
    b.r2
FROM types AS t
LEFT JOIN best AS b
    ON t.op = b.op
    AND t.backend IS NOT DISTINCT FROM b.backend
    AND b.place = 1
    AND b.ns_per_unit > 0
    AND b.r2 >= 0.5
ORDER BY t.total_ns DESC
