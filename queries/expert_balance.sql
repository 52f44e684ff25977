-- How evenly a layer's experts are chosen. The statistics' `experts.layers`.
WITH whole AS (
    SELECT step, duration_ns, duration_ns * GREATEST(lanes, 1) AS lane_time_ns
    FROM steps
    WHERE phase <> 'outside' AND complete AND recorded = 'whole'
),
chosen AS (
    SELECT e.layer, e.expert, COUNT(*) AS choices
    FROM experts AS e
    INNER JOIN whole AS w ON e.step = w.step
    WHERE e.first_of_layer
    GROUP BY e.layer, e.expert
),
highest AS (
    SELECT CAST(MAX(expert) + 1 AS DOUBLE) AS experts FROM chosen
),
ranked AS (
    SELECT
        c.layer,
        h.experts,
        CAST(c.choices AS DOUBLE) AS choices,
        CAST(SUM(c.choices) OVER (PARTITION BY c.layer) AS DOUBLE) AS total,
        ROW_NUMBER() OVER hottest AS place,
        SUM(c.choices) OVER hottest AS so_far
    FROM chosen AS c
    CROSS JOIN highest AS h
    WINDOW hottest AS (
        PARTITION BY c.layer ORDER BY c.choices DESC, c.expert ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
)
SELECT
    layer,
    CAST(SUM(choices) AS BIGINT) AS choices,
    CAST(MIN(experts) AS BIGINT) AS experts,
    COUNT(*) AS used,
    MAX(choices) * MIN(experts) / SUM(choices) AS max_over_mean,
    CASE
        WHEN MIN(experts) > 1 THEN -SUM(choices / total * LN(choices / total)) / LN(MIN(experts))
        ELSE 1
    END AS entropy,
    2 * SUM((experts - place + 1) * choices) / (MIN(experts) * SUM(choices))
        - (MIN(experts) + 1) / MIN(experts) AS gini,
    SUM(CASE WHEN so_far - choices < 0.9 * total THEN 1 ELSE 0 END) AS for_90
FROM ranked
GROUP BY layer
ORDER BY layer
