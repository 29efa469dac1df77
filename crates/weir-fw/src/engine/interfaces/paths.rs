//! Which program judges what comes in by an interface, in words, and what that costs: one list for
//! the messages at the start, `weir fw status` and whoever asks for JSON.

use weir_bpf::firewall::Path;

use super::Known;

/// All of them, the fastest first.
const ALL: [Path; 3] = [Path::Native, Path::Generic, Path::Tcx];

/// One word for it.
pub(in crate::engine) const fn word(path: Path) -> &'static str {
    match path {
        Path::Native => "native",
        Path::Generic => "generic",
        Path::Tcx => "tcx",
    }
}

/// What it is.
const fn name(path: Path) -> &'static str {
    match path {
        Path::Native => "native XDP",
        Path::Generic => "generic XDP",
        Path::Tcx => "tcx",
    }
}

/// What it costs beside native XDP.
pub(in crate::engine) const fn cost(path: Path) -> Option<&'static str> {
    match path {
        Path::Native => None,
        Path::Generic => Some("behind the driver, several times slower"),
        Path::Tcx => Some("the kernel forwards, several times slower"),
    }
}

/// What is to be said of an interface that does without native XDP.
pub(super) fn slow(known: &Known) -> Option<String> {
    let path = known.path?;
    let cost = cost(path)?;
    let why = if known.is_bare {
        "its packets have no Ethernet header"
    } else {
        "its driver has no native XDP, or not with its MTU"
    };
    Some(format!("interface {}: filtered by {} ({cost}): {why}", known.name, name(path)))
}

/// A line for each way by which interfaces are filtered, with their names.
pub(in crate::engine) fn lines<'a>(
    known: &(impl Iterator<Item = &'a Known> + Clone),
) -> Vec<String> {
    let line = |path: Path| {
        let on = known.clone().filter(|known| known.path == Some(path));
        let names: Vec<&str> = on.map(|known| known.name.as_str()).collect();
        let cost = cost(path).map(|cost| format!(" ({cost})")).unwrap_or_default();
        (!names.is_empty())
            .then(|| format!("filtered by {}{cost}: {}", name(path), names.join(", ")))
    };
    ALL.into_iter().filter_map(line).collect()
}
