//! Who sends a traffic, checked against the testbed: which of them it has, and their CPUs.

use weir_bpf::generator::SIZE_BYTES_MAX;
use weir_results::dut::DutKind;
use weir_results::matrix::Series;
use weir_results::traffic::{Reverse, Senders};

use crate::diagnostic::{Diagnostic, Report, Span, quote};
use crate::model::{ETHERNET_BYTES, NetnsSpec, TestbedSpec};
use crate::spec::cpus;
use crate::spec::senders::SendersSpec;

/// Whether the testbed can have a traffic sent so; reports it if not.
pub(super) fn check(
    spec: &SendersSpec,
    reverse: Option<Reverse>,
    testbed: Option<&TestbedSpec>,
    report: &mut Report,
) -> Option<Senders> {
    let links = testbed.map_or(1, TestbedSpec::links);
    let SendersSpec { threads, is_mesh, .. } = *spec;
    let senders = Senders { reverse, threads, links, is_mesh, first_port: 0 };
    match testbed {
        Some(TestbedSpec::Netns(netns)) => check_cpus(spec, &senders, netns, report),
        Some(other) => refuse_fields(spec, other, report),
        None => true,
    }
    .then_some(senders)
}

/// Refuses what only a netns testbed has.
fn refuse_fields(spec: &SendersSpec, testbed: &TestbedSpec, report: &mut Report) -> bool {
    let kind = testbed.kind();
    let help = match testbed {
        TestbedSpec::Hosts(_) => {
            "a hosts testbed sends one way; how many threads a generator has is up to its `start` \
             in [[testbed.generator]]"
        }
        _ => "it sends one way, by one thread; several need kind = \"netns\"",
    };
    for (name, span) in &spec.written {
        report.error_help(span, format!("`{name}` is not built for kind = \"{kind}\""), help);
    }
    spec.written.is_empty()
}

/// Refuses CPUs for generators that no traffic on this testbed has threads for.
pub(super) fn refuse_idle_cpus<'s>(
    testbed: &TestbedSpec,
    series: impl Iterator<Item = &'s Series>,
    report: &mut Report,
) {
    let listed = match testbed {
        TestbedSpec::Netns(netns) => &netns.generator_cpus,
        TestbedSpec::Qemu(qemu) => &qemu.generator_cpus,
        TestbedSpec::Hosts(_) => return,
    };
    let Some(list) = listed.as_deref().and_then(|text| cpus::parse(text).ok()) else { return };
    let needed = series.map(|one| {
        let senders = &one.traffic.senders;
        generator_count(senders) * usize::from(senders.threads)
    });
    let needed = needed.max().unwrap_or(1);
    if list.len() > needed {
        let message = format!(
            "generator_cpus has {} CPUs, but no traffic sends from more than {needed}: each thread \
             of a generator takes one",
            list.len()
        );
        let help = "name fewer CPUs, or ask for more with `threads` in [[traffic]]";
        report.push(Diagnostic::error(&report.spec, message).help(help));
    }
}

/// Refuses frames of several pages for a DUT whose programs see one page of each.
pub(super) fn refuse_jumbo_frames<'s>(
    testbed: &TestbedSpec,
    mut series: impl Iterator<Item = &'s Series>,
    report: &mut Report,
) {
    let TestbedSpec::Netns(netns) = testbed else { return };
    let is_firewall = |one: &&Series| matches!(one.dut.kind, DutKind::WeirFw { .. });
    let Some(one) = series.find(is_firewall).filter(|_| netns.has_jumbo_frames()) else { return };
    let most = u32::from(SIZE_BYTES_MAX) - ETHERNET_BYTES;
    let name = quote(&one.dut.name);
    let message = format!("DUT {name} of kind \"weir-fw\" needs an `mtu` of at most {most}");
    let help =
        "its programs read frames of a single page; the kernel's forwarding takes larger ones";
    report.push(Diagnostic::error(&report.spec, message).help(help));
}

/// How many generators there are.
fn generator_count(senders: &Senders) -> usize {
    let sides = if senders.is_mesh || senders.reverse.is_some() { 2 } else { 1 };
    usize::from(senders.links) * sides
}

/// Whether there are CPUs for the threads of one generator; warns where several generators have to
/// share them.
fn check_cpus(
    spec: &SendersSpec,
    senders: &Senders,
    netns: &NetnsSpec,
    report: &mut Report,
) -> bool {
    let listed = netns.generator_cpus.as_deref().and_then(|text| cpus::parse(text).ok());
    // Without a list, one is chosen.
    let count = listed.map_or(1, |list| list.len());
    let threads = usize::from(senders.threads);
    let generators = generator_count(senders);
    let place = |names: &[&str]| -> Option<Span> {
        spec.written.iter().find(|(name, _)| names.contains(name)).map(|(_, span)| span.clone())
    };
    let diagnostic = |diagnostic: Diagnostic, span: Option<Span>| match span {
        Some(span) => diagnostic.at(span),
        None => diagnostic,
    };
    if threads > count {
        let message = format!(
            "`threads` is {threads}, but generator_cpus has {count}: each thread of a generator \
             takes a CPU"
        );
        let error = Diagnostic::error(&report.spec, message);
        let error = diagnostic(error, place(&["threads"]));
        report.push_once(error.help("give generator_cpus in [testbed] as many CPUs as threads"));
        return false;
    }
    let needed = generators * threads;
    if needed > count {
        let message = format!(
            "{generators} generators share the {count} CPU{} of generator_cpus, and take turns: \
             each offers less than it could alone, and sends in bursts",
            if count == 1 { "" } else { "s" }
        );
        let warning = Diagnostic::warning(&report.spec, message);
        let warning = diagnostic(warning, place(&["direction", "ports", "threads"]));
        report.push_once(
            warning
                .help(format!("{needed} CPUs in generator_cpus give each thread one of its own")),
        );
    }
    true
}
