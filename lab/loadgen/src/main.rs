//! Queries for a database server, and what they took: throughput, latency, recall of the same answers, and CPU on
//! both sides.
//!
//! It does as little as it can for each query, so that what it measures is the server.
#![forbid(unsafe_code)]

mod address;
mod args;
mod client;
mod errors;
mod interrupt;
mod matrix;
mod parameter;
mod phase;
mod plan;
mod postgres;
mod recall;
mod report;
mod schedule;
mod session;
mod tally;
mod usage;
mod wire;

use std::process::ExitCode;

use clap::Parser;

/// Load a database server with queries and measure what they take.
#[derive(Parser)]
#[command(name = "pagehop-loadgen", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Postgres(Box<args::PostgresArgs>),
}

fn main() -> ExitCode {
    let Command::Postgres(args) = Cli::parse().command;
    match postgres::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}
