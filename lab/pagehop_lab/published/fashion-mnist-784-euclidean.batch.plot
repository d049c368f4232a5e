MariaDB(m= 4, ef_search=10) 0.864 21684.664
MariaDB(m= 4, ef_search=20) 0.920 20991.157
MariaDB(m= 4, ef_search=30) 0.940 19632.569
MariaDB(m= 5, ef_search=10) 0.930 20736.206
MariaDB(m= 5, ef_search=20) 0.967 19855.088
MariaDB(m= 5, ef_search=30) 0.977 18699.002
MariaDB(m= 6, ef_search=10) 0.961 19862.563
MariaDB(m= 6, ef_search=20) 0.984 19192.878
MariaDB(m= 6, ef_search=30) 0.990 17971.247
MariaDB(m= 8, ef_search=10) 0.984 19555.223
MariaDB(m= 8, ef_search=20) 0.995 18624.655
MariaDB(m= 8, ef_search=30) 0.997 16931.899
MariaDB(m=12, ef_search=10) 0.995 17641.605
MariaDB(m=12, ef_search=20) 0.999 16891.926
MariaDB(m=12, ef_search=30) 0.999 15060.570
MariaDB(m=16, ef_search=10) 0.998 17330.718
MariaDB(m=16, ef_search=30) 1.000 13688.061
MariaDB(m=24, ef_search=10) 0.999 15362.597
MariaDB(m=32, ef_search=10) 1.000 13828.011
MariaDB(m=48, ef_search=10) 1.000 11772.196
