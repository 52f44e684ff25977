-- Tokens a second over time: decode steps in equal intervals from the first to the last, sixteen steps in each on average.
-- The statistics' `steps.windows`; an interval in which no step ends has no row.
WITH decode AS (
    SELECT start_ns, start_ns + duration_ns AS end_ns, duration_ns, CAST(COALESCE(tokens, 1) AS BIGINT) AS tokens
    FROM steps
    WHERE phase = 'decode'
),
extent AS (
    SELECT
        MIN(start_ns) AS from_ns,
        CEIL((MAX(end_ns) - MIN(start_ns)) / LEAST(GREATEST(FLOOR(COUNT(*) / 16), 1), 64)) AS width_ns,
        LEAST(GREATEST(FLOOR(COUNT(*) / 16), 1), 64) AS stretches
    FROM decode
),
zero AS (
    SELECT MIN(start_ns) AS zero_ns FROM steps WHERE phase <> 'outside'
),
placed AS (
    SELECT
        d.*,
        e.width_ns,
        e.from_ns,
        LEAST(FLOOR(GREATEST(d.end_ns - e.from_ns - 1, 0) / e.width_ns), e.stretches - 1) AS stretch
    FROM decode AS d
    CROSS JOIN extent AS e
)
SELECT
    CAST(MIN(p.from_ns + p.stretch * p.width_ns) - MIN(z.zero_ns) AS BIGINT) AS from_ns,
    COUNT(*) AS steps,
    SUM(p.tokens) AS tokens,
    SUM(p.tokens) * 1e9 / MIN(p.width_ns) AS tokens_per_s,
    AVG(p.duration_ns) AS step_ns
FROM placed AS p
CROSS JOIN zero AS z
GROUP BY p.stretch
ORDER BY from_ns
