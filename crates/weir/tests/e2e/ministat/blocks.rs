//! ministat's output as it stands in other people's texts: found, and turned into the command lines
//! that may have printed it.

use std::path::Path;

use crate::common::stdout;

/// Symbols of the datasets in their order.
const SYMBOLS: [char; 7] = ['x', '+', '*', '%', '#', '@', 'O'];

const HEADER: &str = "    N           Min           Max        Median           Avg        Stddev";

/// A block, without the indentation that it has in the text.
pub(super) struct Block {
    /// Line of its beginning, from 1.
    pub(super) line: usize,
    /// The datasets.
    pub(super) names: Vec<String>,
    /// The block, every line with its end.
    pub(super) text: String,
}

/// All blocks of a text, as they are or indented by spaces or a tab.
pub(super) fn blocks(text: &str) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let indent =
            &lines[at][..lines[at].len() - lines[at].trim_start_matches([' ', '\t']).len()];
        let body: Vec<&str> = lines[at..]
            .iter()
            .map_while(|line| line.strip_prefix(indent))
            .take_while(|line| !line.is_empty() && *line != "```")
            .collect();
        let Some(block) = block(&body, at + 1) else {
            at += 1;
            continue;
        };
        at += block.text.lines().count();
        found.push(block);
    }
    found
}

fn block(body: &[&str], line: usize) -> Option<Block> {
    let name = |(line, symbol): (&&str, char)| {
        let name = line.strip_prefix(symbol)?.strip_prefix(' ')?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    let names: Vec<String> = body.iter().zip(SYMBOLS).map_while(name).collect();
    let header = body.iter().position(|line| *line == HEADER)?;
    let next = body.get(names.len())?;
    let begins = next.starts_with("+-") || next.starts_with("[no plot") || *next == HEADER;
    if names.is_empty() || !begins {
        return None;
    }
    let is_of_table = |line: &&&str| {
        let vitals = SYMBOLS.iter().any(|symbol| {
            let count = line.strip_prefix(*symbol).map(str::trim_start);
            count.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
        vitals || line.starts_with('\t') || line.contains("ifference ")
    };
    let table = body[header + 1..].iter().take_while(is_of_table).count();
    let text = body[..header + 1 + table].iter().map(|line| format!("{line}\n")).collect();
    Some(Block { line, names, text })
}

impl Block {
    /// The command lines that may have printed it: what shows is taken from the block, and what may
    /// not show (`-s` of a single dataset) is tried both ways.
    pub(super) fn command_lines(&self) -> Vec<Vec<String>> {
        let mut options = Vec::new();
        match self.text.lines().find(|line| line.starts_with("+-")) {
            Some(frame) => options.push(format!("-w{}", frame.len() - 2)),
            None if !self.text.contains("[no plot") => options.push("-A".to_owned()),
            None => {}
        }
        match self.text.split(" at ").nth(1).and_then(|rest| rest.split('%').next()) {
            Some(percent) => options.push(format!("-c{percent}")),
            None if self.names.len() > 1 => options.push("-n".to_owned()),
            None => {}
        }
        let line = |separate: &[&str]| {
            let separate = separate.iter().map(ToString::to_string);
            separate.chain(options.clone()).chain(self.names.clone()).collect()
        };
        vec![line(&[]), line(&["-s"])]
    }
}

/// What the project's own archive shows: options and datasets of each block.
pub(super) const PROJECT_BLOCKS: &[&[&str]] = &[
    &["a.pps", "b.pps"],
    &["-s", "-w", "60", "-c", "99", "a.pps", "b.pps", "even.pps"],
    &["-n", "a.pps", "b.pps"],
    &["-A", "-c", "80", "b.pps", "a.pps"],
    &["flat.pps", "flat.pps"],
    &["-w", "40", "stacks.pps", "flat.pps", "stacks.pps"],
    &["a.pps", "b.pps", "even.pps", "stacks.pps", "flat.pps", "negative.pps", "a.pps"],
    &["negative.pps"],
];

/// The text of the project's own archive: every other block is indented, the others are fenced.
pub(super) fn blessed(dir: &Path) -> String {
    let mut text = "# Datasets and what ministat prints of them\n".to_owned();
    for (index, arguments) in PROJECT_BLOCKS.iter().enumerate() {
        let block = stdout(&super::ministat(dir, arguments, ""));
        let command = arguments.join(" ");
        text.push_str(&format!("\n`ministat {command}`\n\n"));
        if index % 2 == 0 {
            text.push_str(&format!("```\n{block}```\n"));
        } else {
            text.extend(block.lines().map(|line| format!("    {line}\n")));
        }
    }
    text
}
