//! Pages in a file.
