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

/// Refuses traffic that the two firewalls of a takeover cannot have.
pub(super) fn check_traffics(spec: &Spec, series: &[Series], report: &mut Report) {
    let Some(dut) = taken_over(spec).next() else { return };
    for series in series.iter().filter(|series| series.dut.name == dut.name.text) {
        let traffic = &series.traffic;
        let streams = traffic.streams.specs();
        let has_tags = streams.iter().any(|(stream, _)| !stream.tags.is_empty());
        let is_held = traffic.connect().is_some_and(|connect| connect.count.is_some());
        let (what, help) = if streams.iter().any(|(stream, _)| stream.src.is_ipv6()) {
            ("IPv4", "VRRP moves addresses of one kind; test IPv6 with another campaign")
        } else if has_tags {
            ("no VLAN tags", "leave `vlan` out of the traffic")
        } else if is_held {
            ("a traffic with a time", "leave `count` out: nothing is in its middle")
        } else {
            continue;
        };
        let message = format!("`takeover` needs {what}, unlike traffic `{}`", traffic.name);
        report.error_help(&dut.name.span, message, help);
        return;
    }
}
