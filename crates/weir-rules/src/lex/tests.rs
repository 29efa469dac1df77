use super::*;
use crate::source::MemorySources;
use crate::value::Spanned;

fn words(text: &str, macros: &[(&str, &str)]) -> (String, Vec<String>) {
    let limits = Limits::default();
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::new(&limits));
    let files = MemorySources::default();
    let mut lexer = Lexer::new(&mut sources, &mut diagnostics, &files, limits);
    for (name, value) in macros {
        let text = |text: &str| Spanned { value: text.into(), span: Span::default() };
        lexer.macros.define(text(name), text(value), false);
    }
    lexer.push_bytes("test", text.as_bytes(), Span::default());
    let mut words = Vec::new();
    loop {
        words.push(match lexer.next().kind {
            TokenKind::End => break,
            TokenKind::Word(word) => word.to_string(),
            TokenKind::Quoted(word) => format!("\"{word}\""),
            TokenKind::Number(number) => format!("#{number}"),
            TokenKind::Arrow => "->".to_owned(),
            TokenKind::Inside => "><".to_owned(),
            TokenKind::Outside => "<>".to_owned(),
            TokenKind::Punct(c) => c.to_string(),
            TokenKind::Newline => "\\n".to_owned(),
            TokenKind::Broken => "?".to_owned(),
        });
    }
    let messages = diagnostics.list().iter().map(|problem| problem.message.clone()).collect();
    (words.join(" "), messages)
}

#[test]
fn tokens_are_pfs() {
    for (text, expected) in [
        ("pass in # all\nblock", "pass in \\n block"),
        ("a \\\n b", "a b"),
        ("# a \\\n b\nc", "\\n c"),
        ("10/8", "#10 / #8"),
        ("10.0.0.0/8,80:90", "10.0.0.0 / #8 , 80:90"),
        ("!= 80 >< 90 <> -> <a>", "! = #80 >< #90 <> -> < a >"),
        ("\"a b\" 'c \" d' \"e\\\"f\" \"g\\h\"", "\"a b\" \"c \" d\" \"e\"f\" \"g\\h\""),
        ("\"a\nb\"", "\"ab\""),
        ("fe80::1%em0 50% -5 a-b 1-2", "fe80::1%em0 50% #-5 a-b 1-2"),
        ("pass\u{c}\n", "pass \\n"),
        ("é", "é"),
    ] {
        assert_eq!(words(text, &[]), (expected.to_owned(), vec![]), "{text}");
    }
}

#[test]
fn macros_are_lexed_again() {
    let macros =
        [("net", "10.0.0"), ("list", "{ a, \"b c\" }"), ("self", "$self"), ("q", "a $x.1 b")];
    assert_eq!(words("$net.1/24 $list", &macros).0, "10.0.0.1 / #24 { a , \"b c\" }");
    assert_eq!(words("\"$net\" a$net", &macros), ("\"$net\" a$net".to_owned(), vec![]));
    let refused = "`$x.1` comes from within quotes, where no macro is expanded".to_owned();
    assert_eq!(words("$q", &macros), ("a ? b".to_owned(), vec![refused]));
    let (text, messages) = words("$self", &macros);
    assert_eq!(text, "?");
    assert_eq!(messages, ["macro `self` refers to itself: self -> self"]);
    let (_, messages) = words("$nett", &macros);
    assert_eq!(messages, ["macro `nett` is not defined"]);
}

/// As `lgetc` of pfctl's parse.y.
#[test]
fn a_backslash_in_a_line_is_dropped() {
    for (text, expected) in [
        ("{ 0.0.0.0/8 \\ # and more\n10.0.0.0/8 }", "{ 0.0.0.0 / #8 \\n 10.0.0.0 / #8 }"),
        ("pass \\ all", "pass all"),
        ("pa\\ss", "pass"),
        ("pass \\# all", "pass"),
        ("# one \\ two\npass", "\\n pass"),
        ("# one \\\ntwo\npass", "\\n pass"),
    ] {
        let found = words(text, &[]);
        assert_eq!(found.0, expected, "{text}");
    }
}

#[test]
fn what_does_not_end_is_reported() {
    for (text, expected) in [
        ("pass \"abc\nblock", "pass ? \\n block"),
        ("pass \"abc d\nblock \"e\"\n", "pass ? \\n block \"e\" \\n"),
        ("pass 'abc\nx = \"e\"", "pass ? \\n x = \"e\""),
        ("\"a\nqueue b", "? \\n queue b"),
        ("$open a\nblock", "? a \\n block"),
    ] {
        let found = words(text, &[("open", "\"abc")]);
        assert_eq!(found.0, expected);
        assert_eq!(found.1, ["the string has no closing quote"], "{text}");
    }
    // Newlines within quotes are left out, also in front of words that often begin a line.
    assert_eq!(words("\"a\nqueue b\nno state\"", &[]).0, "\"aqueue bno state\"");
    let found = words("a\\\\ b", &[]);
    assert_eq!((&*found.0, &*found.1[0]), ("? b", "`a\\` ends in a backslash"));
    let (_, messages) = words(&"a".repeat(9000), &[]);
    assert_eq!(messages, ["the word is longer than 8096 bytes"]);
}
