//! Pages that misbehave on purpose, for tests.
