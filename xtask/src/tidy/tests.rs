//! Each rule of tidiness, kept and broken.

use super::*;

fn messages(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(Problem::to_string).collect()
}

fn one(problems: &[Problem], part: &str) {
    assert_eq!(problems.len(), 1, "{:?}", messages(problems));
    assert!(messages(problems)[0].contains(part), "{:?}", messages(problems));
}

#[test]
fn line_rules() {
    let wide = "x".repeat(101);
    one(&lines::check(&SourceFile::of("a.rs", &format!("{wide}\n"))), "a.rs:1: 101 characters");
    one(&lines::check(&SourceFile::of("a.rs", "a \n")), "blank at the end");
    one(&lines::check(&SourceFile::of("a.rs", "\ta\n")), "tab");
    one(&lines::check(&SourceFile::of("a.rs", "a")), "no newline");
    one(&lines::check(&SourceFile::of("a.rs", &"a\n".repeat(801))), "801 lines");
    one(&lines::check(&SourceFile::of("a.c", &format!("\t{}\n", "x".repeat(93)))), "101");
    for fine in [
        SourceFile::of("a.rs", &format!("{}\n", "é".repeat(100))),
        SourceFile::of("Makefile", "\ta\n"),
        SourceFile::of("a.md", &format!("| {wide} |\n[a]({wide})\n")),
        SourceFile::of("a.lock", &format!("{wide} \n")),
    ] {
        assert_eq!(lines::check(&fine), [], "{}", fine.path);
    }
}

#[test]
fn files_begin_as_they_should() {
    one(&headers::check(&SourceFile::of("crates/x/src/a.rs", "use a;\n")), "begins without");
    one(&headers::check(&SourceFile::of("bpf/a.bpf.c", "/* a */\n")), "SPDX");
    let licensed = "// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause\n";
    assert_eq!(headers::check(&SourceFile::of("bpf/a.bpf.c", licensed)), []);
    assert_eq!(headers::check(&SourceFile::of("crates/x/build.rs", "use a;\n")), []);
}

#[test]
fn unfinished_work_is_found() {
    for word in [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["HA", "CK"]] {
        let text = format!("// {}: later\n", word.concat());
        one(&words::check(&SourceFile::of("a.rs", &text)), "open an issue");
    }
    let text = ["fn f() { d", "bg!(1); }\n"].concat();
    one(&words::check(&SourceFile::of("a.rs", &text)), "debugging macro");
    let fine = "// mktemp XXXXXX, TODOS\n";
    assert_eq!(words::check(&SourceFile::of("a.sh", fine)), []);
}

#[test]
fn names_say_what_they_name() {
    for line in [
        "let own = 1;",
        "fn told() {}",
        "Self { wanted, .. }",
        "use a::Told;",
        "let is_own = 1;",
        "const TOLD_FROM_BYTES: u64 = 1;",
        "Side::OwnRule",
        "type IsWanted = bool;",
    ] {
        let file = SourceFile::of("crates/x/tests/a.rs", &format!("{line}\n"));
        one(&words::check(&file), "a.rs:1: `");
        one(&words::check(&file), "use the noun");
    }
    for line in [
        "/// Its own.",
        "f(\"the driver's own\"); // as told",
        "let is_owned = untold;",
        "DOWN | KnownHosts | SHOWN_MAX",
    ] {
        assert_eq!(words::check(&SourceFile::of("a.rs", &format!("{line}\n"))), [], "{line}");
    }
    let test = "#[test]\n#[ignore]\nfn it_is_told() { a() }\n";
    assert_eq!(words::check(&SourceFile::of("a.rs", test)), []);
    one(&words::check(&SourceFile::of("a.rs", &test.replace("a()", "own_a()"))), "`own_a`");
    one(&words::check(&SourceFile::of("a.rs", &format!("{test}fn is_told() {{}}\n"))), "a.rs:4");
    assert_eq!(words::check(&SourceFile::of("a.sh", "own=1\n")), []);
}

