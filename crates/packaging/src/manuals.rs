//! Manual pages and completions, from the definition of a command line.

use std::fs;
use std::io;
use std::path::Path;

use clap_complete::Shell;

/// Writes a page for a program and for each of its subcommands, and completions for three shells.
///
/// # Errors
/// Those of writing files.
pub(crate) fn write(folder: &Path, mut command: clap::Command) -> io::Result<()> {
    let program = command.get_name().to_owned();
    for (shell, name) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        let written = clap_complete::generate_to(shell, &mut command, &program, &folder)?;
        if shell == Shell::Bash {
            // bash-completion looks for a file that is called as the program is.
            fs::rename(written, folder.join(&program))?;
        }
    }
    let pages = folder.join("man");
    fs::create_dir_all(&pages)?;
    // Pages of `help` and of the options that every program has would say nothing.
    clap_mangen::generate_to(command.disable_help_subcommand(true), &pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_is_completed_in_each_shell() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), fulmar::command_line()).unwrap();
        write(folder.path(), fulmar_lab::command_line()).unwrap();
        for page in ["fulmar", "fulmar-run", "fulmar-cc-install", "fulmar-lab", "fulmar-lab-demo"] {
            let text = fs::read_to_string(folder.path().join(format!("man/{page}.1"))).unwrap();
            assert!(text.contains(".SH NAME"), "{page}: {text}");
        }
        for file in ["bash/fulmar", "zsh/_fulmar", "fish/fulmar.fish"] {
            let text = fs::read_to_string(folder.path().join(file)).unwrap();
            let commands = ["run", "check", "keygen", "reload", "status"];
            assert!(commands.iter().all(|command| text.contains(command)), "{file}");
        }
    }
}
