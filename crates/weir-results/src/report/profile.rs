//! Where the DUT spent its time: the flame graph of every profile, and the functions that most of
//! its samples were taken in.
//!
//! Both are made of the folded stacks (one stack a line, outermost first, then the number of its
//! samples), without scripts, because the page holds none of others; the artefacts beside it, to
//! which the section links, have the graph that can be searched and zoomed.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::document::{Block, Column, Figure, Fold, Line, Row, Table, link};
use crate::number;
use crate::summary::Profile;

/// The title of the section.
pub(super) const TITLE: &str = "Where the time went";

/// What the section shows.
const NOTE: &str = "Each profile is from a separate run, which is in no figure. The width of a box \
                    is the share of the samples that were taken in that function and in what it \
                    called; what lies on a box was called by it.";

/// Width of a graph, in its own units.
const WIDTH: f64 = 1000.0;

/// Height of a row.
const ROW: u32 = 17;

/// Narrower boxes are left out.
const BOX_MIN: f64 = 1.0;

/// Width of a letter, about.
const LETTER: f64 = 6.2;

/// Boxes narrower than this many letters have no name in them.
const LETTERS_MIN: usize = 4;

/// Rows of a graph; the calls above are left out.
const ROWS_MAX: u32 = 64;

/// Functions in a table.
const FUNCTIONS_MAX: usize = 8;

/// Shades of the boxes: neighbours with different names look different.
const SHADES: u32 = 4;

/// A function in its place among the callers.
#[derive(Debug, Default)]
struct Node {
    samples: u64,
    called: BTreeMap<String, Node>,
}

/// A box of a graph.
#[derive(Debug, PartialEq)]
struct Frame {
    name: String,
    /// From the left, in the graph's units.
    x: f64,
    width: f64,
    /// Rows from the bottom.
    depth: u32,
    share: f64,
}

/// A function over all stacks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Function {
    /// Samples that were taken in it.
    inside: u64,
    /// Samples that were taken in it or in what it called.
    whole: u64,
}

/// The section; nothing without a profile.
pub(super) fn blocks(profiles: &[Profile]) -> Vec<Block> {
    let block = |(profile, index): (&Profile, u32)| {
        let fold = if index == 0 { Fold::Open } else { Fold::Closed };
        Block::Titled(fold, (&profile.series).into(), one(profile))
    };
    let note = (!profiles.is_empty()).then(|| Block::note(NOTE));
    profiles.iter().zip(0_u32..).map(block).chain(note).collect()
}

/// The name of a file without its folders.
fn file(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn one(profile: &Profile) -> Vec<Block> {
    let root = tree(profile.folded.as_deref().unwrap_or_default());
    let mut blocks = Vec::new();
    if let Some(why) = &profile.why_not {
        blocks.push(Block::warning(why));
    }
    if root.samples > 0 {
        let drawings = vec![graph(&frames(&root)).into_string()];
        let figure = Figure { style: "scroll", drawings, caption: String::new() };
        blocks.extend([Block::Figure(figure), table(&root).into()]);
    }
    let mut line = Line::from(format!("{} samples.", number::count(root.samples)));
    for path in &profile.files {
        line = line.text(" ").link(link(path), file(path));
    }
    blocks.push(Block::note(line));
    blocks
}

/// The stacks as a tree. A line that is none has no samples.
fn tree(folded: &str) -> Node {
    let mut root = Node::default();
    for line in folded.lines() {
        let Some((stack, count)) = line.rsplit_once(' ') else { continue };
        let Ok(count) = count.parse::<u64>() else { continue };
        root.samples += count;
        let mut node = &mut root;
        for name in stack.split(';') {
            node = node.called.entry(name.to_owned()).or_default();
            node.samples += count;
        }
    }
    root
}

/// The boxes of a graph, row by row.
fn frames(root: &Node) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut row: Vec<(f64, &Node)> = vec![(0.0, root)];
    for depth in 0..ROWS_MAX {
        let mut next = Vec::new();
        for (left, node) in row {
            let mut x = left;
            for (name, called) in &node.called {
                let share = ratio(called.samples, root.samples);
                let width = share * WIDTH;
                if width >= BOX_MIN {
                    frames.push(Frame { name: name.clone(), x, width, depth, share });
                    next.push((x, called));
                }
                x += width;
            }
        }
        if next.is_empty() {
            break;
        }
        row = next;
    }
    frames
}

#[expect(clippy::cast_precision_loss, reason = "counts of samples stay far below 2^53")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn graph(frames: &[Frame]) -> Markup {
    let rows = frames.iter().map(|frame| frame.depth + 1).max().unwrap_or(1);
    let view = format!("0 0 {WIDTH} {}", rows * ROW);
    html! {
        svg class="flames" viewBox=(view) role="img" aria-label="flame graph" {
            @for frame in frames {
                @let y = (rows - 1 - frame.depth) * ROW;
                g {
                    title { (frame.name) ", " (number::share(frame.share)) }
                    rect class={ "f" (shade(&frame.name)) } x=(length(frame.x)) y=(y)
                        width=(length(frame.width)) height=(ROW - 1) {}
                    @if let Some(name) = fitting(&frame.name, frame.width) {
                        text x=(length(frame.x + 3.0)) y=(y + 12) { (name) }
                    }
                }
            }
        }
    }
}

