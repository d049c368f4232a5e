-- What an installed extension must do. `make installcheck` and `./dev release` run this.
SET client_min_messages = warning;
CREATE EXTENSION pagehop CASCADE;
CREATE TABLE items (id int PRIMARY KEY, kind int, embedding vector(8));
INSERT INTO items
    SELECT i, i % 10, ARRAY(SELECT sin(i * (0.37 + d * 0.11)) FROM generate_series(1, 8) d)::vector
    FROM generate_series(1, 2000) i;
CREATE INDEX items_embedding ON items USING pagehop (embedding vector_l2_ops);
CREATE INDEX items_half ON items USING pagehop ((embedding::halfvec(8)) halfvec_cosine_ops);
ANALYZE items;
SET enable_seqscan = off;
EXPLAIN (COSTS off) SELECT id FROM items ORDER BY embedding <-> '[1,0,1,0,1,0,1,0]' LIMIT 5;
EXPLAIN (COSTS off) SELECT id FROM items ORDER BY embedding::halfvec(8) <=> '[1,0,1,0,1,0,1,0]' LIMIT 5;
-- The nearest ten of twenty rows, by the index and by a look at every row
SELECT count(*) > 190 AS found
FROM (SELECT id, embedding FROM items WHERE id % 100 = 0) query
CROSS JOIN LATERAL (SELECT id FROM items ORDER BY embedding <-> query.embedding LIMIT 10) near
WHERE near.id IN (SELECT id FROM items ORDER BY (embedding <-> query.embedding) + 0 LIMIT 10);
SELECT count(*) = 10 AS filtered
FROM (SELECT kind FROM items WHERE kind = 3 ORDER BY embedding <-> '[1,0,1,0,1,0,1,0]' LIMIT 10) near
WHERE kind = 3;
DELETE FROM items WHERE id % 2 = 0;
INSERT INTO items VALUES (5000, 0, '[9,9,9,9,9,9,9,9]');
-- An ANALYZE by autovacuum elsewhere in the database would keep deleted rows from the VACUUM.
DO $$
BEGIN
    FOR tenths IN 1..300 LOOP
        PERFORM pg_stat_clear_snapshot();
        EXIT WHEN NOT EXISTS (
            SELECT FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL
        );
        PERFORM pg_sleep(0.1);
    END LOOP;
END
$$;
VACUUM items;
SELECT id FROM items ORDER BY embedding <-> '[9,9,9,9,9,9,9,9]' LIMIT 1;
SELECT nodes - dead_nodes = 1001 AS as_many, reachable >= nodes - dead_nodes AS all_reachable
FROM pagehop_check('items_embedding');
-- Errors of the extension come as PostgreSQL's, and the session goes on
CREATE INDEX ON items USING pagehop (embedding);
CREATE INDEX ON items USING pagehop (embedding vector_l2_ops) WITH (m = 16);
SELECT pagehop_info('items_pkey');
DROP INDEX items_half;
INSERT INTO items VALUES (5001, 0, '[3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38]');
SELECT count(*) FROM items;
DROP TABLE items;
DROP EXTENSION pagehop;
