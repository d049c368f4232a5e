//! Scripts with which shells complete the command.

use std::process::Command;

use crate::support::Folder;

/// All commands, as `pagehop help` lists them.
fn commands(folder: &Folder) -> Vec<String> {
    let help = folder.run("help").stdout;
    let listed = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap().to_string();
    let first = |line: &str| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')).map(str::to_string);
    listed.lines().filter_map(first).map(|line| line.split(' ').next().unwrap().to_string()).collect()
}

#[test]
fn every_shell_gets_a_script_with_every_command() {
    let folder = Folder::new();
    let commands = commands(&folder);
    assert!(commands.len() > 12 && commands.contains(&"search".to_string()), "{commands:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = folder.run(&format!("completions {shell}")).stdout;
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell} does not complete {command}");
        }
        assert!(script.contains("overwrite") && script.contains("recall"), "{shell} has no options");
        let checks = Command::new(shell).arg("-n").arg(folder.write("script", &script)).status();
        // The other shells may not be installed.
        assert!(checks.map_or(shell != "bash", |status| status.success()), "{shell} cannot read its script");
    }
}

#[test]
fn bash_completes_commands_and_options() {
    let folder = Folder::new();
    let script = folder.write("script", folder.run("completions bash").stdout);
    for (words, expected) in [
        ("pagehop sea", "search"),
        ("pagehop search --rec", "--recall"),
        ("pagehop build a.npy --metric cos", "cosine"),
    ] {
        let last = words.split(' ').count() - 1;
        let program = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={last}; _pagehop pagehop '{}' '{}'; echo ${{COMPREPLY[@]}}",
            script.display(),
            words.split(' ').next_back().unwrap(),
            words.split(' ').nth(last - 1).unwrap(),
        );
        let done = Command::new("bash").arg("-c").arg(program).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), expected, "{words}");
    }
}

#[test]
fn another_shell_is_refused_by_name() {
    let refused = Folder::new().run("completions tcsh");
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("bash, zsh, fish"), "{}", refused.stderr);
}
