MariaDB(m=48, ef_search=40) 1.000 19.499
MariaDB(m=48, ef_search=30) 1.000 33.335
MariaDB(m=48, ef_search=10) 0.999 258.362
MariaDB(m=24, ef_search=10) 0.992 731.163
MariaDB(m=12, ef_search=30) 0.987 711.433
MariaDB(m=8, ef_search=120) 0.986 140.430
MariaDB(m=16, ef_search=10) 0.981 1129.946
MariaDB(m=6, ef_search=200) 0.974 80.862
MariaDB(m=8, ef_search=40) 0.969 885.356
MariaDB(m=12, ef_search=10) 0.965 1433.212
MariaDB(m=6, ef_search=80) 0.957 684.758
MariaDB(m=8, ef_search=20) 0.949 1349.839
PGVector(m=48, ef_construction=256, ef_search=200) 0.999 88.587
PGVector(m=48, ef_construction=256, ef_search=40) 0.990 286.528
PGVector(m=48, ef_construction=192, ef_search=40) 0.989 290.671
PGVector(m=32, ef_construction=192, ef_search=40) 0.984 375.444
PGVector(m=64, ef_construction=192, ef_search=20) 0.979 363.674
PGVector(m=32, ef_construction=192, ef_search=30) 0.976 446.479
PGVector(m=48, ef_construction=192, ef_search=20) 0.974 440.365
PGVector(m=32, ef_construction=96, ef_search=30) 0.969 464.386
PGVector(m=16, ef_construction=256, ef_search=40) 0.968 548.295
PGVector(m=32, ef_construction=192, ef_search=20) 0.962 568.289
PGVector(m=8, ef_construction=192, ef_search=80) 0.958 544.877
PGVector(m=32, ef_construction=96, ef_search=20) 0.953 587.659
PGVector(m=16, ef_construction=192, ef_search=30) 0.953 702.173
PGVector(m=16, ef_construction=32, ef_search=80) 0.949 402.921
PGVector_halfvec(m=64, ef_construction=192, ef_search=200) 0.999 84.304
PGVector_halfvec(m=32, ef_construction=256, ef_search=300) 0.999 93.063
PGVector_halfvec(m=48, ef_construction=256, ef_search=40) 0.990 321.356
PGVector_halfvec(m=48, ef_construction=192, ef_search=40) 0.989 322.989
PGVector_halfvec(m=32, ef_construction=192, ef_search=40) 0.984 417.890
PGVector_halfvec(m=16, ef_construction=96, ef_search=80) 0.979 412.999
PGVector_halfvec(m=32, ef_construction=192, ef_search=30) 0.976 498.311
PGVector_halfvec(m=48, ef_construction=192, ef_search=20) 0.973 482.943
PGVector_halfvec(m=32, ef_construction=96, ef_search=30) 0.969 505.691
PGVector_halfvec(m=16, ef_construction=256, ef_search=40) 0.968 600.989
PGVector_halfvec(m=32, ef_construction=192, ef_search=20) 0.961 634.516
PGVector_halfvec(m=8, ef_construction=192, ef_search=80) 0.958 591.894
PGVector_halfvec(m=16, ef_construction=96, ef_search=40) 0.957 661.857
PGVector_halfvec(m=16, ef_construction=192, ef_search=30) 0.951 763.658
PGVector_halfvec(m=16, ef_construction=32, ef_search=80) 0.949 445.020
