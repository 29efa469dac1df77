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
        SourceFile::of("ARCHITECTURE.md", "### `crates/a`\n\n### `xtask`\n"),
        SourceFile::of("README.md", &format!("`gcc`\n{extra}\n")),
        SourceFile::of("scripts/packages.txt", "# list\ngcc | build | links\n"),
        SourceFile::of("crates/a/Cargo.toml", ""),
        SourceFile::of("xtask/Cargo.toml", ""),
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
    one(&documents::check(&files), "has no section `crates/b`");
    let mut files = documents_with("");
    files[0] = SourceFile::of("ARCHITECTURE.md", "### `crates/a`\n### `xtask/`\n### `crates/z`\n");
    one(&documents::check(&files), "describes `crates/z`");
}

#[test]
fn the_readme_names_every_package() {
    let mut files = documents_with("");
    files[2] = SourceFile::of("scripts/packages.txt", "gcc | build | links\nmoon | run | light\n");
    one(&documents::check(&files), "packages.txt:2: README.md does not name the package `moon`");
}
