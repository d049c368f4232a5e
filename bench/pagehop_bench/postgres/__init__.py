"""The PostgreSQL extension beside pgvector: `./dev bench postgres`."""
