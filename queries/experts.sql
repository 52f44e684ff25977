-- Experts of each layer: how often each was chosen for a token. The report's `experts`.
WITH whole AS (
    SELECT step, duration_ns, duration_ns * GREATEST(lanes, 1) AS lane_time_ns
    FROM steps
    WHERE phase <> 'outside' AND complete AND recorded = 'whole'
)
SELECT
    e.layer,
    e.expert,
    COUNT(*) AS activations,
    CAST(COUNT(*) AS DOUBLE) / SUM(COUNT(*)) OVER (PARTITION BY e.layer) AS share
FROM experts AS e
INNER JOIN whole AS w ON e.step = w.step
WHERE e.first_of_layer
GROUP BY e.layer, e.expert
ORDER BY activations DESC, e.layer, e.expert
