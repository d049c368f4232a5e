PGVector_halfvec(m=16, ef_construction=32, ef_search=10) 0.960 15377.963
PGVector(m=16, ef_construction=32, ef_search=10) 0.958 14272.277
MariaDB(m=6, ef_search=10) 0.961 17196.903
