//! The two configuration files of the README: whoever copies them has files that work.

use std::path::Path;
use std::process::{Command, Output};

const PUBLIC_KEY: &str = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=";

fn fulmar(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fulmar"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("the program was built for this test")
}

#[test]
fn examples_of_the_readme_are_valid_once_the_keys_are_in() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).expect("the README is there");
    let examples: Vec<&str> = readme
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("\n```").map(|(example, _)| example))
        .collect();
    assert_eq!(examples.len(), 2, "a drone's and a station's");
    for example in examples {
        let directory = tempfile::tempdir().expect("there is room for a file");
        let made = fulmar(&["keygen", "--out", "private.key"], directory.path());
        assert!(made.status.success(), "{made:?}");
        let keys = [("STATION-PUBLIC-KEY", PUBLIC_KEY), ("DRONE-PUBLIC-KEY", PUBLIC_KEY)];
        let text =
            keys.iter().fold(example.to_owned(), |text, (word, key)| text.replace(word, key));
        assert_ne!(text, example, "the example has a place for the key");
        std::fs::write(directory.path().join("fulmar.toml"), text).expect("a file can be written");
        let checked = fulmar(&["check", "fulmar.toml"], directory.path());
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}