/// A length with a digit behind the point.
fn length(value: f64) -> String {
    format!("{value:.1}")
}

/// As much of a name as a box has room for.
fn fitting(name: &str, width: f64) -> Option<String> {
    #[expect(clippy::cast_possible_truncation, reason = "a graph is 1000 units wide")]
    #[expect(clippy::cast_sign_loss, reason = "widths are positive")]
    let room = ((width - 6.0).max(0.0) / LETTER) as usize;
    match name.chars().count() {
        _ if room < LETTERS_MIN => None,
        length if length <= room => Some(name.to_owned()),
        _ => Some(name.chars().take(room - 1).chain(['…']).collect()),
    }
}

/// The shade of a name: always the same.
fn shade(name: &str) -> u32 {
    name.bytes().fold(7, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)))
        % SHADES
}

fn table(root: &Node) -> Table {
    let columns = vec![
        Column::words("Function"),
        Column::numbers("In it").strong(),
        Column::numbers("With what it called"),
    ];
    let share = |samples: u64| Line::from(number::share(ratio(samples, root.samples)));
    let row = |(name, function): (&str, Function)| -> Row {
        let name = Line::new().code(name);
        [name, share(function.inside), share(function.whole)].into_iter().collect()
    };
    Table::new(columns, functions(root).into_iter().take(FUNCTIONS_MAX).map(row)).style("series")
}

/// Every function with its samples, the largest first; of a recursion, a sample counts once.
fn functions(root: &Node) -> Vec<(&str, Function)> {
    let mut all: BTreeMap<&str, Function> = BTreeMap::new();
    // Nodes that are still to be looked at, with their callers.
    let mut open: Vec<(&Node, Vec<&str>)> = vec![(root, Vec::new())];
    while let Some((node, callers)) = open.pop() {
        for (name, called) in &node.called {
            let further: u64 = called.called.values().map(|node| node.samples).sum();
            let function = all.entry(name).or_default();
            function.inside += called.samples.saturating_sub(further);
            if !callers.contains(&name.as_str()) {
                function.whole += called.samples;
            }
            let mut callers = callers.clone();
            callers.push(name);
            open.push((called, callers));
        }
    }
    let mut all: Vec<(&str, Function)> = all.into_iter().collect();
    all.sort_by_key(|(name, function)| (std::cmp::Reverse(function.inside), *name));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    const FOLDED: &str = "swapper;idle 50\nsoftirq;rx;forward;xmit 30\nsoftirq;rx;forward 10\n\
                          softirq;rx;rx 10\nno number\n";

    #[test]
    fn boxes_are_as_wide_as_their_share_and_stand_on_their_callers() {
        let root = tree(FOLDED);
        assert_eq!(root.samples, 100);
        let frames = frames(&root);
        let find = |name: &str, depth: u32| {
            frames.iter().find(|f| f.name == name && f.depth == depth).expect("a box")
        };
        let (softirq, xmit, swapper) = (find("softirq", 0), find("xmit", 3), find("swapper", 0));
        assert_eq!((softirq.x, softirq.width), (0.0, 500.0));
        assert_eq!((swapper.x, swapper.width), (500.0, 500.0));
        assert!((xmit.width - 300.0).abs() < 1e-9 && xmit.x >= softirq.x, "{xmit:?}");
        assert_eq!(frames.len(), 7);
    }

    #[test]
    fn what_is_too_narrow_is_left_out_and_keeps_its_place() {
        let frames = frames(&tree("a 1\nb 4999\n"));
        assert_eq!(frames.len(), 1);
        assert!((frames[0].x - 0.2).abs() < 1e-9, "{frames:?}");
    }

    #[test]
    fn functions_have_their_samples_and_those_of_what_they_called() {
        let root = tree(FOLDED);
        let functions = functions(&root);
        let names: Vec<&str> = functions.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["idle", "xmit", "forward", "rx", "softirq", "swapper"]);
        let of = |name: &str| functions.iter().find(|(n, _)| *n == name).expect("it").1;
        assert_eq!(of("forward"), Function { inside: 10, whole: 40 });
        // It called itself: no sample counts twice.
        assert_eq!(of("rx"), Function { inside: 10, whole: 50 });
    }

    #[test]
    fn names_are_cut_to_their_boxes() {
        assert_eq!(fitting("forward", 60.0).as_deref(), Some("forward"));
        assert_eq!(fitting("ip_forward_finish", 60.0).as_deref(), Some("ip_forw…"));
        assert_eq!(fitting("forward", 20.0), None);
    }

    #[test]
    fn a_profile_that_failed_says_why() {
        let profile = Profile {
            series: "linux.few".to_owned(),
            folded: None,
            files: vec!["profiles/linux.few/artefacts/profile.log".to_owned()],
            why_not: Some("perf <is> not here".to_owned()),
        };
        let body = blocks(&[profile]);
        let document = Document { body, ..Document::default() };
        let (page, text) = (document.html(), document.markdown());
        assert!(page.contains("perf &lt;is&gt; not here"), "{page}");
        assert!(page.contains("href=\"profiles/linux.few/artefacts/profile.log\""), "{page}");
        assert!(!page.contains("<svg") && text.contains("> perf &lt;is&gt; not here"), "{text}");
        assert!(blocks(&[]).is_empty());
    }
}
