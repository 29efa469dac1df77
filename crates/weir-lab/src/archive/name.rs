//! Names of result files: `bench[.IMAGE][.CFG][.PKTGEN].ITER.ENDING`, and `bench….info`.
//!
//! Levels that a campaign does not have are left out, and names may hold points, so a name is
//! split from the right: the ending, then the iteration; what is left is the series.

/// What a file of an archive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// What the receiver's pkt-gen printed.
    Receiver,
    /// What a generator printed.
    Sender,
    /// What the DUT answered before the traffic.
    Before,
    /// What the DUT answered during the traffic.
    During,
    /// What the DUT answered after the traffic.
    After,
    Profile,
    /// What a series is: image, configuration, traffic, `uname`.
    Info,
    /// Medians of a series, one a line.
    Pps,
    /// Results of a search by equilibrium, Mb/s, one a line.
    Equilibrium,
    /// The largest rates that were seen in those searches.
    EquilibriumMax,
    /// `gnuplot.data`.
    Gnuplot,
    /// `gnuplot.data.max`.
    GnuplotMax,
}

/// Endings of the files of one run, longest first where one ends like another.
const RUN_ENDINGS: [(&str, Role); 12] = [
    ("sender_gen2_2", Role::Sender),
    ("sender_gen2", Role::Sender),
    ("sender_2", Role::Sender),
    ("sender", Role::Sender),
    ("receiver", Role::Receiver),
    ("before", Role::Before),
    ("during", Role::During),
    ("after", Role::After),
    ("pmc.out", Role::Profile),
    ("pmc.graph", Role::Profile),
    ("pmc.log", Role::Profile),
    ("stats.data", Role::Profile),
];

/// Endings of what is published of a series.
const SERIES_ENDINGS: [(&str, Role); 3] = [
    (".equilibrium.max", Role::EquilibriumMax),
    (".equilibrium", Role::Equilibrium),
    (".pps", Role::Pps),
];

/// The series' name where a campaign has one image, one configuration and one traffic.
const NAMELESS: &str = "bench";

/// What a file's name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileName {
    /// Name of the series; empty for files of the whole folder.
    pub(super) series: String,
    /// The iteration, if it belongs to one.
    pub(super) iteration: Option<u32>,
    /// The ending: `receiver`, `sender_2`, ….
    pub(super) ending: &'static str,
    /// What it is.
    pub(super) role: Role,
}

/// Reads a name. `None` for a file that is no result; an error for one that looks like a result
/// and cannot be placed.
pub(super) fn parse(name: &str) -> Option<Result<FileName, String>> {
    match name {
        "gnuplot.data" => return Some(Ok(whole("gnuplot.data", Role::Gnuplot))),
        "gnuplot.data.max" => return Some(Ok(whole("gnuplot.data.max", Role::GnuplotMax))),
        _ => {}
    }
    for (ending, role) in SERIES_ENDINGS {
        if let Some(series) = name.strip_suffix(ending) {
            return Some(placed(series, None, ending, role));
        }
    }
    let rest = name.strip_prefix("bench.")?;
    if rest == "info" {
        return Some(placed(NAMELESS, None, "info", Role::Info));
    }
    if let Some(series) = rest.strip_suffix(".info") {
        return Some(placed(series, None, "info", Role::Info));
    }
    let (stem, ending, role) = RUN_ENDINGS.iter().find_map(|(ending, role)| {
        Some((rest.strip_suffix(ending)?.strip_suffix('.')?, *ending, *role))
    })?;
    let (series, iteration) = stem.rsplit_once('.').unwrap_or((NAMELESS, stem));
    match iteration.parse::<u32>() {
        Ok(number) if number > 0 && iteration.bytes().all(|b| b.is_ascii_digit()) => {
            Some(placed(series, Some(number), ending, role))
        }
        _ => Some(Err(format!("`{iteration}` before `.{ending}` is not an iteration"))),
    }
}

fn whole(ending: &'static str, role: Role) -> FileName {
    FileName { series: String::new(), iteration: None, ending, role }
}

fn placed(
    series: &str,
    iteration: Option<u32>,
    ending: &'static str,
    role: Role,
) -> Result<FileName, String> {
    if series.is_empty() || series.starts_with('.') {
        return Err(format!("`{series}` is not a series name"));
    }
    Ok(FileName { series: series.to_owned(), iteration, ending, role })
}

/// The order in which `ls` lists the iterations of a series, and the archive's medians stand in
/// their files: 1, 10, 2.
pub(super) fn ls_order(iterations: &mut [u32]) {
    iterations.sort_by_key(ToString::to_string);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_from_the_right() {
        let read = |name: &str| {
            let file = parse(name).unwrap().unwrap();
            (file.series, file.iteration, file.ending, file.role)
        };
        let run = |series: &str, iteration, ending, role| {
            (series.to_owned(), Some(iteration), ending, role)
        };
        assert_eq!(
            read("bench.11.0.pf-stateful.inet4.10.receiver"),
            run("11.0.pf-stateful.inet4", 10, "receiver", Role::Receiver)
        );
        assert_eq!(read("bench.x.1.sender_2"), run("x", 1, "sender_2", Role::Sender));
        assert_eq!(read("bench.x.1.sender_gen2_2"), run("x", 1, "sender_gen2_2", Role::Sender));
        assert_eq!(read("bench.64.3.pmc.out"), run("64", 3, "pmc.out", Role::Profile));
        assert_eq!(read("bench.7.after"), run("bench", 7, "after", Role::After));
        let series = |name: &str, ending, role| (name.to_owned(), None, ending, role);
        assert_eq!(read("bench.a.b.info"), series("a.b", "info", Role::Info));
        assert_eq!(read("bench.info"), series("bench", "info", Role::Info));
        assert_eq!(read("a.b.pps"), series("a.b", ".pps", Role::Pps));
        assert_eq!(read("k.equilibrium"), series("k", ".equilibrium", Role::Equilibrium));
        assert_eq!(
            read("k.equilibrium.max"),
            series("k", ".equilibrium.max", Role::EquilibriumMax)
        );
        assert_eq!(read("gnuplot.data").3, Role::Gnuplot);
    }

    #[test]
    fn other_files_are_none_and_odd_ones_are_refused() {
        for name in ["README.md", "inet4.data", "bench.txt", "x.receiver", "benchmark", "bench."] {
            assert_eq!(parse(name), None, "{name}");
        }
        for name in [
            "bench.x.0.receiver",
            "bench.x.-1.receiver",
            "bench.x.+1.receiver",
            "bench.x.99999999999.sender",
            "bench.x.sender",
            "bench...1.receiver",
            "bench....1.receiver",
            ".pps",
            "..pps",
        ] {
            assert!(parse(name).unwrap().is_err(), "{name}");
        }
    }

    #[test]
    fn iterations_are_listed_as_text() {
        let mut iterations = [1, 2, 3, 9, 10, 11, 100];
        ls_order(&mut iterations);
        assert_eq!(iterations, [1, 10, 100, 11, 2, 3, 9]);
    }
}
