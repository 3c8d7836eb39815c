//! The page of the papers, of a record and what is kept of its run: whatever is wrong is named, and
//! no markup of theirs is the page's; never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fulmar_lab::fuzzing::papers_page(bytes));
