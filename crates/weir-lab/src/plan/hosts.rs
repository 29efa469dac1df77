//! What a testbed of real or virtual machines cannot do with a specification that is right in
//! itself.

use weir_results::dut::System;
use weir_results::matrix::Series;

use crate::diagnostic::{Report, quote};
use crate::model::{HostsSpec, TestbedSpec};
use crate::spec::Spec;
use crate::spec::device::KindSpec;
use crate::spec::fields::Text;
use crate::spec::matrix::TrafficSpec;
use crate::testbed::hosts;

/// Reports DUTs that cannot run on the testbed's machine.
pub(super) fn check_duts(spec: &Spec, report: &mut Report) {
    for dut in &spec.duts {
        let required = match &dut.kind {
            KindSpec::Linux | KindSpec::WeirFw { .. } => Some(System::Linux),
            // What it runs is the testbed's to know; its files configure it.
            KindSpec::Tree { system: System::Generic, .. } | KindSpec::Command { .. } => None,
            KindSpec::Tree { system, .. } => Some(*system),
        };
        let is_tree = matches!(dut.kind, KindSpec::Tree { .. });
        match &spec.testbed {
            Some(TestbedSpec::Netns(_)) if is_tree => {
                let name = required.unwrap_or(System::Generic).name();
                let shown = quote(&dut.name.text);
                let message = format!("DUT {shown} of kind \"{name}\" needs a machine of its own");
                let help = "[testbed] kind = \"hosts\"";
                report.error_help(&dut.name.span, message, help);
            }
            Some(TestbedSpec::Hosts(hosts)) => {
                let system = hosts.dut.system;
                let help = "`system` of [testbed.dut] says what it runs";
                refuse_other(&dut.name, required, system, help, report);
            }
            Some(TestbedSpec::Qemu(qemu)) => {
                let help = "`system` of [testbed] says what the image runs";
                refuse_other(&dut.name, required, qemu.system, help, report);
            }
            _ => {}
        }
    }
    // Connections and requests are timed by their client alone.
    let is_packets = |traffic: &TrafficSpec| traffic.connect.is_none() && traffic.http.is_none();
    let has_packets = spec.traffics.iter().any(is_packets);
    if let (Some(TestbedSpec::Hosts(_)), Some(_), true) =
        (&spec.testbed, spec.trial.latency, has_packets)
    {
        let message = "[trial] `latency` of packets is not available on hosts";
        let diagnostic = crate::diagnostic::Diagnostic::error(&report.spec, message);
        report.push(diagnostic.help("two machines share no clock: leave it out"));
    }
}

/// Reports a DUT that wants another system than the machine's.
fn refuse_other(
    dut: &Text,
    required: Option<System>,
    system: System,
    help: &str,
    report: &mut Report,
) {
    let Some(required) = required.filter(|required| *required != system) else { return };
    let message = format!(
        "DUT {} needs {}, and the testbed's DUT runs {}",
        quote(&dut.text),
        required.name(),
        system.name()
    );
    report.error_help(&dut.span, message, help);
}

/// Reports traffics that the generators cannot make.
pub(super) fn check_traffics(
    spec: &Spec,
    hosts: &HostsSpec,
    series: &[Series],
    report: &mut Report,
) {
    for (index, one) in series.iter().enumerate() {
        let Some(traffic) = spec.traffics.get(index % spec.traffics.len().max(1)) else {
            continue;
        };
        if let Some(why) = hosts::refusal(hosts, &one.traffic) {
            let message = format!("traffic {}: {why}", quote(&traffic.name.text));
            let help = match one.traffic.kind.is_packets() {
                false => "docs/lab.md says what machines need for it",
                true => "driver = \"weir\" sends every traffic; or write the whole line in `start`",
            };
            let diagnostic = crate::diagnostic::Diagnostic::error(&report.spec, message);
            report.push_once(diagnostic.at(traffic.name.span.clone()).help(help));
        }
    }
}
