PGVector_halfvec(m=16, ef_construction=32, ef_search=10) 0.959 23802.628
PGVector(m=16, ef_construction=32, ef_search=10) 0.961 20896.720
MariaDB(m=6, ef_search=10) 0.961 32645.503
