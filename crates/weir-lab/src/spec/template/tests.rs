use proptest::prelude::*;

use super::*;

fn file(text: &str) -> Arc<Source> {
    Arc::new(Source { name: "f".into(), text: text.into() })
}

fn render(text: &str, value: &str) -> String {
    let mut report = Report::new(file(""));
    let template = Template::in_file(&file(text), &mut report);
    assert!(!report.has_errors(), "a good template: {text}");
    template.render(|name| (name == "x").then_some(value))
}

#[test]
fn references_are_replaced_and_escapes_undone() {
    assert_eq!(render("a ${x} b ${x}", "7"), "a 7 b 7");
    assert_eq!(render("$${x} $x $$ $", "7"), "${x} $x $$ $");
    assert_eq!(render("$$${x}", "7"), "$${x}");
    assert_eq!(render("${x}${x}", "${x}"), "${x}${x}", "values are not scanned again");
}

#[test]
fn malformed_references_are_all_reported() {
    let source = file("${\n${} ${a b} $${ok} ${1}\n");
    let mut report = Report::new(file(""));
    let template = Template::in_file(&source, &mut report);
    assert!(!template.is_complete(|_| true));
    let lines: Vec<_> = report.finish().iter().map(|d| d.to_string()).collect();
    let help = "\n  help: `${name}` stands for a sweep or a parameter; `$${` is a plain `${`";
    let names = "cannot be a name: names are letters, digits, `_` and `-`";
    assert_eq!(
        lines,
        [
            format!("f:1:1: error: `${{` without a closing `}}`{help}"),
            format!("f:2:1: error: `${{}}` has no name{help}"),
            format!("f:2:5: error: `a b` {names}{help}"),
            format!("f:2:19: error: `1` {names}{help}"),
        ]
    );
}

#[test]
fn spans_in_the_specification_survive_escapes() {
    let source = file(r#"start = "\t\"${a}\" $${b} ${c}""#);
    let text = Text { text: "\t\"${a}\" $${b} ${c}".into(), span: 8..source.text.len() };
    let template = Template::in_spec(&text, &mut Report::new(Arc::clone(&source)));
    let places: Vec<_> =
        template.references().map(|(name, span)| (name, &source.text[span.clone()])).collect();
    assert_eq!(places, [("a", "${a}"), ("c", "${c}")]);
}

#[test]
fn a_hidden_reference_points_at_the_whole_string() {
    let source = file(r#"start = "\u0024{a}""#);
    let text = Text { text: "${a}".into(), span: 8..18 };
    let template = Template::in_spec(&text, &mut Report::new(Arc::clone(&source)));
    assert_eq!(template.references().collect::<Vec<_>>(), [("a", &(8..18))]);
}

proptest! {
    /// Any text can be written down so that it comes out as itself.
    #[test]
    fn escaping_round_trips(text in "[${}x\\n é-]{0,40}") {
        prop_assert_eq!(render(&text.replace("${", "$${"), "7"), text);
    }

    /// A template renders to the concatenation of its parts.
    #[test]
    fn rendering_concatenates(
        parts in prop::collection::vec(("[a-z{} \\n]{0,8}", any::<bool>()), 0..8),
        value in "[a-z$]{0,5}",
    ) {
        let mut text = String::new();
        let mut expected = String::new();
        for (literal, reference) in &parts {
            text.push_str(literal);
            expected.push_str(literal);
            if *reference {
                text.push_str("${x}");
                expected.push_str(&value);
            }
        }
        prop_assert_eq!(render(&text, &value), expected);
    }

    /// Nothing that is typed makes the scanner fail, and every span is inside the text.
    #[test]
    fn scanning_never_panics(text in "\\PC{0,60}|[${}a\\n]{0,60}") {
        for occurrence in scan(&text, Escape::Always).1 {
            prop_assert!(text.get(occurrence_span(&occurrence)).is_some());
        }
    }
}
