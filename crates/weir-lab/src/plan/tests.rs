use std::path::Path;

use proptest::prelude::*;
use weir_results::dut::{DutKind, System};
use weir_results::matrix::Order;
use weir_wire::flow::FlowSpace;
use weir_wire::rss::FlowKind;
use weir_wire::sizes::Sizes;

use super::*;
use crate::model::TestbedSpec;
use crate::model::qemu::Setup;
use crate::spec::files::MemoryFiles;

mod bad_input;
mod connect;
mod golden;
mod http;
mod places;
mod senders;

/// A small specification that is right.
const GOOD: &str = r#"
[campaign]
name = "c"
iterations = 2
[testbed]
kind = "netns"
[[dut]]
name = "a"
kind = "linux"
[[traffic]]
name = "t"
src = "198.18.10.1"
dst = "198.19.10.1"
"#;

fn files(list: &[(&str, &str)]) -> MemoryFiles {
    MemoryFiles(list.iter().map(|(path, text)| (path.into(), (*text).to_owned())).collect())
}

fn try_plan(text: &str, list: &[(&str, &str)]) -> Result<(Plan, Vec<String>), Vec<String>> {
    let shown = |list: Vec<Diagnostic>| list.iter().map(ToString::to_string).collect();
    from_text(Path::new("lab.toml"), text, &files(list), &Overrides::default())
        .map(|(plan, warnings)| (plan, shown(warnings)))
        .map_err(shown)
}

fn plan(text: &str, list: &[(&str, &str)]) -> Plan {
    let (plan, warnings) = try_plan(text, list).expect("a good specification");
    assert_eq!(warnings, Vec::<String>::new());
    plan
}

#[test]
fn defaults_are_filled_in() {
    let plan = plan(GOOD, &[]);
    assert_eq!((plan.campaign.order, plan.campaign.seed), (Order::Interleaved, 1));
    let ms = |time: std::time::Duration| time.as_millis();
    let trial = plan.trial;
    let times = [trial.warmup, trial.duration, trial.drain, trial.sample].map(ms);
    assert_eq!(times, [500, 3000, 200, 100]);
    let series = &plan.series[0];
    assert_eq!(series.name, "a.t");
    let stream = &series.traffic.streams.specs()[0].0;
    assert_eq!(stream.src.to_string(), "198.18.10.1:1234");
    assert_eq!((stream.sizes.clone(), series.traffic.flow_count()), (Sizes::Fixed(60), 1));
    assert_eq!(plan.trial.latency, None);
    assert_eq!(series.traffic.rate.to_string(), "max");
    assert_eq!(plan.cells.len(), 2);
    assert_eq!(plan.source.text, GOOD);
}

/// Sweeps, parameters, files, settings, commands and traffics, all in one.
const SWEPT: &str = r#"
[campaign]
name = "swept"
iterations = 1
order = "sequential"
[testbed]
kind = "netns"
generator_cpus = "1,0"
[[sweep]]
name = "states"
values = ["64Ki", 100]
[[sweep]]
name = "size"
values = [60, 1514]
[[dut]]
name = "fw"
kind = "linux"
files = { nft = "rules/fw.nft" }
sysctls = { net.ipv4.ip_forward = 1, "net.core.somaxconn" = "${half}" }
parameters = { half = "${states}" }
[[dut]]
name = "box"
kind = "command"
files = { conf = "box.conf" }
start = "box -n ${states} -v $${HOME}"
ready = "box ready"
stop = "box stop"
[[traffic]]
name = "udp"
src = "198.18.10.1-198.18.10.${last}"
dst = "198.19.10.1"
size = "${size}"
rate = 50000
threads = 2
"#;

fn swept() -> String {
    SWEPT.replace("${last}", "9")
}

const SWEPT_FILES: [(&str, &str); 2] =
    [("rules/fw.nft", "size ${states} # $${x}\n"), ("box.conf", "max = ${states}\n")];

