PGVector_halfvec(m=16, ef_construction=32, ef_search=10) 0.962 4811.178
PGVector(m=16, ef_construction=32, ef_search=10) 0.960 4654.633
MariaDB(m=6, ef_search=10) 0.952 6752.726
