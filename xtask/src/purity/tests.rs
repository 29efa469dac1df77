//! Purity: what is found, and what is not.

use super::*;
use crate::workspace::tests::METADATA;

fn found(source: &str) -> Vec<(usize, String)> {
    impure::impure(&mask::without_tests(&mask::code(source)))
}

#[test]
fn paths_are_found_in_every_spelling() {
    for (source, path) in [
        ("use std::fs;", "std::fs"),
        ("use std::fs::File as F;", "std::fs::File"),
        ("use std::{fmt, io};", "std::io"),
        ("use std::{time::{Duration, Instant}, fmt};", "std::time::Instant"),
        ("use std::{\n    fmt as f,\n    env::{self, var},\n};", "std::env"),
        ("fn f() { let now = ::std::time::SystemTime::now(); }", "std::time::SystemTime::now"),
        ("fn f() { std::thread::sleep(d) }", "std::thread::sleep"),
        ("use std::net::*;", "std::net::*"),
        ("use std::net::UdpSocket;", "std::net::UdpSocket"),
    ] {
        let paths: Vec<String> = found(source).into_iter().map(|(_, path)| path).collect();
        assert!(paths.contains(&path.to_owned()), "{source}: {paths:?}");
    }
}

#[test]
fn values_comments_and_tests_are_fine() {
    for source in [
        "use std::net::{Ipv4Addr, Ipv6Addr};",
        "use std::time::Duration;",
        "use std::{fmt, num::ParseIntError};",
        "// std::fs\nconst A: &str = \"std::env\";",
        "#[cfg(test)]\nmod tests { use std::fs; }",
        "use crate::std::fs;",
        "use std::f64::consts;",
    ] {
        assert_eq!(found(source), [], "{source}");
    }
}

#[test]
fn lines_are_right() {
    assert_eq!(found("use a;\n\nuse std::io;"), [(3, "std::io".to_owned())]);
}

#[test]
fn a_pure_crate_forbids_unsafe() {
    let files = [SourceFile::of("crates/weir-wire/src/lib.rs", "//! Doc.\n")];
    let problems = impure_paths("weir-wire", &files);
    assert_eq!(problems.len(), 1, "{problems:?}");
    let files = [SourceFile::of("crates/weir-wire/src/lib.rs", "#![forbid(unsafe_code)]\n")];
    assert_eq!(impure_paths("weir-wire", &files), []);
}

#[test]
fn foreign_dependencies_are_found() {
    let packages = Packages::parse(METADATA.as_bytes()).unwrap();
    let problems = impure_dependencies("pure", &packages);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].message.contains("must not link derive"), "{problems:?}");
}
