-- What CREATE EXTENSION pagehop makes. The names of types and operators are pgvector's, so tables
-- and queries stay as they are.

\echo Use "CREATE EXTENSION pagehop CASCADE" to load this file. \quit

-- Without it CREATE EXTENSION would stop at a type that is missing. Operators are those of
-- pg_catalog: others may have put their own into the schema of the extension.

DO $$
DECLARE
    found text := (SELECT extversion FROM pg_catalog.pg_extension WHERE extname OPERATOR(pg_catalog.=) 'vector');
BEGIN
    IF pg_catalog.string_to_array(found, '.')::int[] OPERATOR(pg_catalog.<) ARRAY[0, 7] THEN
        RAISE EXCEPTION 'pagehop needs pgvector 0.7 or newer, and here it is %', found
            USING HINT = 'Install a newer pgvector and run ALTER EXTENSION vector UPDATE.';
    END IF;
END
$$;

CREATE FUNCTION pagehop_handler(internal) RETURNS index_am_handler
    AS 'MODULE_PATHNAME' LANGUAGE C;

CREATE ACCESS METHOD pagehop TYPE INDEX HANDLER pagehop_handler;

COMMENT ON ACCESS METHOD pagehop IS 'vector index that reads one page per hop';

-- Support function 1 of an operator class: a number that says which metric it is and how its
-- vectors are stored.

CREATE FUNCTION pagehop_vector_l2() RETURNS int4
    AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION pagehop_vector_ip() RETURNS int4
    AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION pagehop_vector_cosine() RETURNS int4
    AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION pagehop_halfvec_l2() RETURNS int4
    AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION pagehop_halfvec_ip() RETURNS int4
    AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION pagehop_halfvec_cosine() RETURNS int4
    AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- None is the default of its type: an index says which operator it is for.

CREATE OPERATOR CLASS vector_l2_ops FOR TYPE @extschema:vector@.vector USING pagehop AS
    OPERATOR 1 @extschema:vector@.<-> (@extschema:vector@.vector, @extschema:vector@.vector)
        FOR ORDER BY pg_catalog.float_ops,
    FUNCTION 1 pagehop_vector_l2();

CREATE OPERATOR CLASS vector_ip_ops FOR TYPE @extschema:vector@.vector USING pagehop AS
    OPERATOR 1 @extschema:vector@.<#> (@extschema:vector@.vector, @extschema:vector@.vector)
        FOR ORDER BY pg_catalog.float_ops,
    FUNCTION 1 pagehop_vector_ip();

CREATE OPERATOR CLASS vector_cosine_ops FOR TYPE @extschema:vector@.vector USING pagehop AS
    OPERATOR 1 @extschema:vector@.<=> (@extschema:vector@.vector, @extschema:vector@.vector)
        FOR ORDER BY pg_catalog.float_ops,
    FUNCTION 1 pagehop_vector_cosine();

CREATE OPERATOR CLASS halfvec_l2_ops FOR TYPE @extschema:vector@.halfvec USING pagehop AS
    OPERATOR 1 @extschema:vector@.<-> (@extschema:vector@.halfvec, @extschema:vector@.halfvec)
        FOR ORDER BY pg_catalog.float_ops,
    FUNCTION 1 pagehop_halfvec_l2();

CREATE OPERATOR CLASS halfvec_ip_ops FOR TYPE @extschema:vector@.halfvec USING pagehop AS
    OPERATOR 1 @extschema:vector@.<#> (@extschema:vector@.halfvec, @extschema:vector@.halfvec)
        FOR ORDER BY pg_catalog.float_ops,
    FUNCTION 1 pagehop_halfvec_ip();

CREATE OPERATOR CLASS halfvec_cosine_ops FOR TYPE @extschema:vector@.halfvec USING pagehop AS
    OPERATOR 1 @extschema:vector@.<=> (@extschema:vector@.halfvec, @extschema:vector@.halfvec)
        FOR ORDER BY pg_catalog.float_ops,
    FUNCTION 1 pagehop_halfvec_cosine();

-- Filter columns, behind the vector: USING pagehop (embedding vector_l2_ops, tenant_id, price).
-- Each class is the default of its type. Types without an order here are known by hashes, and have
-- = alone.

CREATE OPERATOR FAMILY integer_ops USING pagehop;

CREATE OPERATOR CLASS int2_ops DEFAULT FOR TYPE int2 USING pagehop FAMILY integer_ops AS
    OPERATOR 1 pg_catalog.< (int2, int2),
    OPERATOR 2 pg_catalog.<= (int2, int2),
    OPERATOR 3 pg_catalog.= (int2, int2),
    OPERATOR 4 pg_catalog.>= (int2, int2),
    OPERATOR 5 pg_catalog.> (int2, int2);

