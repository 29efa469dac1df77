use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::source::MemorySources;

use super::*;

const TEXT: &str = "\
ext = \"em0\"
table <bad> persist { 10.0.0.1, ! 10.0.0.2/31, 2001:db8::/32 }
table <big> file \"big\"
pass in on $ext proto tcp from ! <bad> to any port { 22 80 } # <bad>
anchor \"in/*\"
anchor \"in\" {
  table <bad> { 192.0.2.1 }
  anchor web {
    block from <bad>
  }
}
load anchor \"in/late\" from \"late\"
include \"part\"
pass out on $cli keep state (max-src-conn-rate 3/4, overload <bad>)
";

fn analysis() -> (Analysis, Facts) {
    let facts = Facts::parse("interface em0 192.0.2.1/24\n").unwrap();
    let big: String = (0..100).map(|host| format!("10.0.1.{host}\n")).collect();
    let provider = MemorySources::default()
        .with("big", big)
        .with("late", "pass\n")
        .with("part", "inner = 22\npass in proto tcp to port $inner\n");
    let macros = [("cli".to_owned(), "em0".to_owned())];
    let input = ParseInput {
        name: "pf.conf",
        bytes: TEXT.as_bytes(),
        dialect: None,
        macros: &macros,
        provider: &provider,
        limits: Limits::default(),
    };
    let compiled = weir_rules::compile(input, &facts);
    assert_eq!(compiled.error_count, 0, "{:?}", compiled.diagnostics);
    (Analysis { compiled }, facts)
}

/// The place of the `count`th occurrence of some words, from 1.
fn place(text: &str, words: &str, count: usize) -> u32 {
    let mut found = text.match_indices(words);
    u32::try_from(found.nth(count - 1).unwrap_or_else(|| panic!("{words}")).0).unwrap()
}

fn hover(words: &str, count: usize) -> Option<(String, String)> {
    let (analysis, facts) = analysis();
    let hover = analysis.hover(FileId(0), place(TEXT, words, count) + 1, &facts)?;
    assert!(hover.span.start < hover.span.end);
    Some((hover.code, hover.note))
}

/// The words at which a definition is, with their line from 1.
fn definitions(words: &str, count: usize) -> Vec<String> {
    let (analysis, _) = analysis();
    let targets = analysis.definitions(FileId(0), place(TEXT, words, count) + 1);
    let sources = &analysis.compiled.sources;
    let shown = targets.iter().map(|target| match target {
        Target::Words(span) => format!("{} {}", sources.place(*span), sources.text(*span)),
        Target::File(name, _) => format!("file {name}"),
    });
    shown.collect()
}

#[test]
fn a_statement_shows_its_rules() {
    let (code, note) = hover("pass in on", 1).unwrap();
    let lines: Vec<&str> = code.lines().collect();
    assert_eq!(lines.len(), 2, "{code}");
    assert!(lines[0].contains("on em0") && lines[0].contains("= ssh"), "{code}");
    assert!(lines[1].contains("= http"), "{code}");
    assert_eq!(note, "2 rules");
    let (code, note) = hover("block", 1).unwrap();
    assert!(code.starts_with("block") && code.contains("<bad>"), "{code}");
    assert_eq!(note, "");
}

#[test]
fn macros_and_tables_show_their_values() {
    assert_eq!(hover("$ext", 1), Some(("ext = \"em0\"".into(), String::new())));
    let (code, note) = hover("$cli", 1).unwrap();
    assert_eq!((code.as_str(), note.as_str()), ("cli = \"em0\"", "from the command line"));
    let table = "table <bad> persist { 10.0.0.1, ! 10.0.0.2/31, 2001:db8::/32 }";
    for words in ["table <bad> persist", "<bad> persist", "<bad> to", "<bad>)"] {
        let (code, note) = hover(words, 1).unwrap();
        assert_eq!((code.as_str(), note.as_str()), (table, "3 entries"), "{words}");
    }
    let (code, note) = hover("<big>", 1).unwrap();
    assert!(code.starts_with("table <big> file \"big\" { 10.0.1.0, "), "{code}");
    assert_eq!(note, "the first 12 of 100 entries");
    // An anchor's own table comes before the main ruleset's, also for its own statement.
    assert_eq!(hover("<bad> {", 1).unwrap().0, "table <bad> { 192.0.2.1 }");
    // In a comment, it is the statement that shows, or nothing.
    assert!(hover("# <bad>", 1).is_none_or(|(code, _)| code.starts_with("pass in")));
}

#[test]
fn definitions_are_found() {
    assert_eq!(definitions("$ext", 1), ["pf.conf:1 ext"]);
    assert_eq!(definitions("ext =", 1), ["pf.conf:1 ext"]);
    assert_eq!(definitions("$cli", 1), Vec::<String>::new());
    assert!(definitions("<bad> to", 1)[0].starts_with("pf.conf:2 "));
    assert!(definitions("<bad>)", 1)[0].starts_with("pf.conf:2 "));
    assert_eq!(definitions("\"part\"", 1), ["file part"]);
    assert_eq!(definitions("\"late\"", 1), ["file late"]);
    assert_eq!(definitions("\"big\"", 1), ["file big"]);
    let all = definitions("\"in/*\"", 1);
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[0].starts_with("pf.conf:8 ") && all[1].starts_with("pf.conf:12 "), "{all:?}");
    assert_eq!(definitions("proto tcp", 1), Vec::<String>::new());
}

#[test]
fn included_files_have_places_of_their_own() {
    let (analysis, facts) = analysis();
    let part = "inner = 22\npass in proto tcp to port $inner\n";
    let at = place(part, "$inner", 1);
    let hover = analysis.hover(FileId(1), at, &facts).unwrap();
    assert_eq!((hover.code.as_str(), hover.span.file), ("inner = \"22\"", FileId(1)));
    let rules = analysis.hover(FileId(1), place(part, "pass", 1), &facts).unwrap();
    assert!(rules.code.contains("port = ssh"), "{}", rules.code);
    let to = analysis.definitions(FileId(1), at);
    assert!(matches!(to[..], [Target::Words(Span { file: FileId(1), start: 0, .. })]), "{to:?}");
    assert_eq!(analysis.hover(FileId(9), 0, &facts), None);
    assert_eq!(analysis.hover(FileId(0), u32::MAX, &facts), None);
}
