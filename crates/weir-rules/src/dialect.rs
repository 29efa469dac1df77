//! The two dialects, and how to tell them apart.

use std::fmt;

/// Whose pf.conf it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// FreeBSD's, with `nat`, `rdr`, `binat`, `scrub` and `altq` of its own and with OpenBSD's
    /// `nat-to` and `rdr-to` besides.
    #[default]
    FreeBsd,
    /// OpenBSD's since 4.7: translation is an option of a rule.
    OpenBsd,
}

impl Dialect {
    /// As on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FreeBsd => "freebsd",
            Self::OpenBsd => "openbsd",
        }
    }

    /// By its name on the command line.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::FreeBsd, Self::OpenBsd].into_iter().find(|dialect| dialect.as_str() == name)
    }

    /// Guesses from words that one dialect alone has. Where neither or both show, it is
    /// FreeBSD's, which has most of the other's words too.
    #[must_use]
    pub(crate) fn detect(text: &str) -> Self {
        let (mut freebsd, mut openbsd) = (0_u32, 0_u32);
        for line in text.lines() {
            // The line that RCS keeps, which may be the only hint.
            freebsd += u32::from(line.contains("$FreeBSD"));
            openbsd += u32::from(line.contains("$OpenBSD"));
            let line = line.split('#').next().unwrap_or("");
            let words: Vec<&str> = line.split_ascii_whitespace().take(64).collect();
            let has = |word: &str| words.contains(&word);
            let first = words.first().copied().unwrap_or("");
            let after_no = if first == "no" { words.get(1).copied().unwrap_or("") } else { first };
            let old = matches!(after_no, "nat" | "rdr" | "binat" | "scrub")
                || matches!(first, "altq" | "ether" | "nat-anchor" | "rdr-anchor" | "binat-anchor");
            let dummynet = has("dnpipe") || has("dnqueue") || has("ridentifier");
            freebsd += u32::from(old || dummynet);
            let queue = first == "queue"
                && (has("parent") || has("flows") || (has("on") && has("bandwidth")));
            let is_certain =
                has("divert-packet") || has("rdomain") || has("delay") || has("least-states");
            // A group and a user that FreeBSD has not, and a socket's address with its port.
            let follows = |pair: &[&str]| words.windows(pair.len()).any(|found| found == pair);
            let diverts = |found: &[&str]| matches!(found, ["divert-to", _, "port"]);
            let is_certain = is_certain
                || follows(&["on", "egress"])
                || has("_pbuild")
                || words.windows(3).any(diverts);
            let rule = matches!(first, "match" | "pass" | "block");
            openbsd += u32::from(queue || is_certain);
            let to = has("nat-to") || has("rdr-to") || has("af-to") || has("binat-to");
            let scrub = first == "match" && words.iter().any(|word| word.starts_with("scrub"));
            openbsd += u32::from(rule && to || scrub)
                + u32::from(words.starts_with(&["set", "reassemble"]));
        }
        if openbsd > 0 && freebsd == 0 { Self::OpenBsd } else { Self::FreeBsd }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_one_dialect_decide() {
        for (text, dialect) in [
            ("pass\n", Dialect::FreeBsd),
            ("nat on em0 from any to any -> (em0)\n", Dialect::FreeBsd),
            ("match out on egress nat-to (egress)\n", Dialect::OpenBsd),
            ("# nat on em0\nmatch out on egress nat-to (egress)\n", Dialect::OpenBsd),
            ("scrub in all\nmatch out nat-to em0\n", Dialect::FreeBsd),
            ("match in all scrub (no-df)\npass\n", Dialect::OpenBsd),
            ("queue rootq on em0 bandwidth 10M\n", Dialect::OpenBsd),
            ("no rdr on em0\n", Dialect::FreeBsd),
            (
                "#\t$OpenBSD: pf.conf,v 1.55 2017/12/03 20:40:04 sthen Exp $\npass\n",
                Dialect::OpenBsd,
            ),
            ("# $FreeBSD$\n# $OpenBSD: pf.conf,v 1.34 $\npass\n", Dialect::FreeBsd),
            ("# $OpenBSD$\nnat on em0 from any to any -> (em0)\n", Dialect::FreeBsd),
            ("pass out on egress\n", Dialect::OpenBsd),
            ("pass out from egress\n", Dialect::FreeBsd),
            ("block return out log proto { tcp udp } user _pbuild\n", Dialect::OpenBsd),
            ("pass in proto tcp divert-to 127.0.0.1 port 8025\n", Dialect::OpenBsd),
            ("pass in proto tcp divert-to port 8025\n", Dialect::FreeBsd),
            // OpenBSD's before 5.5: FreeBSD's dialect has all of its words.
            ("altq on em0 cbq queue { a }\nmatch out nat-to em0\n", Dialect::FreeBsd),
        ] {
            assert_eq!(Dialect::detect(text), dialect, "{text}");
        }
        assert_eq!(Dialect::parse("openbsd"), Some(Dialect::OpenBsd));
        assert_eq!(Dialect::parse("netbsd"), None);
    }
}
