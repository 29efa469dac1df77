//! Any bytes as the description of a packet, and as a frame.

#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::packet(data));
