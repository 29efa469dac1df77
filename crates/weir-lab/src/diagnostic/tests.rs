use super::*;

fn source() -> Arc<Source> {
    Arc::new(Source { name: "lab.toml".into(), text: "a = 1\nbé = 2\n".into() })
}

#[test]
fn columns_count_characters_from_one() {
    let at = |span: Span| Diagnostic::error(&source(), "x").at(span).position();
    assert_eq!(at(0..1), Some((1, 1)));
    assert_eq!(at(4..5), Some((1, 5)));
    assert_eq!(at(6..7), Some((2, 1)));
    // `é` has two bytes and is one column.
    assert_eq!(at(9..10), Some((2, 3)));
    // The end of the text is a place, too.
    assert_eq!(at(14..14), Some((3, 1)));
}

#[test]
fn display_is_one_line_and_the_advice() {
    let diagnostic = Diagnostic::warning(&source(), "odd").at(6..9).label("here").help("do that");
    assert_eq!(diagnostic.to_string(), "lab.toml:2:1: warning: odd\n  help: do that");
    assert_eq!(Diagnostic::error(&source(), "bad").to_string(), "lab.toml: error: bad");
}

#[test]
fn a_report_drops_repetitions_and_sorts() {
    let file = Arc::new(Source { name: "a.nft".into(), text: "x\n".into() });
    let mut report = Report::new(source());
    report.push(Diagnostic::error(&file, "in the file").at(0..1));
    report.error(&(6..9), "second");
    report.error(&(6..9), "second");
    report.push_once(Diagnostic::error(&report.spec, "at the same place").at(6..9));
    report.error(&(0..1), "first");
    report.push_once(Diagnostic::warning(&report.spec, "a warning").at(6..9));
    assert!(report.has_errors());
    let messages: Vec<_> = report.finish().into_iter().map(|d| d.message).collect();
    assert_eq!(messages, ["first", "second", "a warning", "in the file"]);
}

#[test]
fn quoted_values_stay_on_one_line() {
    assert_eq!(quote("a\nb"), "`a\\nb`");
    assert_eq!(quote("${x} \"y\""), "`${x} \"y\"`");
    assert_eq!(quote(&"x".repeat(61)).chars().count(), 63);
}