#[test]
fn the_matrix_is_multiplied_in_the_order_of_the_text() {
    let plan = plan(&swept(), &SWEPT_FILES);
    let names: Vec<&str> = plan.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "fw.states=64Ki.size=60.udp",
            "fw.states=64Ki.size=1514.udp",
            "fw.states=100.size=60.udp",
            "fw.states=100.size=1514.udp",
            "box.states=64Ki.size=60.udp",
            "box.states=64Ki.size=1514.udp",
            "box.states=100.size=60.udp",
            "box.states=100.size=1514.udp",
        ]
    );
    let axis = |index: usize| plan.series[index].sweep[0].1.clone();
    assert_eq!((axis(0).label.as_str(), axis(0).number), ("64Ki", Some(65_536.0)));
    assert_eq!((axis(2).label.as_str(), axis(2).number), ("100", Some(100.0)));
    let TestbedSpec::Netns(netns) = &plan.testbed else { panic!("another kind") };
    assert_eq!(netns.generator_cpus.as_deref(), Some("0-1"));
}

#[test]
fn values_reach_every_place() {
    let plan = plan(&swept(), &SWEPT_FILES);
    let DutKind::Linux { sysctls, nft: Some(nft) } = &plan.series[0].dut.kind else {
        panic!("a linux DUT with a ruleset")
    };
    assert_eq!(nft.text, "size 65536 # ${x}\n");
    assert_eq!(nft.path, "rules/fw.nft");
    let sysctls: Vec<_> = sysctls.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(sysctls, [("net.core.somaxconn", "65536"), ("net.ipv4.ip_forward", "1")]);
    let DutKind::Command { files, start, ready, ready_timeout, stop, .. } =
        &plan.series[7].dut.kind
    else {
        panic!("a command DUT")
    };
    assert_eq!(start, "box -n 100 -v ${HOME}");
    assert_eq!(files[0].text, "max = 100\n");
    assert_eq!((ready.as_deref(), stop.as_deref()), (Some("box ready"), Some("box stop")));
    assert_eq!(ready_timeout.as_secs(), 10);
    assert_eq!(plan.series[7].traffic.streams.size_bytes_range(), (1514, 1514));
    assert_eq!(plan.source.files["box.conf"], b"max = ${states}\n", "kept before substitution");
}

#[test]
fn a_traffic_is_calibrated_once_for_each_of_its_own_values() {
    let plan = plan(&swept(), &SWEPT_FILES);
    let names: Vec<&str> = plan.calibrations().iter().map(|s| s.traffic.name.as_str()).collect();
    assert_eq!(names, ["udp.size=60", "udp.size=1514"]);
}

#[test]
fn iterations_can_be_overridden() {
    let load = |iterations| {
        let overrides = Overrides { iterations: Some(iterations), only: None };
        from_text(Path::new("lab.toml"), GOOD, &files(&[]), &overrides)
    };
    assert_eq!(load(7).expect("a plan").0.campaign.iterations, 7);
    for iterations in [0, 1001] {
        let errors = load(iterations).expect_err("out of range");
        let expected = format!("lab.toml: error: -n must be 1 to 1000, not {iterations}");
        assert_eq!(errors[0].to_string(), expected);
    }
}

#[test]
fn only_selects_series_or_cells() {
    let select = |pattern: &str| {
        let overrides = Overrides { iterations: Some(12), only: Some(pattern.into()) };
        from_text(Path::new("lab.toml"), &swept(), &files(&SWEPT_FILES), &overrides)
    };
    let count = |pattern: &str| select(pattern).expect("a match").0.cells.len();
    assert_eq!(count("fw.*"), 48);
    assert_eq!(count("*/1"), 8);
    assert_eq!(count("box.states=100.size=60.udp/{1,12}"), 2);
    let plan = select("*.size=60.*").expect("a match").0;
    assert_eq!(plan.series.len(), 8, "the matrix stays whole");
    assert_eq!(plan.calibrations().len(), 1, "but only what runs is calibrated");
    let errors = select("nft*").expect_err("no match");
    assert!(errors[0].to_string().starts_with("lab.toml: error: --only `nft*` matches no cell\n"));
    let errors = select("a[").expect_err("no pattern");
    assert!(errors[0].message.starts_with("--only `a[` is not a pattern: "), "{}", errors[0]);
}

#[test]
fn swapped_ranges_are_warned_about() {
    let text = GOOD.replace("198.18.10.1\"", "198.18.10.70:9-198.18.10.1:8\"");
    let (plan, warnings) = try_plan(&text, &[]).expect("a plan");
    assert_eq!(plan.series[0].traffic.flow_count(), 140);
    assert_eq!(
        warnings,
        ["lab.toml:12:7: warning: `src`: the addresses and ports of \
          `198.18.10.70:9-198.18.10.1:8` are reversed; it is read as \
          198.18.10.1:8-198.18.10.70:9"]
    );
}

