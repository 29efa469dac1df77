//! CPU lists as the kernel writes them (`0-1,3`): only their syntax, not this host's CPUs.

use std::collections::BTreeSet;

use toml::Spanned;

use crate::diagnostic::{Report, quote};
use crate::spec::fields::Fields;

/// The CPUs of a list.
pub(crate) type CpuSet = BTreeSet<u32>;

/// The highest CPU number that Linux can be built for.
const CPU_MAX: u32 = 8191;

/// Reads a list; the error is the end of a sentence that begins with the list.
pub(crate) fn parse(text: &str) -> Result<CpuSet, String> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        match text.parse::<u32>() {
            Ok(cpu) if digits && cpu <= CPU_MAX => Ok(cpu),
            Ok(_) if digits => Err(format!("names a CPU above {CPU_MAX}")),
            _ => Err("is not a list of CPUs".to_owned()),
        }
    };
    let mut cpus = CpuSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first.trim())?, number(last.trim())?);
        if first > last {
            return Err(format!("has a range that ends before it begins: {first}-{last}"));
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

/// The shortest list of the same CPUs.
pub(crate) fn display(cpus: &CpuSet) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let shown = ranges.iter().map(|&(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(",")
}

/// Reads the lists of these fields that are given; what is none is reported.
pub(crate) fn sets<'n>(
    fields: &Fields<'_, '_>,
    names: &[&'n str],
    report: &mut Report,
) -> Vec<(&'n str, CpuSet)> {
    let mut sets = Vec::new();
    for &name in names {
        let Some(text) = fields.text(name, report) else { continue };
        match parse(&text.text) {
            Ok(set) => sets.push((name, set)),
            Err(reason) => {
                let message = format!("`{name}`: {} {reason}", quote(&text.text));
                report.error_help(&text.span, message, "a list of CPUs: \"2\", \"0-1,3\"");
            }
        }
    }
    sets
}

/// Points at a list that names CPUs which are not in another one.
pub(crate) fn refuse_outside(
    fields: &Fields<'_, '_>,
    sets: &[(&str, CpuSet)],
    name: &str,
    whole: &str,
    report: &mut Report,
) {
    let find = |name: &str| sets.iter().find(|(list, _)| *list == name).map(|(_, set)| set);
    let Some(part) = find(name) else { return };
    let outside: CpuSet = match find(whole) {
        Some(set) => part.difference(set).copied().collect(),
        None if fields.get(whole).is_some() => return,
        None => {
            let message = format!("`{name}` needs `{whole}`, of which it is a part");
            report.error(&fields.span_of(name), message);
            return;
        }
    };
    if !outside.is_empty() {
        let message = format!("`{name}`: CPU {} is not in `{whole}`", display(&outside));
        report.error(&fields.span_of(name), message);
    }
}

/// Points at the later of two lists that share a CPU.
pub(crate) fn refuse_overlaps(
    fields: &Fields<'_, '_>,
    sets: &[(&str, CpuSet)],
    report: &mut Report,
) {
    let mut written = sets.iter().collect::<Vec<_>>();
    written.sort_by_key(|(name, _)| fields.get(name).map(Spanned::span).map(|span| span.start));
    for (index, (second, second_set)) in written.iter().enumerate() {
        for (first, first_set) in &written[..index] {
            let shared: CpuSet = first_set.intersection(second_set).copied().collect();
            if !shared.is_empty() {
                let cpus = if shared.len() == 1 { "CPU" } else { "CPUs" };
                let shown = display(&shared);
                let message = format!("`{second}` shares {cpus} {shown} with `{first}`");
                let help = "what runs on one CPU cannot be told apart by a measurement";
                report.error_help(&fields.span_of(second), message, help);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_are_normalised() {
        for (text, expected) in [("2", "2"), ("0-1,3", "0-1,3"), ("3, 1,0,2", "0-3"), ("1-1", "1")]
        {
            assert_eq!(parse(text).map(|set| display(&set)), Ok(expected.into()), "{text}");
        }
    }

    #[test]
    fn bad_lists_are_refused() {
        for (text, expected) in [
            ("", "is not a list of CPUs"),
            ("1,", "is not a list of CPUs"),
            ("a", "is not a list of CPUs"),
            ("-1", "is not a list of CPUs"),
            ("+1", "is not a list of CPUs"),
            ("0-1-2", "is not a list of CPUs"),
            ("3-1", "has a range that ends before it begins: 3-1"),
            ("0-8192", "names a CPU above 8191"),
        ] {
            assert_eq!(parse(text), Err(expected.to_owned()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn display_reads_back(cpus in prop::collection::btree_set(0..40u32, 1..20)) {
            prop_assert_eq!(parse(&display(&cpus)), Ok(cpus));
        }
    }
}
