//! ALTQ disciplines (FreeBSD): `cbq(…)`, `priq(…)`, `hfsc(…)`, `fairq(…)`, `codel(…)`.

use super::{Parsed, Parser};
use crate::ast::{Bandwidth, Scheduler, ServiceCurve};
use crate::diagnostic::{Code, Diagnostic};
use crate::lex::TokenKind;
use crate::names::SCHEDULER_FLAGS;

const DISCIPLINES: &[&str] = &["cbq", "priq", "hfsc", "fairq", "codel"];
const CURVES: &[&str] = &["linkshare", "realtime", "upperlimit"];
const NUMBERS: &[&str] = &["buckets", "hogs", "target", "interval"];

impl Parser<'_> {
    /// A discipline, if one is next.
    pub(super) fn scheduler(&mut self) -> Parsed<Option<Scheduler>> {
        let word = self.word_at(0);
        // `codelq` is the word that FreeBSD's pfctl reads, and `codel` the one that it prints.
        let word = word.as_deref().map(|word| if word == "codelq" { "codel" } else { word });
        let name = DISCIPLINES.iter().find(|name| word == Some(**name));
        let Some(name) = name else {
            return Ok(None);
        };
        self.bump();
        let mut scheduler =
            Scheduler { name, flags: Vec::new(), curves: Vec::new(), numbers: Vec::new() };
        if self.eat_punct('(') {
            while !self.eat_punct(')') {
                self.scheduler_option(&mut scheduler)?;
                self.skip_commas();
            }
        }
        let order = |flag: &&str| SCHEDULER_FLAGS.iter().position(|known| known == flag);
        scheduler.flags.sort_by_key(order);
        Ok(Some(scheduler))
    }

    fn scheduler_option(&mut self, scheduler: &mut Scheduler) -> Parsed<()> {
        let word = self.word_at(0).unwrap_or_else(|| "".into());
        let known = |list: &[&'static str]| list.iter().copied().find(|name| *name == &*word);
        if let Some(curve) = known(CURVES) {
            self.bump();
            let value = self.service_curve()?;
            scheduler.curves.push((curve, value));
            return Ok(());
        }
        if let Some(number) = known(NUMBERS) {
            self.bump();
            let value = self.number(number, 0, u64::from(u32::MAX))?;
            scheduler.numbers.push((number, value));
            return Ok(());
        }
        if let Some(flag) = known(SCHEDULER_FLAGS) {
            self.bump();
            if !scheduler.flags.contains(&flag) {
                scheduler.flags.push(flag);
            }
            return Ok(());
        }
        self.expected(&["an option of the discipline", "`)`"])
    }

    fn service_curve(&mut self) -> Parsed<ServiceCurve> {
        if !self.eat_punct('(') {
            return Ok(ServiceCurve { first: None, second: self.bandwidth()? });
        }
        let slope = self.bandwidth()?;
        self.skip_commas();
        let length = self.number32("a time in milliseconds")?;
        self.skip_commas();
        let second = self.bandwidth()?;
        self.expect_punct(')')?;
        Ok(ServiceCurve { first: Some((slope, length)), second })
    }

    /// `20Mb`, `10M`, `50%`, `1000`
    pub(super) fn bandwidth(&mut self) -> Parsed<Bandwidth> {
        let token = self.peek().clone();
        let text = match &token.kind {
            TokenKind::Number(number) => number.to_string(),
            TokenKind::Word(word) => word.to_string(),
            _ => return self.expected(&["a bandwidth"]),
        };
        let Some(bandwidth) = parse_bandwidth(&text) else {
            let message = format!("`{text}` is not a bandwidth");
            let problem = Diagnostic::error(Code::BadValue, token.span, message);
            return self
                .fail(problem.help("write bits per second, such as 20Mb or 20M, or percent"));
        };
        self.bump();
        Ok(bandwidth)
    }
}

fn parse_bandwidth(text: &str) -> Option<Bandwidth> {
    if let Some(percent) = text.strip_suffix('%') {
        let percent = percent.parse().ok().filter(|percent| (1..=100).contains(percent));
        return percent.map(Bandwidth::Percent);
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale: u64 = match unit {
        "" | "b" => 1,
        "Kb" | "K" | "k" | "Kbit" | "KBit" | "KB" => 1_000,
        "Mb" | "M" | "m" | "Mbit" | "MBit" | "MB" => 1_000_000,
        "Gb" | "G" | "g" | "Gbit" | "GBit" | "GB" => 1_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().ok()?;
    let mut rate = whole.checked_mul(scale)?;
    let mut place = scale;
    for digit in fraction.bytes() {
        place /= 10;
        rate = rate.checked_add(u64::from(digit.checked_sub(b'0').filter(|d| *d < 10)?) * place)?;
    }
    Some(Bandwidth::Absolute(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_have_units() {
        for (text, bandwidth) in [
            ("20Mb", Some(Bandwidth::Absolute(20_000_000))),
            ("1.5M", Some(Bandwidth::Absolute(1_500_000))),
            ("60%", Some(Bandwidth::Percent(60))),
            ("101%", None),
            ("1000", Some(Bandwidth::Absolute(1000))),
            ("1Tb", None),
            ("1.2.3M", None),
        ] {
            assert_eq!(parse_bandwidth(text), bandwidth, "{text}");
        }
    }
}