#[test]
fn unsafe_has_one_home() {
    let code = ["//! unsafe\nfn f() { un", "safe { g() } }\n"].concat();
    one(&unsafety::check(&SourceFile::of("crates/weir-net/src/a.rs", &code)), "a.rs:2");
    assert_eq!(unsafety::check(&SourceFile::of("crates/weir-bpf/src/a.rs", &code)), []);
    one(&unsafety::check(&SourceFile::of("crates/weir-net/src/lib.rs", "//! A.\n")), "forbid");
}

#[test]
fn large_files_are_found() {
    let file = SourceFile { path: "a.png".into(), size_bytes: 204_801, text: None };
    assert!(size(&file).is_some());
    assert!(size(&SourceFile { size_bytes: 204_800, ..file }).is_none());
}

#[test]
fn functions_are_measured() {
    let source = "\
impl A {
    fn one(&self) -> [u8; 3] where Self: Sized {
        let f: fn(u8) -> u8 = g; // fn not_one() {
        match x { B { y } => {} }
    }
    fn declared(&self) -> u8;
    const fn two() {
        fn inner() {
            \"}\"
        }
    }
}
fn three(
    a: [u8; { 1 + 1 }],
) { }
";
    let found: Vec<(String, usize, usize)> = functions::functions(&crate::mask::code(source))
        .into_iter()
        .map(|function| (function.name, function.line, function.line_count))
        .collect();
    let expected = [("one", 2, 4), ("inner", 8, 3), ("two", 7, 5), ("three", 13, 3)];
    assert_eq!(found, expected.map(|(name, line, count)| (name.to_owned(), line, count)));
}

/// A function of `line_count` lines.
fn long_function(line_count: usize) -> SourceFile {
    SourceFile::of("a.rs", &format!("fn f() {{\n{}}}\n", "    a();\n".repeat(line_count - 2)))
}

fn exceptions(text: &str) -> SourceFile {
    SourceFile::of("xtask/function-length.txt", text)
}

#[test]
fn long_functions_need_an_exception_that_is_exact() {
    assert_eq!(functions::check(&[long_function(70)]), []);
    one(&functions::check(&[long_function(71)]), "a.rs:1: f has 71 lines");
    let listed = exceptions("# why\na.rs f 80\n");
    assert_eq!(functions::check(&[long_function(80), listed.clone()]), []);
    one(&functions::check(&[long_function(75), listed.clone()]), "txt:2: f has 75 lines");
    one(&functions::check(&[long_function(81), listed.clone()]), "may only go down");
    one(&functions::check(&[long_function(70), listed]), "remove this line");
    one(&functions::check(&[exceptions("nonsense\n")]), "not `path function lines`");
}

/// The least that the rules on documents ask for, with `extra` in the README.
fn documents_with(extra: &str) -> Vec<SourceFile> {
    vec![
        SourceFile::of(
            "ARCHITECTURE.md",
            "| `crates/a` | a | wire | x |\n| `xtask` | x | — | y |\n",
        ),
        SourceFile::of("README.md", &format!("# a\n{extra}\n")),
        SourceFile::of("scripts/packages.txt", "# list\ngcc | build | links\n"),
        SourceFile::of("crates/a/Cargo.toml", ""),
        SourceFile::of("xtask/Cargo.toml", ""),
        SourceFile::of("docs/install.md", "`gcc`\n"),
    ]
}

#[test]
fn links_resolve() {
    for fine in [
        "[a](crates/a/Cargo.toml#x)",
        "[d](crates/) and [e](https://example.net/)",
        "`[code](nowhere)`",
        "```\n[block](nowhere)\n```",
        "[top](#top)",
    ] {
        assert_eq!(documents::check(&documents_with(fine)), [], "{fine}");
    }
    one(&documents::check(&documents_with("[a](x.md)")), "README.md:2: the link to x.md");
    one(&documents::check(&documents_with("[`a`](../x.md)")), "leads nowhere");
}

