//! Tests of the store on files. They are one program, because the engine is generic over its pages:
//! each program of tests compiles it again. Tests of a process' memory and of forks are programs of
//! their own, beside this folder.

mod auto_vacuum;
mod backup;
mod batch;
mod compact;
mod conformance;
mod damage;
mod filters;
mod full_disk;
mod payloads;
mod processes;
mod recalibration;
mod retrain;
mod sink;
#[path = "../support/mod.rs"]
mod support;
mod tags;
mod text_ids;
mod threads;
