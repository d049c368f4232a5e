PGVector_halfvec(m=16, ef_construction=32, ef_search=10) 0.961 23972.246
PGVector(m=16, ef_construction=32, ef_search=10) 0.960 20967.788
MariaDB(m=6, ef_search=10) 0.959 24440.779
