//! A bisection for people: what is known of every candidate, and the answer in a sentence or two.

use super::{Answer, CandidateReport, ChangeReport, Report};
use crate::document::{Block, Column, Document, Row, Table};
use crate::number::{self, counted_len, or_dash, pps};

/// A change, with its sign.
fn signed(ratio: f64) -> String {
    format!("{:+.2} %", ratio * 100.0)
}

fn row(candidate: &CandidateReport) -> Row {
    let mut remarks = Vec::new();
    if candidate.skipped {
        remarks.push(format!("skipped: {}", counted_len(candidate.invalid, "invalid run")));
    } else if candidate.invalid > 0 {
        remarks.push(format!("and {} invalid", candidate.invalid));
    }
    if candidate.misfit {
        remarks.push("on neither level".to_owned());
    }
    Row::from_iter([
        candidate.name.clone(),
        candidate.measurements.to_string(),
        or_dash(candidate.median_pps.map(pps)),
        number::probability(candidate.bad_probability),
        number::probability(candidate.first_bad_probability),
        remarks.join("  "),
    ])
}

impl Report {
    /// For people.
    #[must_use]
    pub fn document(&self) -> Document {
        let title = format!("{}: bisection", self.dimension);
        let mut answer = vec![Block::lead(self.sentence())];
        if let Some(change) = self.change
            && self.answer != Answer::NoChange
        {
            answer.push(Block::note(self.change_text(change)));
        }
        if self.candidates.iter().any(|candidate| candidate.misfit) {
            answer.push(Block::note(
                "Some candidates lie on neither level: the list may change more than once, and \
                 the place that explains most is named. Search the parts before and behind it.",
            ));
        }
        Document {
            kind: "weir lab · bisection".to_owned(),
            window: format!("{title} – weir lab report"),
            title,
            answer,
            body: vec![
                self.table().into(),
                Block::note(format!(
                    "no change of {} or more: {}",
                    self.margin(),
                    number::probability(self.no_change_probability)
                )),
            ],
            ..Document::default()
        }
    }

    fn table(&self) -> Table {
        let columns = vec![
            Column::words(self.dimension.as_str()),
            Column::numbers("n"),
            Column::numbers("median"),
            Column::numbers("is bad"),
            Column::numbers("first bad"),
            Column::words(""),
        ];
        Table::new(columns, self.candidates.iter().map(row))
    }

    fn margin(&self) -> String {
        number::percent(self.margin_ratio)
    }

    fn confidence(&self) -> String {
        number::percent(self.confidence)
    }

    fn sentence(&self) -> String {
        let name = |name: &Option<String>| name.clone().unwrap_or_default();
        let probability = number::probability(self.probability.unwrap_or_default());
        match self.answer {
            Answer::Found => format!(
                "{} is the first bad one, with a probability of {probability}; {} before it is \
                 good.",
                name(&self.first_bad),
                name(&self.last_good)
            ),
            Answer::OneOf => format!(
                "The first bad one is one of those from {} to {}, with a probability of \
                 {probability}: those before {} cannot be measured.",
                name(&self.first_bad),
                name(&self.first_bad_latest),
                name(&self.first_bad_latest)
            ),
            Answer::NoChange => format!(
                "Nothing changes by {} or more between {} and {}, with a probability of \
                 {probability}.",
                self.margin(),
                self.candidates[0].name,
                self.candidates[self.candidates.len() - 1].name
            ),
            Answer::Undecided => format!(
                "Undecided after {}, which is the limit: no answer has a probability of {}. \
                 Continue with --resume and a higher --max-runs.",
                counted_len(self.runs, "run"),
                self.confidence()
            ),
            Answer::Open => format!("Open after {}.", counted_len(self.runs, "run")),
        }
    }

    fn change_text(&self, change: ChangeReport) -> String {
        let is_improvement = change.change_ratio > 0.0 && self.first_bad.is_some();
        format!(
            "The change: {} to {}, {} ({} to {} at {}); single runs vary by {:.2} %.{}",
            pps(change.good_pps),
            pps(change.bad_pps),
            signed(change.change_ratio),
            signed(change.change_low_ratio),
            signed(change.change_high_ratio),
            self.confidence(),
            change.noise_ratio * 100.0,
            if is_improvement { " It is an improvement." } else { "" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Terminal;

    fn candidate(name: &str, median_pps: Option<f64>, first_bad: f64) -> CandidateReport {
        CandidateReport {
            name: name.to_owned(),
            series: format!("{name}.many"),
            first_bad_probability: first_bad,
            bad_probability: first_bad,
            measurements: median_pps.into_iter().count(),
            invalid: 0,
            skipped: false,
            misfit: false,
            median_pps,
            values_pps: median_pps.into_iter().collect(),
        }
    }

    fn found() -> Report {
        let skipped = CandidateReport { invalid: 3, skipped: true, ..candidate("r2", None, 0.0) };
        Report {
            answer: Answer::Found,
            dimension: "dut".to_owned(),
            first_bad: Some("r3".to_owned()),
            first_bad_latest: None,
            last_good: Some("r1".to_owned()),
            probability: Some(0.9994),
            no_change_probability: 0.0004,
            confidence: 0.95,
            margin_ratio: 0.01,
            runs_max: 60,
            runs: 5,
            change: Some(ChangeReport {
                good_pps: 1_234_567.0,
                bad_pps: 98_765.4,
                change_ratio: -0.92,
                change_low_ratio: -0.9314,
                change_high_ratio: -0.9,
                noise_ratio: 0.0213,
            }),
            candidates: vec![
                candidate("r1", Some(1_234_567.0), 0.0),
                skipped,
                candidate("r3", Some(98_765.4), 0.9994),
            ],
            next: None,
        }
    }

    #[test]
    fn a_terminal_shows_the_candidates_and_then_the_answer() {
        let text = "\
dut  n      median   is bad  first bad
r1   1  1.235 Mpps      0 %        0 %
r2   0           –      0 %        0 %  skipped: 3 invalid runs
r3   1  98.77 kpps  >99.9 %    >99.9 %
no change of 1 % or more: <0.1 %

r3 is the first bad one, with a probability of >99.9 %; r1 before it is good.
The change: 1.235 Mpps to 98.77 kpps, -92.00 % (-93.14 % to -90.00 % at 95 %); \
single runs vary by 2.13 %.
";
        assert_eq!(found().document().text(Terminal::default()), text);
    }

    #[test]
    fn what_changes_nothing_has_no_change_to_describe() {
        let report = Report { answer: Answer::NoChange, probability: Some(0.97), ..found() };
        let text = report.document().text(Terminal::default());
        let answer =
            "Nothing changes by 1 % or more between r1 and r3, with a probability of 97 %.";
        assert!(text.ends_with(&format!("\n\n{answer}\n")), "{text}");
    }

    #[test]
    fn candidates_on_neither_level_are_said() {
        let mut report = found();
        report.candidates[1].misfit = true;
        let text = report.document().text(Terminal::default());
        assert!(text.contains("skipped: 3 invalid runs  on neither level\n"), "{text}");
        assert!(text.contains("\nSome candidates lie on neither level: "), "{text}");
    }
}
