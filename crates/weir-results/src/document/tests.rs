//! What one document becomes in each output.

use super::*;

fn figures() -> Table {
    let row = |name: &str, rate: f64, text: &str| Row {
        because: vec![prose("the DUT lost 87 % of it as `ring_full`")],
        ..Row::from(vec![
            Cell::from(Line::new().swatch(7).text(name)),
            Cell::from(linked(Some("cells/"), text)).under("0.9–1.1").sorted(rate),
            "raw".into(),
        ])
    };
    let columns = vec![
        Column::words("DUT"),
        Column::numbers("Median").unit("Mpps").strong(),
        Column::words("Page").only(Outputs::PAGE),
    ];
    let groups = vec![
        Group {
            title: "few".into(), rows: vec![row("linux", 1e6, "1.00"), row("a|b", 0.0, "–")]
        },
        Group { title: "many".into(), rows: vec![row("nft", 5e5, "0.500")] },
    ];
    Table::grouped("Traffic", columns, groups).style("series").sortable()
}

fn example() -> Document {
    let mut document = Document {
        kind: "weir lab · test".into(),
        title: "a <b> & *c*".into(),
        window: "a <b> – weir".into(),
        answer: vec![
            Block::lead(Line::new().strong("nft").text(" is slower, by -38 %")),
            Block::warning(Line::new().strong("Incomplete.").prose(" See `weir lab resume`.")),
        ],
        foot: "made by weir".into(),
        ..Document::default()
    };
    document.section("figures", "Figures", vec![Block::Table(figures()), Block::note("medians")]);
    document.section("empty", "Nothing", vec![Block::List(Voice::Plain, Vec::new())]);
    let figure = Figure { style: "", drawings: vec!["<svg></svg>".into()], caption: "bars".into() };
    document.section("plots", "Plots", vec![Block::Figure(figure)]);
    document.section(
        "more",
        "More",
        vec![
            Block::Titled(
                Fold::Closed,
                "folded".into(),
                vec![Block::Preformatted("x ``` <\n".into())],
            ),
            Block::List(Voice::Plain, vec![Line::new().link("cells/a/", "cells")]),
            Block::Facts("list", vec![("CPU".into(), "2 of `them`".into())]),
            Block::Only(Outputs::TERMINAL, vec![Block::plain("for eyes alone")]),
        ],
    );
    document
}

#[test]
fn a_page_holds_all_and_escapes_it() {
    let page = example().html();
    for part in [
        "<title>a &lt;b&gt; – weir</title>",
        "<h1>a &lt;b&gt; &amp; *c*</h1>",
        "<strong>nft</strong> is slower, by \u{2212}38\u{a0}%",
        "<p class=\"notice\"><strong>Incomplete.</strong> See <code>weir lab resume</code>.</p>",
        "<table class=\"series sortable\" data-groups=\"Traffic\">",
        "<li><a href=\"#figures\">Figures</a></li>",
        "<th scope=\"col\" class=\"n\">Median<span class=\"unit\">Mpps</span></th>",
        "<tr class=\"group\"><th colspan=\"3\" scope=\"rowgroup\">few</th></tr>",
        "<tr class=\"figures\"><th scope=\"row\"><span class=\"swatch c-s1\"></span>linux</th>",
        "<td class=\"n strong\" data-value=\"1000000\"><a href=\"cells/\">1.00</a>\
         <span class=\"under\">0.9–1.1</span>",
        "<tr class=\"because\"><td colspan=\"3\"><div class=\"reason\">the DUT lost 87\u{a0}% of",
        "<figure><svg></svg><figcaption>bars</figcaption></figure>",
        "<details><summary>folded</summary><pre tabindex=\"0\">x ``` &lt;</pre></details>",
        "<a href=\"cells/a/\">cells</a>",
        "<footer><p>made by weir</p></footer>",
        "--s0:",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("id=\"empty\"") && !page.contains("for eyes alone"), "{page}");
}

