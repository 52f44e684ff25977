-- Counters by operator, all lanes together. The statistics' `counters.operators`; null where a part was not counted.
WITH whole AS (
    SELECT step, duration_ns, duration_ns * GREATEST(lanes, 1) AS lane_time_ns
    FROM steps
    WHERE phase <> 'outside' AND complete AND recorded = 'whole'
),
shares AS (
    SELECT o.pattern AS name, o.op, o.covers_pattern AS covers, l.step, l.operator, l.lane, l.start_ns
    FROM lanes AS l
    INNER JOIN whole AS w ON l.step = w.step
    INNER JOIN operators AS o ON l.step = o.step AND l.operator = o.operator
),
totals AS (
    SELECT name, op, covers, COUNT(*) AS shares
    FROM shares
    GROUP BY name, op, covers
),
counted AS (
    SELECT
        o.pattern AS name,
        o.op,
        o.covers_pattern AS covers,
        c.counter,
        COUNT(*) AS counted,
        SUM(CAST(c.value AS BIGINT)) AS value,
        MAX(CASE WHEN c.estimate THEN 1 ELSE 0 END) AS estimates
    FROM counts AS c
    INNER JOIN whole AS w ON c.step = w.step
    INNER JOIN operators AS o ON c.step = o.step AND c.operator = o.operator
    GROUP BY o.pattern, o.op, o.covers_pattern, c.counter
)
SELECT
    c.name,
    c.op,
    c.covers,
    c.counter,
    CASE WHEN c.counted = t.shares THEN c.value END AS value,
    CASE WHEN c.counted = t.shares THEN CAST(c.value AS DOUBLE) / t.shares END AS mean,
    c.estimates = 1 AS estimate,
    t.shares
FROM counted AS c
INNER JOIN totals AS t
    ON c.name = t.name AND c.op = t.op AND c.covers IS NOT DISTINCT FROM t.covers
ORDER BY c.counter, value DESC
