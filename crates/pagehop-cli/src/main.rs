//! The `pagehop` command: build an index, search it, change it, look at it.
//!
//! Data goes to standard output, talk to standard error. The exit code is 0 if all went well, 2 if
//! what was asked for cannot be, 1 if it could not be done, and 130 if it was interrupted.
#![forbid(unsafe_code)]

mod add;
mod build;
mod calibrate;
mod check;
mod checkpoint;
mod create;
mod delete;
mod errors;
mod formats;
mod info;
mod interrupt;
mod output;
mod progress;
mod recall;
mod search;
mod vacuum;
mod writing;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Nearest vectors from one file, however large.
///
/// Vectors come as .npy, .fvecs, .bvecs, .fbin, .u8bin or .i8bin; the name says which.
#[derive(Parser)]
#[command(name = "pagehop", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Build(build::Args),
    Create(create::Args),
    Add(add::Args),
    Delete(delete::Args),
    Vacuum(vacuum::Args),
    Checkpoint(checkpoint::Args),
    Search(search::Args),
    Calibrate(calibrate::Args),
    Recall(recall::Args),
    Info(info::Args),
    Check(check::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Build(args) => build::run(&args),
        Command::Create(args) => create::run(&args),
        Command::Add(args) => add::run(&args),
        Command::Delete(args) => delete::run(&args),
        Command::Vacuum(args) => vacuum::run(&args),
        Command::Checkpoint(args) => checkpoint::run(&args),
        Command::Search(args) => search::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Recall(args) => recall::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Check(args) => check::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}