#[test]
fn the_code_map_is_complete_and_true() {
    let mut files = documents_with("");
    files.push(SourceFile::of("crates/b/Cargo.toml", ""));
    one(&documents::check(&files), "has no row `crates/b`");
    let mut files = documents_with("");
    let table = "| `crates/a` | a | wire | x |\n| `xtask` | x | — | y |\n| `crates/z` | z |\n";
    files[0] = SourceFile::of("ARCHITECTURE.md", table);
    one(&documents::check(&files), "ARCHITECTURE.md:3: describes `crates/z`");
    // What xtask may use is in the table of layers: nothing.
    let table = "| `crates/a` | a | wire | x |\n| `xtask` | x | wire | y |\n";
    files[0] = SourceFile::of("ARCHITECTURE.md", table);
    one(&documents::check(&files), "ARCHITECTURE.md:2: `xtask` may use");
}

#[test]
fn the_page_about_installing_names_every_package() {
    let mut files = documents_with("");
    files[2] = SourceFile::of("scripts/packages.txt", "gcc | build | links\nmoon | run | light\n");
    one(&documents::check(&files), "2: docs/install.md does not name the package `moon`");
}

#[test]
fn examples_are_run_or_not_there() {
    let found = |manifest: &str, source: &str| {
        let files = [
            SourceFile::of("crates/x/Cargo.toml", manifest),
            SourceFile::of("crates/x/src/lib.rs", source),
        ];
        doctests::check(&files).into_iter().map(|problem| problem.line).collect::<Vec<_>>()
    };
    let off = "[lib]\ndoctest = false\n";
    let text = "//! A.\n//! ```text\n//! a\n//! ```\n";
    assert_eq!(found(off, text), []);
    assert_eq!(found("", text), [None], "it is looked for in vain");
    for fence in ["```", "```no_run", "``` rust", "```rust,ignore"] {
        let source = format!("{text}\n/// {fence}\n/// a();\n/// ```\n");
        assert_eq!(found("", &source), []);
        assert_eq!(found(off, &source), [Some(6)], "{fence}");
    }
}

#[test]
fn what_a_name_does_not_say_is_documented() {
    let found = |text: &str| docs::check(&SourceFile::of("crates/x/src/a.rs", text)).len();
    for bare in [
        "pub fn send(count: u32) {}",
        "pub fn send(&self, count: u32) {}",
        "pub fn send(\n    self,\n) {}",
        "pub const COUNT_MAX: u32 = 3;",
        "pub trait Device {}",
        "#[must_use]\npub fn send(count: u32) {}",
    ] {
        assert_eq!(found(bare), 1, "{bare}");
        assert_eq!(found(&format!("/// It is as it is here.\n{bare}")), 0, "{bare}");
    }
    for plain in [
        "pub fn count(&self) -> u32 {}",
        "pub fn new() -> Self {}",
        "pub struct Count {\n    pub count: u32,\n}",
        "pub(crate) fn send(count: u32) {}",
        "/// Bits of a flag here.\npub mod flags {\n    pub const ONE: u32 = 1;\n}",
        "#[cfg(test)]\nmod tests {\n    pub fn send(count: u32) {}\n}",
    ] {
        assert_eq!(found(plain), 0, "{plain}");
    }
    let attribute = "/// What it does here.\n#[expect(\n    lint,\n    reason = \"r\"\n)]\n";
    assert_eq!(found(&format!("{attribute}pub fn send(count: u32) {{}}")), 0);
}

#[test]
fn a_comment_that_repeats_the_name_goes() {
    let found = |comment: &str, item: &str| {
        let file = SourceFile::of("crates/x/src/a.rs", &format!("/// {comment}\n{item}\n"));
        docs::check(&file).into_iter().map(|problem| problem.line).collect::<Vec<_>>()
    };
    assert_eq!(found("The address.", "address: IpAddr,"), [Some(1)]);
    assert_eq!(found("A flow count.", "pub struct FlowCount {"), [Some(1)]);
    assert_eq!(found("Its files.", "pub(in crate::a) file: File,"), [Some(1)]);
    assert_eq!(found("Its size, bytes.", "size_bytes: usize,"), [Some(1)]);
    for (comment, item) in [
        ("Of the DUT.", "address: IpAddr,"),
        ("`pass`", "Pass,"),
        ("The address that is asked for.", "address: IpAddr,"),
        ("Never empty.", "names: Vec<String>,"),
    ] {
        assert_eq!(found(comment, item), [], "{comment}");
    }
}