CREATE OPERATOR CLASS int4_ops DEFAULT FOR TYPE int4 USING pagehop FAMILY integer_ops AS
    OPERATOR 1 pg_catalog.< (int4, int4),
    OPERATOR 2 pg_catalog.<= (int4, int4),
    OPERATOR 3 pg_catalog.= (int4, int4),
    OPERATOR 4 pg_catalog.>= (int4, int4),
    OPERATOR 5 pg_catalog.> (int4, int4);

CREATE OPERATOR CLASS int8_ops DEFAULT FOR TYPE int8 USING pagehop FAMILY integer_ops AS
    OPERATOR 1 pg_catalog.< (int8, int8),
    OPERATOR 2 pg_catalog.<= (int8, int8),
    OPERATOR 3 pg_catalog.= (int8, int8),
    OPERATOR 4 pg_catalog.>= (int8, int8),
    OPERATOR 5 pg_catalog.> (int8, int8);

ALTER OPERATOR FAMILY integer_ops USING pagehop ADD
    OPERATOR 1 pg_catalog.< (int2, int4), OPERATOR 2 pg_catalog.<= (int2, int4), OPERATOR 3 pg_catalog.= (int2, int4), OPERATOR 4 pg_catalog.>= (int2, int4), OPERATOR 5 pg_catalog.> (int2, int4),
    OPERATOR 1 pg_catalog.< (int2, int8), OPERATOR 2 pg_catalog.<= (int2, int8), OPERATOR 3 pg_catalog.= (int2, int8), OPERATOR 4 pg_catalog.>= (int2, int8), OPERATOR 5 pg_catalog.> (int2, int8),
    OPERATOR 1 pg_catalog.< (int4, int2), OPERATOR 2 pg_catalog.<= (int4, int2), OPERATOR 3 pg_catalog.= (int4, int2), OPERATOR 4 pg_catalog.>= (int4, int2), OPERATOR 5 pg_catalog.> (int4, int2),
    OPERATOR 1 pg_catalog.< (int4, int8), OPERATOR 2 pg_catalog.<= (int4, int8), OPERATOR 3 pg_catalog.= (int4, int8), OPERATOR 4 pg_catalog.>= (int4, int8), OPERATOR 5 pg_catalog.> (int4, int8),
    OPERATOR 1 pg_catalog.< (int8, int2), OPERATOR 2 pg_catalog.<= (int8, int2), OPERATOR 3 pg_catalog.= (int8, int2), OPERATOR 4 pg_catalog.>= (int8, int2), OPERATOR 5 pg_catalog.> (int8, int2),
    OPERATOR 1 pg_catalog.< (int8, int4), OPERATOR 2 pg_catalog.<= (int8, int4), OPERATOR 3 pg_catalog.= (int8, int4), OPERATOR 4 pg_catalog.>= (int8, int4), OPERATOR 5 pg_catalog.> (int8, int4);

CREATE OPERATOR FAMILY float_ops USING pagehop;

CREATE OPERATOR CLASS float4_ops DEFAULT FOR TYPE float4 USING pagehop FAMILY float_ops AS
    OPERATOR 1 pg_catalog.< (float4, float4),
    OPERATOR 2 pg_catalog.<= (float4, float4),
    OPERATOR 3 pg_catalog.= (float4, float4),
    OPERATOR 4 pg_catalog.>= (float4, float4),
    OPERATOR 5 pg_catalog.> (float4, float4);

CREATE OPERATOR CLASS float8_ops DEFAULT FOR TYPE float8 USING pagehop FAMILY float_ops AS
    OPERATOR 1 pg_catalog.< (float8, float8),
    OPERATOR 2 pg_catalog.<= (float8, float8),
    OPERATOR 3 pg_catalog.= (float8, float8),
    OPERATOR 4 pg_catalog.>= (float8, float8),
    OPERATOR 5 pg_catalog.> (float8, float8);

ALTER OPERATOR FAMILY float_ops USING pagehop ADD
    OPERATOR 1 pg_catalog.< (float4, float8), OPERATOR 2 pg_catalog.<= (float4, float8), OPERATOR 3 pg_catalog.= (float4, float8), OPERATOR 4 pg_catalog.>= (float4, float8), OPERATOR 5 pg_catalog.> (float4, float8),
    OPERATOR 1 pg_catalog.< (float8, float4), OPERATOR 2 pg_catalog.<= (float8, float4), OPERATOR 3 pg_catalog.= (float8, float4), OPERATOR 4 pg_catalog.>= (float8, float4), OPERATOR 5 pg_catalog.> (float8, float4);

