//! What a specification with a second firewall must and cannot ask for.

use weir_results::matrix::Series;

use crate::diagnostic::Report;
use crate::model::TestbedSpec;
use crate::spec::Spec;
use crate::spec::device::{DutSpec, KindSpec};

/// The DUTs with a second firewall that takes over.
fn taken_over(spec: &Spec) -> impl Iterator<Item = &DutSpec> {
    let takes_over = |dut: &&DutSpec| match dut.kind {
        KindSpec::WeirFw { backup, .. } => backup.is_some_and(|backup| backup.takeover.is_some()),
        _ => false,
    };
    spec.duts.iter().filter(takes_over)
}

/// Refuses a second firewall where there is no place for it.
pub(super) fn check(spec: &Spec, report: &mut Report) {
    let has_backup = |dut: &&DutSpec| matches!(dut.kind, KindSpec::WeirFw { backup: Some(_), .. });
    for dut in spec.duts.iter().filter(has_backup) {
        if matches!(&spec.testbed, Some(TestbedSpec::Hosts(_) | TestbedSpec::Qemu(_))) {
            let message = "`backup` needs [testbed] kind = \"netns\"";
            let help = "no second machine can be named there; leave `backup` out";
            report.error_help(&dut.name.span, message, help);
        }
    }
    for dut in taken_over(spec) {
        if dut.toggle.is_some() {
            let message = "`takeover` does not go with a `toggle`";
            let help = "settings take turns on one firewall; leave one of the two out";
            report.error_help(&dut.name.span, message, help);
        }
        if let Some(TestbedSpec::Netns(netns)) = &spec.testbed
            && (netns.links != 1 || netns.rss.is_some())
        {
            let message = "`takeover` needs a single link, without receive side scaling";
            let help = "leave `links` and `rss` out of [testbed]";
            report.error_help(&dut.name.span, message, help);
        }
    }
}

/// Refuses traffic that two firewalls, or those of a takeover, cannot have.
pub(super) fn check_traffics(spec: &Spec, series: &[Series], report: &mut Report) {
    for series in series {
        let Some(backup) = series.dut.kind.backup() else { continue };
        let Some(dut) = spec.duts.iter().find(|dut| dut.name.text == series.dut.name) else {
            continue;
        };
        let traffic = &series.traffic;
        let streams = traffic.streams.specs();
        let has_tags = streams.iter().any(|(stream, _)| !stream.tags.is_empty());
        let is_held = traffic.connect().is_some_and(|connect| connect.count.is_some());
        let takes_over = backup.takeover.is_some();
        let (field, what, help) = if has_tags {
            ("backup", "no VLAN tags", "leave `vlan` out of the traffic")
        } else if takes_over && streams.iter().any(|(stream, _)| stream.src.is_ipv6()) {
            let help = "VRRP moves addresses of one kind; test IPv6 with another campaign";
            ("takeover", "IPv4", help)
        } else if takes_over && is_held {
            let help = "leave `count` out: nothing is in its middle";
            ("takeover", "a traffic with a time", help)
        } else {
            continue;
        };
        let message = format!("`{field}` needs {what}, unlike traffic `{}`", traffic.name);
        report.error_help(&dut.name.span, message, help);
        return;
    }
}
