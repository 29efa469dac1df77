//! Circles of modules: what is one, and what is not.

use super::*;

/// A crate `x` of these files, below `crates/x/src`.
fn files(sources: &[(&str, &str)]) -> Vec<SourceFile> {
    let mut files = vec![SourceFile::of("crates/x/Cargo.toml", "")];
    files.extend(sources.iter().map(|(name, text)| {
        let path = if name.starts_with("xtask") {
            (*name).to_owned()
        } else {
            format!("crates/x/src/{name}")
        };
        SourceFile::of(&path, text)
    }));
    files
}

/// The arrows of circles in a crate of these files, as keys.
fn circles(sources: &[(&str, &str)]) -> Vec<String> {
    let keys = findings(&files(sources)).into_iter().map(|finding| finding.key);
    keys.filter(|key| key.contains("->")).collect()
}

const ROOT: (&str, &str) = ("lib.rs", "mod a;\nmod b;\nmod c;\n");

#[test]
fn a_circle_is_found_in_every_spelling() {
    for (a, b) in [
        ("use crate::b::B;", "use crate::a::A;"),
        ("use crate::{b, other::X};", "use crate::a;"),
        ("use super::b::{self, B as C};", "fn f() { crate::a::g() }"),
        ("fn f(x: &super::b::B) {}", "use crate::a::*;"),
        ("pub(crate) use crate::b::{inner::{B, D}};", "mod w { use super::super::a::A; }"),
    ] {
        let found = circles(&[ROOT, ("a.rs", a), ("b.rs", b), ("c.rs", "use crate::a::A;")]);
        assert_eq!(found, ["x: a -> b", "x: b -> a"], "{a} / {b}");
    }
}

#[test]
fn a_circle_of_three_is_one_and_a_way_out_of_it_is_not() {
    let three = [
        ROOT,
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::C;\nuse crate::d::D;"),
        ("c.rs", "use crate::a::A;"),
    ];
    assert_eq!(circles(&three), ["x: a -> b", "x: b -> c", "x: c -> a"]);
    assert_eq!(circles(&three[..3]), [""; 0], "without the way back");
}

#[test]
fn what_is_below_a_module_is_its_own() {
    let below = |deep: &str| {
        circles(&[
            ROOT,
            ("a.rs", "mod deep;\nmod other;"),
            ("a/deep.rs", deep),
            ("a/other.rs", "use super::deep::D;"),
            ("b/mod.rs", "use crate::a::other::O;"),
        ])
    };
    assert_eq!(below("use crate::b::B;"), ["x: a -> b", "x: b -> a"]);
    assert_eq!(below("use super::other::O;"), ["x::a: deep -> other", "x::a: other -> deep"]);
    assert_eq!(below("use super::*;"), [""; 0], "its parent's file is the same room");
}

#[test]
fn a_name_is_followed_to_where_it_comes_from() {
    let shared = |root: &str, b: &str| {
        circles(&[("lib.rs", root), ("a.rs", "use crate::b::B;"), ("b.rs", b)])
    };
    let root = "mod a;\nmod b;\npub use a::{A, Other as Named};\npub fn at_home() {}";
    let both = ["x: a -> b", "x: b -> a"];
    assert_eq!(shared(root, "use crate::A;"), both);
    assert_eq!(shared(root, "fn f() { crate::Named::new() }"), both);
    assert_eq!(shared(root, "fn f() { crate::at_home() }"), [""; 0]);
    assert_eq!(shared("mod a;\nmod b;\npub use a::*;", "use crate::A;"), [""; 0], "not defined");
    let wildcard = circles(&[
        ("lib.rs", "mod a;\nmod b;\npub use a::*;"),
        ("a.rs", "use crate::b::B;\npub struct A;"),
        ("b.rs", "use crate::A;"),
    ]);
    assert_eq!(wildcard, both);
}

#[test]
fn tests_comments_and_other_crates_are_no_arrows() {
    for b in [
        "#[cfg(test)]\nmod tests { use crate::a::A; }",
        "#[cfg(test)]\nmod tests;",
        "// crate::a::A\nconst S: &str = \"crate::a\";",
        "use other::a::A;",
        "use ::a::A;",
    ] {
        let tests = ("b/tests.rs", "use crate::a::A;");
        let found = circles(&[ROOT, ("a.rs", "use crate::b::B;"), ("b.rs", b), tests]);
        assert_eq!(found, [""; 0], "{b}");
    }
}

#[test]
fn the_place_of_an_arrow_is_named() {
    let a = ("a.rs", "use std::fmt;\n\nuse crate::b::B;\nuse crate::b::C;");
    let found = check_files(&files(&[ROOT, a, ("b.rs", "use crate::a::A;")]));
    assert_eq!((found[0].path.as_str(), found[0].line), ("crates/x/src/a.rs", Some(3)));
    assert!(found[0].message.contains("`a` names `b`"), "{found:?}");
}

#[test]
fn the_list_of_known_ones_can_only_shrink() {
    let a = ("a.rs", "use crate::b::B;");
    let known = ("xtask/rooms.txt", "# why\nx: a -> b\nx: b -> a\nx: over a fifth\n");
    let stays = files(&[ROOT, a, ("b.rs", "use crate::a::A;"), known]);
    assert_eq!(check_files(&stays), []);
    let found = check_files(&files(&[ROOT, a, ("b.rs", ""), known]));
    assert_eq!(found.iter().map(|problem| problem.line).collect::<Vec<_>>(), [Some(2), Some(3)]);
    assert!(found[0].message.contains("`x: a -> b` is fixed"), "{found:?}");
    let more = files(&[ROOT, a, ("b.rs", "use crate::{a, c};"), ("c.rs", "use crate::b;"), known]);
    let found: Vec<_> = check_files(&more).into_iter().map(|p| p.message).collect();
    assert!(found.iter().any(|message| message.contains("`b` names `c`")), "{found:?}");
}

#[test]
fn a_fifth_of_the_product_is_the_most() {
    let line = "pub fn f() {}\n";
    let crates = |counts: &[usize]| {
        let mut files = Vec::new();
        for (index, count) in counts.iter().enumerate() {
            files.push(SourceFile::of(&format!("crates/c{index}/Cargo.toml"), ""));
            let text =
                line.repeat(*count) + "// no code\n\n#[cfg(test)]\nmod tests { fn f() {} }\n";
            files.push(SourceFile::of(&format!("crates/c{index}/src/lib.rs"), &text));
        }
        findings(&files).into_iter().map(|finding| finding.key).collect::<Vec<_>>()
    };
    assert_eq!(crates(&[10, 10, 10, 10, 10]), [""; 0]);
    assert_eq!(crates(&[11, 10, 10, 10, 10]), ["c0: over a fifth"]);
}

#[test]
fn lines_of_text_are_code_and_comments_are_not() {
    let text = "//! Doc.\n\n/// Doc.\npub const A: &str = \"\n// text\n\nof three\";\n/* a\nb */\n\
                #[cfg(test)]\nmod tests {\n    const B: &str = \"\n{\";\n}\nfn f() {} // said\n";
    let files = files(&[("lib.rs", text)]);
    let tree = Tree::read("crates/x/src", &files);
    assert_eq!(size::line_count(&tree, &files), 4);
}