CREATE OPERATOR CLASS bool_ops DEFAULT FOR TYPE bool USING pagehop AS
    OPERATOR 1 pg_catalog.< (bool, bool),
    OPERATOR 2 pg_catalog.<= (bool, bool),
    OPERATOR 3 pg_catalog.= (bool, bool),
    OPERATOR 4 pg_catalog.>= (bool, bool),
    OPERATOR 5 pg_catalog.> (bool, bool);

CREATE OPERATOR CLASS date_ops DEFAULT FOR TYPE date USING pagehop AS
    OPERATOR 1 pg_catalog.< (date, date),
    OPERATOR 2 pg_catalog.<= (date, date),
    OPERATOR 3 pg_catalog.= (date, date),
    OPERATOR 4 pg_catalog.>= (date, date),
    OPERATOR 5 pg_catalog.> (date, date);

CREATE OPERATOR CLASS timestamp_ops DEFAULT FOR TYPE timestamp USING pagehop AS
    OPERATOR 1 pg_catalog.< (timestamp, timestamp),
    OPERATOR 2 pg_catalog.<= (timestamp, timestamp),
    OPERATOR 3 pg_catalog.= (timestamp, timestamp),
    OPERATOR 4 pg_catalog.>= (timestamp, timestamp),
    OPERATOR 5 pg_catalog.> (timestamp, timestamp);

CREATE OPERATOR CLASS timestamptz_ops DEFAULT FOR TYPE timestamptz USING pagehop AS
    OPERATOR 1 pg_catalog.< (timestamptz, timestamptz),
    OPERATOR 2 pg_catalog.<= (timestamptz, timestamptz),
    OPERATOR 3 pg_catalog.= (timestamptz, timestamptz),
    OPERATOR 4 pg_catalog.>= (timestamptz, timestamptz),
    OPERATOR 5 pg_catalog.> (timestamptz, timestamptz);

CREATE OPERATOR CLASS text_ops DEFAULT FOR TYPE text USING pagehop AS
    OPERATOR 3 pg_catalog.= (text, text);

CREATE OPERATOR CLASS uuid_ops DEFAULT FOR TYPE uuid USING pagehop AS
    OPERATOR 3 pg_catalog.= (uuid, uuid);

-- Arrays are sets of tags.

CREATE OPERATOR CLASS int4_array_ops DEFAULT FOR TYPE int4[] USING pagehop AS
    OPERATOR 6 pg_catalog.&& (anyarray, anyarray),
    OPERATOR 7 pg_catalog.@> (anyarray, anyarray);

CREATE OPERATOR CLASS int8_array_ops DEFAULT FOR TYPE int8[] USING pagehop AS
    OPERATOR 6 pg_catalog.&& (anyarray, anyarray),
    OPERATOR 7 pg_catalog.@> (anyarray, anyarray);

CREATE OPERATOR CLASS text_array_ops DEFAULT FOR TYPE text[] USING pagehop AS
    OPERATOR 6 pg_catalog.&& (anyarray, anyarray),
    OPERATOR 7 pg_catalog.@> (anyarray, anyarray);

-- What an index says of itself. Takes the right to read its table.

CREATE FUNCTION pagehop_info(
        index regclass,
        OUT format_version int4, OUT metric text, OUT dim int4,
        OUT nodes int8, OUT pages int8, OUT bytes int8,
        OUT max_degree int4, OUT nodes_per_page int4, OUT edge_bits int4,
        OUT dead_nodes int8, OUT free_slots int8,
        OUT trained_rows int8, OUT added_rows int8, OUT deleted_rows int8,
        OUT default_recall float4,
        OUT calibrated_nodes int8, OUT calibrated_by_queries bool, OUT changes_since_calibration int8,
        OUT audited_k int4, OUT audited_recall float4, OUT audited_half_interval float4, OUT audited_target float4,
        OUT changes_since_audit int8, OUT wants_training bool, OUT likely_recall float4)
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED
    SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION pagehop_info(regclass) IS 'size and state of a pagehop index';

-- Reads every page and proves that they agree; what contradicts is an error. Insertions wait until
-- it is over, so it takes the right to maintain the table.

