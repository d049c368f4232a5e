//! `pagehop completions`: writes a script with which a shell completes the command.

use clap::ValueEnum;
use clap_complete::Shell;

use crate::errors::Error;
use crate::output::Output;

/// Write a script by which a shell completes commands, options and files.
///
/// For bash: pagehop completions bash > ~/.local/share/bash-completion/completions/pagehop
///
/// For zsh: pagehop completions zsh > "${fpath[1]}/_pagehop"
///
/// For fish: pagehop completions fish > ~/.config/fish/completions/pagehop.fish
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: ShellName,
}

#[derive(Clone, Copy, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
}

/// Writes the script for `command`, which is all of `pagehop`.
pub(crate) fn run(args: &Args, command: &mut clap::Command) -> Result<(), Error> {
    let shell = match args.shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "pagehop", &mut script);
    let mut output = Output::new();
    output.text(format_args!("{}", String::from_utf8_lossy(&script)))?;
    output.finish()
}
