//! How long the data path takes to judge a packet by rules: one by one, and by bit vectors, for
//! growing rulesets. `cargo bench -p weir-fw --bench judge`, as root; docs/fw-rules.md has the
//! figures.
//!
//! A ruleset is `block all` and N - 1 rules that each pass TCP from one network to one host and
//! port; the packets meet rules all over it, and one in four meets none.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a benchmark prints what it found")]

use std::fmt::Write as _;

use weir_bpf::firewall::judge::{Judge, Subject};
use weir_bpf::firewall::layout::{control, image};
use weir_fw::compile::known::Known;
use weir_fw::compile::{CountedTables, Input, Slot, compile};
use weir_fw::heap::Heap;
use weir_fw::install::{Contents, Installer};
use weir_rules::evaluate::Evaluator;
use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::source::MemorySources;
use weir_wire::protocol::TCP;

const HEAP_AT: u32 = 65_536;
const HEAP_BYTES: u32 = 512 << 20;
const PACKET_COUNT: usize = 64;
const RULE_COUNTS: [u32; 8] = [2, 5, 10, 16, 32, 100, 1000, 10_000];

/// The rule of a number: its network, host and port.
fn parts(number: u32) -> (u32, u32, u16) {
    let network = 0x0a00_0000 | (number.wrapping_mul(40_503) & 0xffff) << 8;
    let host = 0xc0a8_0000 | number.wrapping_mul(25_173) & 0xffff;
    (network, host, u16::try_from(1024 + number % 200).unwrap_or(0))
}

fn ruleset(count: u32) -> String {
    let mut text = "block all\n".to_owned();
    for number in 1..count {
        let (network, host, port) = parts(number);
        let (network, host) = (std::net::Ipv4Addr::from(network), std::net::Ipv4Addr::from(host));
        let _ = writeln!(text, "pass in proto tcp from {network}/24 to {host} port {port}");
    }
    text
}

fn subject(number: u32, active: u32) -> Subject {
    let (network, host, port) = parts(number);
    let mut subject = Subject {
        src_port: 40_000,
        dst_port: port,
        protocol: TCP,
        tcp_flags: 2,
        interface: 1,
        ip_bytes: 60,
        ruleset: active,
        ..Subject::default()
    };
    subject.src[..4].copy_from_slice(&(network + 7).to_be_bytes());
    subject.dst[..4].copy_from_slice(&host.to_be_bytes());
    subject
}

/// Mean duration of one judgement, and the bytes of the image.
fn measure(judge: &Judge, count: u32, by_classes: bool, repeat: u32) -> (f64, u32) {
    let facts = Facts::parse("interface em0 10.0.0.1/24").expect("facts");
    let text = ruleset(count);
    let input = ParseInput {
        name: "pf.conf",
        bytes: text.as_bytes(),
        dialect: None,
        macros: &[],
        provider: &MemorySources::default(),
        limits: Limits::default(),
    };
    let read = weir_rules::compile(input, &facts);
    let evaluator = Evaluator::new(&read.ruleset, &[], &facts).expect("evaluator");
    let slots = [Slot { number: 1, interface: "em0".into() }];
    let known = Known::default();
    let counted = CountedTables::new();
    let (evaluator, slots, known) = (&evaluator, &slots, &known);
    let typed = &weir_fw::compile::TypedValues::new();
    let input = Input { evaluator, resolver: &facts, slots, known, counted: &counted, typed };
    let mut compiled = compile(&input).expect("compiles");
    compiled.classify(by_classes);
    let arena = judge.arena();
    arena.write32(control::ACTIVE, 0);
    let heap = Heap::format(arena, HEAP_AT, HEAP_BYTES).expect("heap");
    let installer = Installer::new(arena, heap, 2, 77);
    installer.activate(&compiled, evaluator, &Contents::new(), 1).expect("activated");
    let active = arena.read32(control::ACTIVE);
    let mut total = 0_u64;
    for packet in 0..PACKET_COUNT {
        let packet = u32::try_from(packet).unwrap_or(0);
        // One in four is above the last rule.
        let number = if packet % 4 == 3 { count + packet } else { 1 + packet * count / 64 % count };
        let (_, ns) = judge.run(&subject(number, active), repeat).expect("runs");
        total += u64::from(ns);
    }
    let mean = total as f64 / PACKET_COUNT as f64;
    (mean, arena.read32(active + image::BYTES))
}

/// What the kernel says of the largest program of this process.
fn verified_instructions() -> u64 {
    let files = std::fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let found = texts.filter_map(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("verified_insns:"))?;
        line.trim().parse().ok()
    });
    found.max().unwrap_or(0)
}

fn main() {
    // `cargo bench` says so; anybody else gets a run that only shows that it works.
    let repeat = if std::env::args().any(|argument| argument == "--bench") { 20_000 } else { 10 };
    let judge = match Judge::load() {
        Ok(judge) => judge,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    judge.arena().populate(0, u64::from(HEAP_AT)).expect("memory");
    println!("the verifier went through {} instructions", verified_instructions());
    println!(
        "{:>7} {:>14} {:>14} {:>12} {:>12}",
        "rules", "one by one ns", "vectors ns", "bytes", "bytes"
    );
    for count in RULE_COUNTS {
        let repeat = if count >= 1000 { repeat / 20 + 1 } else { repeat };
        let (linear, linear_bytes) = measure(&judge, count, false, repeat);
        let (vectors, vector_bytes) = measure(&judge, count, true, repeat);
        println!("{count:>7} {linear:>14.0} {vectors:>14.0} {linear_bytes:>12} {vector_bytes:>12}");
    }
}
