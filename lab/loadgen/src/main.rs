//! Sends queries to a database server and measures throughput, latency and CPU on both sides.
//!
//! The client does as little work per query as possible, so that the server is measured.
#![forbid(unsafe_code)]

mod address;
mod answers;
mod args;
mod client;
mod errors;
mod incoming;
mod interrupt;
mod matrix;
mod measure;
mod mysql;
mod parameter;
mod phase;
mod plan;
mod postgres;
mod report;
mod schedule;
mod session;
mod tally;
mod usage;

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
    Mysql(Box<args::MysqlArgs>),
}

fn main() -> ExitCode {
    let measured = match Cli::parse().command {
        Command::Postgres(of) => measure::run::<postgres::Connection>(&of.args, of.param_type),
        Command::Mysql(of) => measure::run::<mysql::Connection>(&of.args, None),
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}
