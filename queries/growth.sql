-- Decode steps against the context: ns for each further token, by least squares. `name` is null for the whole step.
-- The statistics' `growth`: its lines, not its judgement of what is chance. The context is that of the step or, where no
-- step has any, the tokens of the generation so far. Several models of one process are not told apart.
WITH marked AS (
    SELECT
        *,
        CASE WHEN phase = 'prefill' AND COALESCE(LAG(phase) OVER by_thread, '') <> 'prefill' THEN 1 ELSE 0 END AS begins
    FROM steps
    WHERE phase <> 'outside'
    WINDOW by_thread AS (PARTITION BY pid, tid ORDER BY start_ns, step)
),
numbered AS (
    SELECT
        *,
        SUM(begins) OVER (
            PARTITION BY pid, tid ORDER BY start_ns, step ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS generation
    FROM marked
),
counted AS (
    SELECT
        *,
        SUM(CASE WHEN phase = 'prefill' THEN CAST(tokens AS BIGINT) ELSE COALESCE(CAST(tokens AS BIGINT), 1) END)
            OVER so_far AS tokens_so_far,
        MIN(CASE WHEN generation = 0 OR phase = 'prefill' AND tokens IS NULL THEN 0 ELSE 1 END) OVER so_far AS is_known
    FROM numbered
    WINDOW so_far AS (
        PARTITION BY pid, tid, generation ORDER BY start_ns, step ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
),
whole AS (
    SELECT
        step,
        duration_ns,
        CASE
            WHEN MAX(CAST(context AS BIGINT)) OVER () IS NOT NULL THEN CAST(context AS DOUBLE)
            WHEN is_known = 1 THEN CAST(tokens_so_far AS DOUBLE)
        END AS context
    FROM counted
    WHERE phase IN ('decode', 'run') AND complete AND recorded = 'whole'
),
points AS (
    SELECT
        o.pattern AS name,
        o.op,
        o.covers IS NOT NULL AS is_fused,
        w.step,
        w.context,
        CAST(SUM(o.work_ns) AS DOUBLE) AS ns
    FROM operators AS o
    INNER JOIN whole AS w ON o.step = w.step
    WHERE w.context IS NOT NULL
    GROUP BY o.pattern, o.op, o.covers IS NOT NULL, w.step, w.context
    UNION ALL
    SELECT NULL AS name, NULL AS op, FALSE AS is_fused, step, context, CAST(duration_ns AS DOUBLE) AS ns
    FROM whole
    WHERE context IS NOT NULL
)
SELECT
    name,
    op,
    COUNT(*) AS steps,
    MIN(context) AS from_tokens,
    MAX(context) AS to_tokens,
    AVG(ns) AS mean_ns,
    REGR_SLOPE(ns, context) AS slope_ns,
    REGR_INTERCEPT(ns, context) AS intercept_ns,
    REGR_R2(ns, context) AS r2
FROM points
GROUP BY name, op, is_fused
ORDER BY slope_ns DESC
