//! The `pagehop` command: build an index, search it, change it, look at it.
//!
//! Results go to standard output, reports and warnings to standard error. `EXIT_CODES` has the exit
//! codes.
//!
//! `commands/` has one file or folder for each command. Commands do not use each other. What
//! several commands need is beside this file.
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod effort;
mod errors;
mod formats;
mod index_file;
mod interrupt;
mod output;
mod progress;
mod queries;
mod warnings;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{
    add, backup, build, calibrate, check, checkpoint, compact, completions, create, delete, get, ids, info, recall,
    retrain, search, update_columns, vacuum,
};

/// The end of `pagehop --help`.
const EXIT_CODES: &str = "Exit codes: 0 success; 1 failure; 2 wrong use, or an index that another process writes; 130 \
    interrupted. Of check, 1 says that the index is damaged, and 2 that this is not known.";

/// Find the nearest vectors in an index file that may be far larger than memory.
///
/// Vectors are read from .npy, .fvecs, .bvecs, .fbin, .u8bin or .i8bin files.
#[derive(Parser)]
#[command(name = "pagehop", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Build(build::Args),
    Create(create::Args),
    Add(add::Args),
    UpdateColumns(update_columns::Args),
    Delete(delete::Args),
    Vacuum(vacuum::Args),
    Compact(compact::Args),
    Checkpoint(checkpoint::Args),
    Backup(backup::Args),
    Search(search::Args),
    Ids(ids::Args),
    Get(get::Args),
    Calibrate(calibrate::Args),
    Retrain(retrain::Args),
    Recall(recall::Args),
    Info(info::Args),
    Check(check::Args),
    Completions(completions::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Build(args) => build::run(&args),
        Command::Create(args) => create::run(&args),
        Command::Add(args) => add::run(&args),
        Command::UpdateColumns(args) => update_columns::run(&args),
        Command::Delete(args) => delete::run(&args),
        Command::Vacuum(args) => vacuum::run(&args),
        Command::Compact(args) => compact::run(&args),
        Command::Checkpoint(args) => checkpoint::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Search(args) => search::run(&args),
        Command::Ids(args) => ids::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Retrain(args) => retrain::run(&args),
        Command::Recall(args) => recall::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Completions(args) => completions::run(&args, &mut Cli::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}
