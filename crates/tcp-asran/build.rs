//! Compiles the BPF object with clang, and lets the crate be built without it where there is no
//! clang.
//!
//! Without clang the embedded object is empty: everything else works, and each call of this crate
//! answers `Error::NotBuilt`. `FULMAR_WITHOUT_BPF=1` asks for that on purpose. `CLANG` names
//! another compiler.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "bpf/asran.bpf.c";

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rerun-if-env-changed=FULMAR_WITHOUT_BPF");
    let folder = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let object = Path::new(&folder).join("asran.bpf.o");
    if env::var_os("FULMAR_WITHOUT_BPF").is_some() {
        fs::write(&object, []).expect("OUT_DIR is writable");
        return;
    }
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    if Command::new(&clang).arg("--version").output().is_err() {
        println!(
            "cargo:warning=no {clang} here: ASRAN for the kernel's TCP is left out (apt-get install clang llvm)"
        );
        fs::write(&object, []).expect("OUT_DIR is writable");
        return;
    }
    compile(&clang, &object);
    // Debugging sections double the object; the type information that the loader needs stays.
    let _ = Command::new("llvm-strip").arg("-g").arg(&object).status();
}

/// Compiles the object. A source that does not compile stops the build: a product that silently
/// lacks ASRAN helps nobody.
fn compile(clang: &str, object: &Path) {
    // The byte order of the machine that the object is for, which need not be this one.
    let target = match env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() {
        Ok("big") => "bpfeb",
        _ => "bpfel",
    };
    let status = Command::new(clang)
        .args([
            "-g", "-O2", "-Wall", "-Wextra", "-Werror", "-target", target, "-mcpu=v3", "-c",
            SOURCE, "-o",
        ])
        .arg(object)
        .status();
    let done = status.is_ok_and(|status| status.success());
    assert!(
        done,
        "{clang} could not compile {SOURCE} for BPF (FULMAR_WITHOUT_BPF=1 builds without it)"
    );
}