#[test]
fn markdown_is_taken_literally() {
    let expected = "\
# a &lt;b&gt; &amp; \\*c\\*

**nft** is slower, by -38 %

> **Incomplete.** See `weir lab resume`.

## Figures

| Traffic | DUT | Median, Mpps |
| --- | --- | ---: |
| few | linux | **1.00** (0.9–1.1) |
| few | a\\|b | – (0.9–1.1) |
| many | nft | **0.500** (0.9–1.1) |

- few, linux: the DUT lost 87 % of it as `ring_full`
- few, a\\|b: the DUT lost 87 % of it as `ring_full`
- many, nft: the DUT lost 87 % of it as `ring_full`

medians

## More

folded:

````text
x ``` <
````

- [cells](cells/a/)

- CPU: 2 of \\`them\\`
";
    assert_eq!(example().markdown(), expected);
}

#[test]
fn markdown_has_no_tag_of_a_name() {
    let name = "<img src=x onerror=alert(1)>";
    let both = Line::new().text(name).code(name);
    let document =
        Document { title: name.to_owned(), body: vec![Block::plain(both)], ..Document::default() };
    let text = document.markdown();
    assert!(!text.contains('<'), "{text}");
    assert_eq!(text.matches("&lt;img").count(), 3, "{text}");
}

#[test]
fn a_terminal_ends_with_the_answer() {
    let expected = "\
Figures
Traffic  DUT       Median, Mpps
few      linux   1.00 (0.9–1.1)
    the DUT lost 87 % of it as `ring_full`
few      a|b        – (0.9–1.1)
    the DUT lost 87 % of it as `ring_full`
many     nft    0.500 (0.9–1.1)
    the DUT lost 87 % of it as `ring_full`
medians

More
folded
x ``` <

  cells

CPU  2 of `them`

for eyes alone

nft is slower, by -38 %

Incomplete. See `weir lab resume`.
";
    assert_eq!(example().text(Terminal::default()), expected);
}

#[test]
fn a_terminal_has_its_width_and_its_colours() {
    let document = Document {
        answer: vec![Block::lead(Line::new().strong("one two").text(", three four"))],
        ..Document::default()
    };
    let text = document.text(Terminal { width: Some(10), colour: false });
    assert_eq!(text, "one two,\nthree four\n");
    let text = document.text(Terminal { width: None, colour: true });
    assert_eq!(text, "\u{1b}[1mone\u{1b}[0m \u{1b}[1mtwo,\u{1b}[0m three four\n");
}

#[test]
fn control_characters_reach_no_terminal_and_no_table() {
    let name = "a\u{1b}[2Jb\nc";
    let document = Document {
        title: name.into(),
        answer: vec![Block::lead(name), Block::plain(Line::new().code(name))],
        ..Document::default()
    };
    let (text, markdown) = (document.text(Terminal::default()), document.markdown());
    assert_eq!(text, "a [2Jb c\n\n`a [2Jb c`\n");
    assert_eq!(markdown, "# a \\[2Jb c\n\na \\[2Jb c\n\n`a [2Jb c`\n");
}

#[test]
fn long_lists_are_counted_on_a_terminal_and_whole_in_a_file() {
    let items: Vec<Line> = (1..=23).map(|n| format!("item {n}").into()).collect();
    let body = vec![Block::List(Voice::Plain, items)];
    let document = Document { body, ..Document::default() };
    let text = document.text(Terminal::default());
    assert!(text.contains("  item 20\n  … and 3 more\n") && !text.contains("item 21"), "{text}");
    assert!(document.markdown().contains("- item 23"));
}

#[test]
fn cells_of_a_row_that_is_part_of_another_say_so() {
    let columns = vec![Column::words("Packets"), Column::numbers("linux").with_aside()];
    let row = |name: &str, is_inner| Row {
        is_inner,
        ..Row::from(vec![Cell::from(name), Cell::from("15,400").under("100 %")])
    };
    let table = Table::new(columns, [row("offered", false), row("lost", true)]);
    let body = vec![Block::Table(table)];
    let document = Document { body, ..Document::default() };
    assert!(document.markdown().contains("| – lost | 15,400 (100 %) |"));
    let page = document.html();
    let cells = "<td class=\"n\">15,400</td><td class=\"n share\">100\u{a0}%</td>";
    assert!(page.contains("<th scope=\"col\" class=\"n\" colspan=\"2\">linux</th>"), "{page}");
    assert!(page.contains("<tr class=\"drop\">") && page.contains(cells), "{page}");
}
