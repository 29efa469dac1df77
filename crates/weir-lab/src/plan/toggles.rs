//! What a specification whose DUTs have a toggle must and cannot ask for.

use weir_results::matrix::Series;
use weir_wire::units::format_duration;

use crate::diagnostic::{Diagnostic, Report};
use crate::model::TestbedSpec;
use crate::spec::Spec;
use crate::trial::toggle::{BLOCK, BLOCKS_MIN};

/// Refuses traffic of several generators: a toggle counts one direction.
pub(super) fn check_traffics(spec: &Spec, series: &[Series], report: &mut Report) {
    let Some(first) = spec.duts.iter().find_map(|dut| dut.toggle.as_ref()) else { return };
    let several = series.iter().find(|series| series.traffic.each_sender().len() > 1);
    if let Some(series) = several {
        let message = format!(
            "a toggle needs one generator, and traffic `{}` has several",
            series.traffic.name
        );
        let help = "leave `direction` and `ports` out of the traffic, and have one link";
        report.error_help(&first.on.span, message, help);
    }
}

/// Refuses what does not go together with a toggle.
pub(super) fn check(spec: &Spec, report: &mut Report) {
    let Some(first) = spec.duts.iter().find_map(|dut| dut.toggle.as_ref()) else { return };
    for dut in spec.duts.iter().filter(|dut| dut.toggle.is_none()) {
        let message = "this DUT has no `toggle`, and another has one";
        let help = "settings are compared inside a DUT's trials: give each a toggle, or none";
        report.error_help(&dut.name.span, message, help);
    }
    match &spec.testbed {
        Some(TestbedSpec::Netns(netns)) if netns.rps_cpus.is_some() => {
            let message = "a toggle does not go with `rps_cpus`";
            let help = "a toggle times the DUT's threads, and packets that are steered to other \
                        CPUs are worked on in their softirqs; compare with two DUTs instead";
            report.error_help(&first.on.span, message, help);
        }
        Some(TestbedSpec::Netns(_)) | None => {}
        Some(_) => {
            let message = "a toggle needs a netns testbed";
            let help = "the CPU time of a DUT is read in short windows from its threads on this \
                        host";
            report.error_help(&first.on.span, message, help);
        }
    }
    if spec.campaign.as_ref().is_some_and(|campaign| campaign.auto.is_some()) {
        let message = "`iterations = \"auto\"` looks at rates, and a toggle compares costs";
        report.error_help(&first.on.span, message, "write a number: 1 is enough for many pairs");
    }
    let least = BLOCK * BLOCKS_MIN;
    if spec.trial.duration < least {
        let (given, least) = (format_duration(spec.trial.duration), format_duration(least));
        let message = format!("[trial] `duration` is {given}; a toggle needs {least} or more");
        let help = "it is windows of half a second, in pairs; 20s tells about ±1 %";
        report.push(Diagnostic::error(&report.spec, message).help(help));
    }
}
