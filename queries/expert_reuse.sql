-- Uses of experts by the tokens of their layer since the last use; 0: not used before. The statistics' `experts.reuse` of
-- one model, without its faults and times. Records without the number of experts per token are omitted.
WITH whole AS (
    SELECT step, pid, CAST(tokens AS DOUBLE) AS tokens
    FROM steps
    WHERE phase <> 'outside' AND complete AND recorded = 'whole'
),
records AS (
    SELECT
        w.pid,
        e.layer,
        e.step,
        e.operator,
        e.choice,
        e.expert,
        COALESCE(
            CAST(e.per_token AS DOUBLE),
            COUNT(*) OVER (PARTITION BY e.step, e.layer, e.operator) / w.tokens
        ) AS per_token
    FROM experts AS e
    INNER JOIN whole AS w ON e.step = w.step
    WHERE e.first_of_layer
),
numbered AS (
    SELECT
        pid,
        layer,
        expert,
        DENSE_RANK() OVER (PARTITION BY pid, layer ORDER BY step, operator, FLOOR(choice / per_token)) AS token
    FROM records
    WHERE per_token > 0 AND per_token = FLOOR(per_token)
),
uses AS (
    SELECT token - LAG(token) OVER (PARTITION BY pid, layer, expert ORDER BY token) AS distance
    FROM (SELECT DISTINCT pid, layer, expert, token FROM numbered) AS of_tokens
),
placed AS (
    -- Powers of two: a distance of a whole power must not fall below it by rounding.
    SELECT CASE WHEN distance IS NULL THEN 0 ELSE POWER(2, FLOOR(LOG2(distance) + 1e-9)) END AS from_tokens
    FROM uses
)
SELECT
    CAST(from_tokens AS BIGINT) AS from_tokens,
    COUNT(*) AS uses,
    CAST(COUNT(*) AS DOUBLE) / SUM(COUNT(*)) OVER () AS share
FROM placed
GROUP BY from_tokens
ORDER BY from_tokens
