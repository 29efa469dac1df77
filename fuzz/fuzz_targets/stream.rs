//! Any bytes as the stream of another firewall.

#![no_main]

#[path = "../streams.rs"]
mod streams;

libfuzzer_sys::fuzz_target!(|data: &[u8]| streams::stream(data));