CREATE FUNCTION pagehop_check(
        index regclass,
        OUT pages int8, OUT nodes int8, OUT dead_nodes int8, OUT free_slots int8, OUT edges int8, OUT stale_edges int8,
        OUT reachable int8, OUT anchored int8)
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION pagehop_check(regclass) IS 'verify a pagehop index';

-- What the last scan of this session cost, searches of joins added up. NULL before the first scan.

CREATE FUNCTION pagehop_last_scan(
        OUT index regclass, OUT searches int8, OUT rows int8, OUT late_rows int8,
        OUT hops int8, OUT pages_read int8, OUT pages_missed int8, OUT pages_ahead int8, OUT estimates int8,
        OUT distances int8, OUT rechecks int8, OUT ended_by text)
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED
    SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION pagehop_last_scan() IS 'what the last scan of a pagehop index in this session cost';

-- Measures which settings reach which recall and stores it, for pagehop.recall; the end of a build
-- does, too. Takes the right to maintain the table. Settings that are NULL were not reached: best
-- is what was.

CREATE FUNCTION pagehop_calibrate(
        index regclass,
        OUT k int4, OUT recall float4, OUT search_list int4, OUT slack float4, OUT half_interval float4, OUT best float4)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION pagehop_calibrate(regclass) IS 'measure what each recall takes in a pagehop index';

-- The same for your queries, 50 or more: the recall is then that of queries like them. Those that
-- are NULL, or have no place in the index, are passed over.

CREATE FUNCTION pagehop_calibrate(
        index regclass, queries @extschema:vector@.vector[],
        OUT k int4, OUT recall float4, OUT search_list int4, OUT slack float4, OUT half_interval float4, OUT best float4)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'pagehop_calibrate_vectors' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp;

CREATE FUNCTION pagehop_calibrate(
        index regclass, queries @extschema:vector@.halfvec[],
        OUT k int4, OUT recall float4, OUT search_list int4, OUT slack float4, OUT half_interval float4, OUT best float4)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'pagehop_calibrate_halfvecs' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp;

CREATE FUNCTION pagehop_calibration(
        index regclass,
        OUT k int4, OUT recall float4, OUT search_list int4, OUT slack float4, OUT half_interval float4, OUT best float4)
    RETURNS SETOF record
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED
    SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION pagehop_calibration(regclass) IS 'what pagehop_calibrate, or the build, found last';

-- Measures the recall of searches with this session's settings: rows of the index as queries, or
-- yours, compared with an exact scan of the index. A pagehop.recall that is missed by more than the
-- half interval plus 0.005, and a calibration that much has changed since, are warnings. far is the
-- share of queries that are farther from their tenth nearest row than 99 of 100 calibration queries
-- were. pagehop_info shows what a user who may maintain the table found last.

CREATE FUNCTION pagehop_recall(
        index regclass, k int4 DEFAULT 10, samples int4 DEFAULT 400,
        OUT recall float4, OUT half_interval float4, OUT samples int4, OUT hops float4, OUT far float4)
    AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp;

CREATE FUNCTION pagehop_recall(
        index regclass, k int4, queries @extschema:vector@.vector[],
        OUT recall float4, OUT half_interval float4, OUT samples int4, OUT hops float4, OUT far float4)
    AS 'MODULE_PATHNAME', 'pagehop_recall_vectors' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp;

CREATE FUNCTION pagehop_recall(
        index regclass, k int4, queries @extschema:vector@.halfvec[],
        OUT recall float4, OUT half_interval float4, OUT samples int4, OUT hops float4, OUT far float4)
    AS 'MODULE_PATHNAME', 'pagehop_recall_halfvecs' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp;

COMMENT ON FUNCTION pagehop_recall(regclass, int4, int4) IS 'recall of a pagehop index with the settings of this session';

-- A check makes insertions wait and a calibration takes minutes of a CPU. Both also take the right
-- to maintain the table, which its owner has. Others may be granted them: GRANT EXECUTE ON FUNCTION
-- pagehop_calibrate(regclass) TO ...

REVOKE EXECUTE ON FUNCTION
    pagehop_check(regclass),
    pagehop_calibrate(regclass),
    pagehop_calibrate(regclass, @extschema:vector@.vector[]),
    pagehop_calibrate(regclass, @extschema:vector@.halfvec[])
    FROM PUBLIC;

GRANT EXECUTE ON FUNCTION
    pagehop_check(regclass),
    pagehop_calibrate(regclass),
    pagehop_calibrate(regclass, @extschema:vector@.vector[]),
    pagehop_calibrate(regclass, @extschema:vector@.halfvec[])
    TO pg_maintain, pg_database_owner;