#[test]
fn files_are_found_beside_the_specification() {
    let text = GOOD.replace("\"linux\"", "\"linux\"\nfiles = { nft = \"../fw.nft\" }");
    let memory = files(&[("labs/x/lab.toml", &text), ("labs/x/../fw.nft", "# empty\n")]);
    let path = Path::new("labs/x/lab.toml");
    let (plan, _) = load(path, &memory, &Overrides::default()).expect("a plan");
    assert_eq!(plan.source.files.keys().collect::<Vec<_>>(), ["../fw.nft"]);
    let missing = load(Path::new("none.toml"), &memory, &Overrides::default());
    let errors = missing.expect_err("no such file");
    assert_eq!(
        errors[0].to_string(),
        "none.toml: error: cannot read the specification: No such file or directory (os error 2)"
    );
}

/// Two streams of either family, with every field that this testbed takes.
const STREAMS: &str = r#"
[campaign]
name = "c"
iterations = 1
[trial]
latency = "500ms"
[testbed]
kind = "netns"
[[sweep]]
name = "attack"
values = [1, 3]
[[sweep]]
name = "proto"
values = ["tcp", "icmp"]
[[dut]]
name = "a"
kind = "linux"
[[traffic]]
name = "mixed"
rate = "50kpps"
[[traffic.streams]]
name = "legitimate"
src = "198.18.10.1:2000-198.18.10.70"
dst = "198.19.10.1:2000-198.19.10.70"
size = "imix"
ttl = 9
dscp = 46
df = false
weight = 9
[[traffic.streams]]
name = "attack"
src = "[2001:2:0:10::1]:1024-[2001:2:0:10::ff]:1033"
dst = "[2001:2:0:8010::1]:80"
proto = "${proto}"
size = "92-99"
random = true
seed = 7
weight = "${attack}"
"#;

