//! Manual pages and completions, from the definition of a command line.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

/// Writes a page for a program and for each of its subcommands, and completions for three shells.
///
/// # Errors
/// Those of writing files.
pub(crate) fn write(folder: &Path, command: Command) -> io::Result<()> {
    let mut command = without_help(command);
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
    command.build();
    write_pages(&pages, &command)
}

/// Takes the command `help` away everywhere: its pages would say again what those of the commands
/// do.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

fn write_pages(folder: &Path, command: &Command) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_pages(folder, subcommand)?;
    }
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    let page = keep_tables(&String::from_utf8_lossy(&page));
    let name = command.get_display_name().unwrap_or(command.get_name());
    fs::write(folder.join(format!("{name}.1")), page)
}

/// Keeps what stands in columns in them: lines that begin with a space are not filled.
fn keep_tables(page: &str) -> String {
    let mut kept = String::with_capacity(page.len());
    let mut in_table = false;
    for line in page.lines() {
        let is_row = line.starts_with(' ');
        match (in_table, is_row) {
            (false, true) => kept.push_str(".nf\n"),
            (true, false) => kept.push_str(".fi\n"),
            _ => {}
        }
        in_table = is_row;
        // clap_mangen's heading for what --help says last.
        kept.push_str(if line == ".SH EXTRA" { ".SH NOTES" } else { line });
        kept.push('\n');
    }
    kept
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
        let pages = fs::read_dir(folder.path().join("man")).unwrap().map(|page| page.unwrap());
        let help: Vec<_> =
            pages.filter(|page| page.file_name().to_string_lossy().contains("-help")).collect();
        assert!(help.is_empty(), "{help:?}");
        for file in ["bash/fulmar", "zsh/_fulmar", "fish/fulmar.fish"] {
            let text = fs::read_to_string(folder.path().join(file)).unwrap();
            let commands = ["run", "check", "keygen", "reload", "status"];
            assert!(commands.iter().all(|command| text.contains(command)), "{file}");
        }
    }

    #[test]
    fn columns_of_a_page_stay_columns() {
        let page = ".SH EXTRA\nText\n  a   b\n  aa  bb\nmore";
        let kept = ".SH NOTES\nText\n.nf\n  a   b\n  aa  bb\n.fi\nmore\n";
        assert_eq!(keep_tables(page), kept);
    }
}
