//! ministat's plot: stacked symbols, and under them a bar from mean − s to mean + s.
//!
//! Equal columns of consecutive sorted values stack upward. The picture is as high as the stacks
//! of the *last* set: higher stacks of earlier sets are cut off, and stay cut where a later set
//! makes the picture grow again. That is ministat's behaviour, kept on purpose.

use super::{Options, SYMBOLS, Set};
use crate::summary::{self, Summary};

/// Where ministat begins to look for the ends of the axis; values beyond do not move them.
const FAR: f64 = 999e99;

/// Maps values to columns.
struct Scale {
    origin: f64,
    step: f64,
    width: usize,
}

impl Scale {
    /// Covers every value and every bar; `None` if they all coincide.
    fn new(summaries: &[Summary], width: usize) -> Option<Self> {
        let ends = |summary: &Summary| {
            let Summary { min, max, mean, stddev, .. } = *summary;
            [min, max, mean - stddev, mean + stddev]
        };
        // A deviation that is not a number is passed over by `min` and `max`.
        let low = summaries.iter().flat_map(ends).fold(FAR, f64::min);
        let high = summaries.iter().flat_map(ends).fold(-FAR, f64::max);
        let span = high - low;
        let step = span / (width as f64 - 1.0);
        (span != 0.0).then_some(Self { origin: low - 0.5 * step, step, width })
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "truncation is what ministat does; what is under the origin is in column 0"
    )]
    fn column(&self, value: f64) -> usize {
        (((value - self.origin) / self.step) as usize).min(self.width.saturating_sub(1))
    }
}

/// The frame with its symbols and bars; every line ends with a line break.
pub(super) fn draw(sets: &[Set<'_>], summaries: &[Summary], options: &Options) -> String {
    let width = options.width;
    let Some(scale) = Scale::new(summaries, width) else {
        return "[no plot, span is zero width]\n".to_owned();
    };
    let mut rows: Vec<Vec<u8>> = Vec::new();
    let mut bars = vec![vec![' '; width]; if options.separate_bars { sets.len() } else { 1 }];
    for ((set, summary), number) in sets.iter().zip(summaries).zip(1..) {
        stack(&mut rows, set.values, number, &scale);
        let line = if options.separate_bars { usize::from(number) - 1 } else { 0 };
        draw_bar(&mut bars[line], summary, &scale);
    }
    let border = format!("+{}+\n", "-".repeat(width));
    let mut text = border.clone();
    for row in rows.iter().rev() {
        let symbols: String = row.iter().map(|cell| SYMBOLS[usize::from(*cell)]).collect();
        text.push_str(&format!("|{symbols}|\n"));
    }
    for bar in bars {
        text.push_str(&format!("|{}|\n", bar.iter().collect::<String>()));
    }
    text.push_str(&border);
    text
}

/// Adds the values of set `number` to `rows`, the lowest row first.
fn stack(rows: &mut Vec<Vec<u8>>, values: &[f64], number: u8, scale: &Scale) {
    let sorted = summary::sorted(values).unwrap_or_default();
    let mut cells = Vec::with_capacity(sorted.len());
    let mut last_column = None;
    let mut height = 0;
    for value in sorted {
        let column = scale.column(value);
        height = if last_column == Some(column) { height + 1 } else { 1 };
        last_column = Some(column);
        cells.push((height - 1, column));
    }
    let highest = cells.iter().map(|(row, _)| row + 1).max().unwrap_or(0);
    rows.resize(highest, vec![0; scale.width]);
    for (row, column) in cells {
        // A picture without columns has rows all the same.
        if let Some(cell) = rows[row].get_mut(column) {
            *cell |= number;
        }
    }
}

fn draw_bar(bar: &mut [char], summary: &Summary, scale: &Scale) {
    if bar.is_empty() {
        return;
    }
    if !summary.stddev.is_nan() {
        let first = scale.column(summary.mean - summary.stddev);
        let last = scale.column(summary.mean + summary.stddev);
        bar[first] = '|';
        bar[last] = '|';
        for cell in &mut bar[first..last] {
            if *cell == ' ' {
                *cell = '_';
            }
        }
    }
    bar[scale.column(summary.median)] = 'M';
    bar[scale.column(summary.mean)] = 'A';
}