#[test]
fn streams_have_the_whole_model_and_sweeps_reach_into_them() {
    let plan = plan(STREAMS, &[]);
    let names: Vec<&str> = plan.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names[3], "a.attack=3.proto=icmp.mixed");
    assert_eq!(plan.calibrations().len(), 4);
    assert_eq!(plan.calibrations()[3].traffic.name, "mixed.attack=3.proto=icmp");
    assert_eq!(plan.trial.latency.map(|time| time.as_millis()), Some(500));
    let traffic = &plan.series[3].traffic;
    assert_eq!(traffic.flow_count(), 4_900 + 2_550);
    assert_eq!(traffic.streams.size_bytes_range(), (60, 1514));
    let fields = traffic.streams.fields();
    let field = |stream: usize, name: &str| fields[stream].get(name).map(String::as_str);
    assert_eq!(
        [field(0, "ttl"), field(0, "dscp"), field(0, "df")],
        [Some("9"), Some("46"), Some("false")]
    );
    assert_eq!([field(0, "weight"), field(1, "weight")], [Some("9"), Some("3")]);
    assert_eq!([field(1, "proto"), field(1, "seed")], [Some("icmp"), Some("7")]);
    let mut ids: Vec<&str> = plan.series.iter().map(|series| series.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

/// What a plan prints of a traffic, and its id: a store holds its cells against it.
#[test]
fn a_list_of_one_plain_stream_is_the_same_traffic() {
    let inline = GOOD.replace(
        "src = \"198.18.10.1\"\ndst = \"198.19.10.1\"",
        "streams = [{ src = \"198.18.10.1\", dst = \"198.19.10.1\", weight = 3, ttl = 64 }]",
    );
    assert_ne!(inline, GOOD);
    assert_eq!(plan(&inline, &[]).series[0].id, plan(GOOD, &[]).series[0].id);
}

/// An example that comes with the project, and what is warned of; they stand beside the crates.
fn example_with_warnings(name: &str) -> (Plan, Vec<Diagnostic>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs").join(name);
    let loaded = load(&path, &spec::files::DiskFiles, &Overrides::default());
    loaded.unwrap_or_else(|errors| panic!("{}", errors[0]))
}

/// The same of one that nothing is warned of.
fn example(name: &str) -> Plan {
    let (plan, warnings) = example_with_warnings(name);
    assert!(warnings.is_empty(), "{name}: {}", warnings[0]);
    plan
}

#[test]
fn the_example_campaigns_are_good() {
    let load = |name: &str| example(&format!("{name}/lab.toml"));
    let toggle = load("toggle");
    assert!(toggle.is_toggled() && toggle.calibrations().is_empty() && toggle.retries == 0);
    let settings = toggle.series[0].dut.toggle.as_ref().expect("it has two settings");
    assert!(settings.on.contains("notrack") && settings.off.contains("flush"), "{settings:?}");
    let quick = load("quick");
    assert!(!quick.is_toggled());
    let names: Vec<&str> = quick.series.iter().map(|series| series.name.as_str()).collect();
    let flows: Vec<u64> = quick.series.iter().map(|series| series.traffic.flow_count()).collect();
    assert_eq!(
        names,
        [
            "linux.flows-128",
            "linux.flows-4900",
            "linux.flows-100k",
            "nft.flows-128",
            "nft.flows-4900",
            "nft.flows-100k",
        ]
    );
    assert_eq!(flows, [128, 4900, 100_000, 128, 4900, 100_000]);
    assert_eq!(quick.cells.len(), 30);
    assert!(view::estimated_duration(&quick).as_secs() < 240);
    let command = load("command");
    assert_eq!((command.series.len(), command.calibrations().len()), (3, 1));
    let streams = load("streams");
    assert_eq!((streams.series.len(), streams.calibrations().len()), (4, 2));
    assert_eq!(streams.series[1].traffic.flow_count(), 4_900 + 255 * 64_512);
    assert!(view::estimated_duration(&streams).as_secs() < 120);
    let (directions, warnings) = example_with_warnings("directions/lab.toml");
    assert_eq!((directions.series.len(), directions.calibrations().len()), (6, 2));
    assert!(directions.series.iter().all(|series| series.traffic.flow_count() == 4_900));
    assert!(warnings.iter().all(|w| w.message.contains("share the 1 CPU")), "{}", warnings[0]);
    let cores = load("cores");
    assert_eq!((cores.series.len(), cores.calibrations().len()), (9, 3));
    let hosts = load("hosts");
    assert_eq!((hosts.series.len(), hosts.calibrations().len()), (2, 0));
    assert!(view::estimated_duration(&hosts).as_secs() > 10 * (35 + 90), "it boots ten times");
}

#[test]
fn the_example_campaigns_of_receive_side_scaling_are_good() {
    let counts =
        |plan: &Plan| (plan.series.len(), plan.calibrations().len(), plan.testbeds().len());
    let flow_counts = |plan: &Plan| {
        let mut all: Vec<u64> =
            plan.series.iter().map(|series| series.traffic.flow_count()).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    for (name, expected, flows) in [
        ("tunnel/lab.toml", (12, 4, 1), vec![64]),
        ("tunnel/pppoe.toml", (6, 2, 1), vec![64]),
        ("scaling/lab.toml", (2, 2, 2), vec![64]),
        ("scaling/handed.toml", (2, 1, 1), vec![64]),
        ("echo/lab.toml", (24, 3, 1), vec![4, 64, 1000]),
    ] {
        let plan = example(name);
        assert_eq!((counts(&plan), flow_counts(&plan)), (expected, flows), "{name}");
    }
    // As many flows for each queue of the card.
    let plan = example("scaling/lab.toml");
    let TestbedSpec::Netns(netns) = plan.testbed_of(&plan.series[1].id) else {
        panic!("another kind")
    };
    let card = netns.rss.as_deref().expect("a card").settings().expect("it is right");
    let steering = card.steering(FlowKind::Udp4);
    let mut flows_of_queue = [0; 2];
    for (spec, _) in plan.series[1].traffic.streams.specs() {
        let flow = FlowSpace::new(spec.src, spec.dst).expect("ranges").flow(0);
        flows_of_queue[usize::from(steering.place(steering.hash(flow)).queue)] += 1;
    }
    assert_eq!(flows_of_queue, [32, 32]);
}

#[test]
fn the_example_campaigns_of_connections_are_good() {
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/connections");
    let load = |name: &str| {
        let loaded = load(&labs.join(name), &spec::files::DiskFiles, &Overrides::default());
        let (plan, warnings) = loaded.unwrap_or_else(|errors| panic!("{}", errors[0]));
        assert!(warnings.is_empty(), "{name}: {}", warnings[0]);
        plan
    };
    let closed = load("lab.toml");
    assert_eq!((closed.series.len(), closed.calibrations().len()), (15, 5));
    let seconds = view::estimated_duration(&closed).as_secs();
    assert!((300..600).contains(&seconds), "{seconds}");
    let held = load("held.toml");
    assert_eq!((held.series.len(), held.calibrations().len()), (18, 6));
    let counts = held.series.iter().map(|s| s.traffic.connect().and_then(|c| c.count));
    assert_eq!(counts.max(), Some(Some(8_000_000)));
}

#[test]
fn the_example_campaigns_of_requests_are_good() {
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/http");
    for (name, series_count) in [("lab.toml", 9), ("proxy.toml", 6)] {
        let loaded = load(&labs.join(name), &spec::files::DiskFiles, &Overrides::default());
        let (plan, warnings) = loaded.unwrap_or_else(|errors| panic!("{}", errors[0]));
        assert!(warnings.is_empty(), "{name}: {}", warnings[0]);
        assert_eq!((plan.series.len(), plan.calibrations().len()), (series_count, 3), "{name}");
        let replies = plan.series.iter().filter_map(|s| s.traffic.http().map(|h| h.reply_bytes));
        assert_eq!(replies.max(), Some(1 << 20), "{name}");
    }
}

const MACHINES: &str = r#"
[campaign]
name = "c"
iterations = 2

[testbed]
kind = "hosts"
[[testbed.generator]]
ssh = "g"
interface = "ix0"
next_hop_mac = "02:00:00:00:00:01"
driver = "pkt-gen"
[testbed.receiver]
name = "r"
ssh = "r"
interface = "ix0"
driver = "pkt-gen"
[testbed.dut]
ssh = "d"
system = "freebsd"

[[image]]
name = "v1"
file = "images/v1.img"
install = "xzcat | upgrade"
[[image]]
name = "v2"

[[sweep]]
name = "mtu"
values = [1500, 9000]

[[dut]]
name = "pf"
kind = "freebsd"
tree = "conf"

[[traffic]]
name = "t"
src = "10.0.0.1"
dst = "10.1.0.1"
"#;

/// A tree as a store keeps it: a listing, and the files.
const TREE: [(&str, &str); 3] = [
    ("conf/", "644 etc/rc.conf\n755 etc/rc.local\n"),
    (
        "conf/etc/rc.conf",
        "ifconfig_ix0=\"mtu ${mtu}\"\nname=${hostname}\nold=$${mtu}\npid=$${x} $$\n",
    ),
    ("conf/etc/rc.local", "#!/bin/sh\necho ${HOME:-x}\n"),
];

#[test]
fn all_cells_of_an_image_come_before_those_of_the_next() {
    let plan = plan(MACHINES, &TREE);
    let image = |cell: &Cell| plan.series[cell.series_index].image.clone().unwrap_or_default();
    let images: Vec<String> = plan.cells.iter().map(image).collect();
    assert_eq!(images, ["v1", "v1", "v1", "v1", "v2", "v2", "v2", "v2"]);
    assert_eq!(plan.series[0].name, "v1.pf.mtu=1500.t");
    assert_ne!(plan.series[0].id, plan.series[2].id, "another image is another measurement");
}

#[test]
fn a_tree_is_laid_as_it_is_but_for_what_refers_to_something() {
    let plan = plan(MACHINES, &TREE);
    let DutKind::Tree { tree: Some(tree), system, .. } = &plan.series[1].dut.kind else {
        panic!("a machine that is configured by files")
    };
    assert_eq!((system.name(), tree.files.len()), ("freebsd", 2));
    let file = &tree.files[0];
    assert_eq!((file.path.as_str(), file.mode), ("etc/rc.conf", 0o644));
    let text = "ifconfig_ix0=\"mtu 9000\"\nname=${hostname}\nold=${mtu}\npid=$${x} $$\n";
    assert_eq!(file.content.text(), Some(text));
    let script = &tree.files[1];
    assert_eq!(script.mode, 0o755);
    assert_eq!(script.content.text(), Some("#!/bin/sh\necho ${HOME:-x}\n"));
    let stored: Vec<&String> = plan.source.files.keys().collect();
    assert_eq!(stored, ["conf/", "conf/etc/rc.conf", "conf/etc/rc.local"]);
}

const VIRTUAL: &str = r#"
[campaign]
name = "c"
iterations = 1

[testbed]
kind = "qemu"
image = "dut.img"
SETUP

[[dut]]
name = "d"
KIND

[[traffic]]
name = "t"
src = "198.18.10.1"
dst = "198.19.10.1"
"#;

#[test]
fn a_virtual_machine_carries_duts_of_its_own_system_alone() {
    let text = |setup: &str, kind: &str| {
        VIRTUAL.replace("SETUP", setup).replace("KIND", &format!("kind = \"{kind}\""))
    };
    let system = |setup: &str, kind: &str| {
        let plan = plan(&text(setup, kind), &[]);
        let TestbedSpec::Qemu(qemu) = &plan.testbed else { panic!("another kind") };
        (qemu.system, qemu.setup)
    };
    assert_eq!(system("", "linux"), (System::Linux, Setup::Linux));
    assert_eq!(system("", "generic"), (System::Linux, Setup::Linux));
    assert_eq!(system("setup = \"none\"", "generic"), (System::Generic, Setup::None));
    assert_eq!(system("system = \"freebsd\"", "freebsd"), (System::Freebsd, Setup::None));
    let both = "system = \"linux\"\nsetup = \"none\"";
    assert_eq!(system(both, "linux"), (System::Linux, Setup::None));
    assert_eq!(
        system("system = \"freebsd\"\nprofile = true", "freebsd"),
        (System::Freebsd, Setup::None)
    );
    let refused = |setup: &str, kind: &str, part: &str| {
        let errors = try_plan(&text(setup, kind), &[]).expect_err("refused");
        assert!(errors[0].to_string().contains(part), "{}", errors[0]);
    };
    refused("", "freebsd", "needs freebsd, and the testbed's DUT runs linux");
    refused("setup = \"none\"", "openbsd", "`system` of [testbed] says what the image runs");
    refused("system = \"openbsd\"", "freebsd", "needs freebsd, and the testbed's DUT runs openbsd");
    refused("system = \"freebsd\"\nsetup = \"linux\"", "freebsd", "is not for system = ");
    refused("system = \"openbsd\"\nprofile = true", "openbsd", "pmcstat");
    refused("system = \"freebds\"", "freebsd", "did you mean \"freebsd\"?");
}

proptest! {
    /// Whatever is cut out of a specification or put into it: there is a plan or there are
    /// errors, and every one of them has a place that can be shown.
    #[test]
    fn damaged_specifications_are_reported(
        cut in 0..SWEPT.len(),
        length in 0..60_usize,
        insert in "[\\[\\]{}=\"$\\n0-9a-z.é]{0,6}",
    ) {
        let whole = swept();
        let end = (cut + length).min(whole.len());
        prop_assume!(whole.is_char_boundary(cut) && whole.is_char_boundary(end));
        let text = format!("{}{insert}{}", &whole[..cut], &whole[end..]);
        let path = Path::new("lab.toml");
        let loaded = from_text(path, &text, &files(&SWEPT_FILES), &Overrides::default());
        if let Err(diagnostics) = loaded {
            prop_assert!(crate::diagnostic::has_errors(&diagnostics));
            for diagnostic in diagnostics {
                prop_assert_eq!(diagnostic.position().is_some(), diagnostic.span.is_some());
            }
        }
    }
}

#[test]
fn the_example_campaigns_of_two_firewalls_are_good() {
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
    let campaigns =
        [("sync/lab.toml", 10), ("failover/lab.toml", 2), ("failover/requests.toml", 2)];
    for (name, series_count) in campaigns {
        let path = labs.join(name);
        let loaded = load(&path, &spec::files::DiskFiles, &Overrides::default());
        let (plan, warnings) = loaded.unwrap_or_else(|errors| panic!("{}", errors[0]));
        assert!(warnings.is_empty(), "{name}: {}", warnings[0]);
        assert_eq!(plan.series.len(), series_count, "{name}");
        assert!(plan.series.iter().any(|series| series.dut.kind.backup().is_some()), "{name}");
    }
}
