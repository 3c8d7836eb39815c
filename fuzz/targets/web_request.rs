//! What a browser, a script or a stranger asks the web view: query, headers, token.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| fulmar::fuzzing::web_request(text));
