//! Compiles the hooks of the kernel's congestion controls for user space, with what they need of a
//! kernel.

const SOURCE: &str = "kernel/asran_hooks.c";

fn main() {
    println!("cargo:rerun-if-changed=kernel");
    println!("cargo:rerun-if-changed=../crates/tcp-asran/bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    if std::env::var_os("CARGO_FEATURE_PARSERS").is_none() {
        return;
    }
    let mut build = cc::Build::new();
    build.file(SOURCE).include("../crates/tcp-asran/bpf").opt_level(1).warnings(false);
    build.flag("-Wno-attributes").flag("-fno-strict-aliasing");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    if std::process::Command::new(&clang).arg("--version").output().is_ok() {
        build.compiler(clang).flag("-Wno-unknown-attributes");
        build.flag("-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp");
        // What C leaves undefined, and divisions by zero: the processor's trap needs no library.
        build.flag("-fsanitize=undefined").flag("-fsanitize-undefined-trap-on-error");
    }
    build.compile("asran_hooks");
}
