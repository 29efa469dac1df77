//! The doctor, on machines made of files, and on this one.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::host::Host;
use super::probes::Probes;
use super::*;

/// What a made-up kernel can do.
#[derive(Debug, Clone, Copy)]
struct Scripted {
    kernel_works: bool,
    has_nft: bool,
}

impl Scripted {
    fn tried(self) -> Result<(), String> {
        if self.kernel_works { Ok(()) } else { Err("Operation not supported".into()) }
    }
}

impl Probes for Scripted {
    fn namespaces(&self) -> Result<(), String> {
        self.tried()
    }
    fn live_frames(&self) -> Result<(), String> {
        self.tried()
    }
    fn xdp_native(&self) -> Result<(), String> {
        self.tried()
    }
    fn threaded_napi(&self) -> Result<(), String> {
        self.tried()
    }
    fn arena(&self) -> Result<(), String> {
        self.tried()
    }
    fn nft_version(&self) -> Result<String, String> {
        if self.has_nft { Ok("nftables v1.0.6".into()) } else { Err("cannot run nft".into()) }
    }
}

const ALL: Scripted = Scripted { kernel_works: true, has_nft: true };

/// A machine of which every check says `ok`.
const SOUND: &[(&str, &str)] = &[
    ("proc/self/status", "Name:\tweir\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n"),
    ("proc/sys/kernel/osrelease", "6.12.0-1-amd64\n"),
    ("proc/sys/net/core/bpf_jit_enable", "1\n"),
    ("proc/sys/net/netfilter/nf_conntrack_max", "262144\n"),
    ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Test CPU\nflags\t\t: fpu vme\n"),
    ("proc/stat", "cpu  100 0 50 800 0 0 10 0 0 0\ncpu0 1 2 3\n"),
    ("proc/meminfo", "MemAvailable:    8388608 kB\nHugePages_Total:       0\n"),
    ("sys/kernel/btf/vmlinux", ""),
    ("sys/devices/system/cpu/online", "0-1\n"),
    ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0\n"),
    ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpufreq/boost", "0\n"),
    ("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
];

/// Writes a machine's files; later ones replace earlier ones.
fn machine(files: &[&[(&str, &str)]]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files.iter().copied().flatten() {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn examine_files(root: &Path, probes: Scripted) -> Report {
    examine(&Host::new(root, Box::new(probes)))
}

fn examine_with(changed: &[(&str, &str)]) -> Report {
    examine_files(machine(&[SOUND, changed]).path(), ALL)
}

fn check<'a>(report: &'a Report, id: &str) -> &'a Check {
    report.checks.iter().find(|check| check.id == id).unwrap()
}

#[test]
fn a_sound_machine_is_ready() {
    let report = examine_with(&[]);
    let unwell: Vec<_> = report.checks.iter().filter(|check| check.status != Status::Ok).collect();
    assert!(unwell.is_empty(), "{unwell:#?}");
    assert!(report.ready);
    assert_eq!(report.exit_code(), 0);
}

#[test]
fn an_empty_machine_fails_what_is_required_and_says_why() {
    let root = tempfile::tempdir().unwrap();
    let report = examine_files(root.path(), Scripted { kernel_works: false, has_nft: false });
    assert_eq!(report.exit_code(), 1);
    for id in ["privilege.capabilities", "kernel.version", "cpu.count", "tools.nft"] {
        let check = check(&report, id);
        assert_eq!(check.status, Status::Fail, "{check:?}");
        assert!(check.cost.is_some() && check.fix.is_some(), "{check:?}");
    }
    // Not tried is not failed: the missing privilege is, once.
    assert_eq!(check(&report, "kernel.live-frames").status, Status::Info);
}

/// A check, the file that is changed on a sound machine, its text, and what comes of it.
type Lack = (&'static str, &'static str, &'static str, Status, &'static str);

const LACKS: &[Lack] = {
    use Status::{Fail, Info, Warn};
    &[
        ("kernel.version", "proc/sys/kernel/osrelease", "5.10.0-8", Fail, "Linux 5.10.0-8"),
        ("kernel.bpf-jit", "proc/sys/net/core/bpf_jit_enable", "0", Warn, "interpreted"),
        ("kernel.conntrack", "proc/sys/net/netfilter/nf_conntrack_max", "65536", Warn, "65536"),
        (
            "kernel.mitigations",
            "sys/devices/system/cpu/vulnerabilities/a",
            "Mitigation: B",
            Info,
            "a",
        ),
        ("cpu.count", "sys/devices/system/cpu/online", "0", Fail, "1 online (0)"),
        (
            "cpu.governor",
            "sys/devices/system/cpu/cpufreq/policy1/scaling_governor",
            "powersave",
            Warn,
            "performance, powersave",
        ),
        ("cpu.turbo", "sys/devices/system/cpu/cpufreq/boost", "1", Warn, "on"),
        ("cpu.turbo", "sys/devices/system/cpu/intel_pstate/no_turbo", "0", Warn, "on"),
        ("cpu.hypervisor", "proc/cpuinfo", "flags : hypervisor", Info, "under a hypervisor"),
        ("cpu.steal", "proc/stat", "cpu  1 1 1 1 1 1 1 7", Warn, "50.00 %"),
        (
            "cpu.clock",
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "hpet",
            Warn,
            "hpet",
        ),
        ("memory.available", "proc/meminfo", "MemAvailable: 524288 kB", Warn, "512 MiB"),
        (
            "memory.huge-pages",
            "proc/meminfo",
            "HugePages_Total: 8\nHugepagesize: 2048 kB",
            Info,
            "8 of 2048 kB",
        ),
        (
            "privilege.capabilities",
            "proc/self/status",
            "Uid: 5 5 5 5\nCapEff: 3000",
            Fail,
            "user 5, without CAP_SYS_ADMIN, CAP_BPF",
        ),
        (
            "privilege.capabilities",
            "proc/self/status",
            "Uid: 5 5 5 5\nCapEff: 1ffffffffff",
            Fail,
            "user 5, not root",
        ),
    ]
};

#[test]
fn each_lack_is_judged() {
    for (id, path, text, status, seen) in LACKS {
        let report = examine_with(&[(path, text)]);
        let check = check(&report, id);
        assert_eq!(check.status, *status, "{check:?}");
        assert!(check.seen.contains(seen), "{check:?}");
        assert!(check.cost.is_some(), "{check:?}");
    }
}

#[test]
fn shared_cores_are_seen() {
    let siblings = |list| {
        [
            ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", list),
            ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", list),
        ]
    };
    let one_core = examine_with(&siblings("0-1"));
    assert_eq!(check(&one_core, "cpu.smt").status, Status::Warn);

    let mut files = vec![("sys/devices/system/cpu/online", "0-3")];
    files.extend(siblings("0-1"));
    files.push(("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2-3"));
    files.push(("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "2-3"));
    let two_cores = examine_with(&files);
    assert_eq!(check(&two_cores, "cpu.smt").seen, "CPUs of one core: 0-1; 2-3");
}

#[test]
fn features_that_do_not_work_are_failures_if_a_lab_needs_them() {
    let root = machine(&[SOUND]);
    let report = examine_files(root.path(), Scripted { kernel_works: false, has_nft: true });
    let live_frames = check(&report, "kernel.live-frames");
    assert_eq!(live_frames.status, Status::Fail);
    assert_eq!(live_frames.seen, "Operation not supported");
    assert_eq!(check(&report, "kernel.arena").status, Status::Warn);
}

#[test]
fn numbers_are_read_as_the_kernel_writes_them() {
    assert_eq!(kernel::release_number("6.1.0-37-amd64"), Some((6, 1)));
    assert_eq!(kernel::release_number("6.18.44-x"), Some((6, 18)));
    assert_eq!(kernel::release_number("six"), None);
    assert_eq!(cpu::steal_share("cpu  10 0 0 30 0 0 0 10 5 5"), Some(0.2));
    assert_eq!(cpu::steal_share("cpu  10 0 0 30"), None);
    assert_eq!(cpu::steal_share("cpu  0 0 0 0 0 0 0 0"), None);
}

#[test]
fn json_has_stable_keys() {
    let report = examine_with(&[("sys/devices/system/cpu/cpufreq/boost", "1")]);
    let json: Value = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(json["ready"], true);
    let checks = json["checks"].as_array().unwrap();
    assert_eq!(checks.len(), list::CHECKS.len());
    for check in checks {
        let keys: Vec<&String> = check.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["id", "title", "status", "required", "seen", "cost", "fix"]);
    }
    let turbo = checks.iter().find(|check| check["id"] == "cpu.turbo").unwrap();
    assert_eq!(turbo["status"], "warn");
    assert!(turbo["fix"].is_string());
}

fn text(report: &Report) -> String {
    let mut output = Vec::new();
    render_text(report, &mut anstream::StripStream::new(&mut output)).unwrap();
    String::from_utf8(output).unwrap()
}

#[test]
fn text_is_grouped_and_ends_with_the_verdict() {
    let text = text(&examine_with(&[("sys/devices/system/cpu/cpufreq/boost", "1")]));
    assert!(text.starts_with("privilege\n  ok    privileges"), "{text}");
    assert!(text.contains("\ncpu\n  ok    CPUs"), "{text}");
    assert!(text.contains("  warn  turbo"), "{text}");
    assert!(text.contains("\n        costs: the clock depends"), "{text}");
    assert!(text.ends_with("ready: everything that `weir lab` requires is here (1 warning)\n"));
}

#[test]
fn text_names_what_failed() {
    let report = examine_with(&[("proc/sys/kernel/osrelease", "4.19.0")]);
    let text = text(&report);
    assert!(
        text.ends_with("not ready: `weir lab` cannot run here: kernel.version (no warnings)\n")
    );
}

#[test]
fn ids_are_unique_and_grouped() {
    let ids: Vec<_> = list::CHECKS.iter().map(|spec| spec.id).collect();
    let mut groups: Vec<_> = list::CHECKS.iter().map(|spec| list::group(spec.id)).collect();
    groups.dedup();
    let distinct: std::collections::BTreeSet<_> = groups.iter().collect();
    assert_eq!(distinct.len(), groups.len(), "a group is in two places: {groups:?}");
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "an id is there twice: {ids:?}");
}

/// `docs/doctor.md` as the list has it.
fn document() -> String {
    let mut text = String::from(
        "# What `weir doctor` checks\n\n\
         This page is made from the list in the code (`WEIR_BLESS=1 cargo test -p weir doctor` \
         writes\nit). A check that `weir lab` requires makes the exit code 1 when it fails; \
         the others warn.\n\n\
         | check | what | required | what the lack costs | what to do |\n\
         |---|---|---|---|---|\n",
    );
    for spec in list::CHECKS {
        let required = if spec.required { "yes" } else { "no" };
        let list::Spec { id, title, cost, fix, .. } = spec;
        text.push_str(&format!("| `{id}` | {title} | {required} | {cost} | {fix} |\n"));
    }
    text
}

#[test]
fn the_document_is_the_list() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    if std::env::var_os("WEIR_BLESS").is_some() {
        fs::write(&path, document()).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, document(), "docs/doctor.md is not up to date");
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn this_machine_is_examined_and_left_as_it_was() {
    let host = Host::this_machine();
    if !host.missing_capabilities().is_empty() {
        eprintln!("skipped: trying kernel features needs root");
        return;
    }
    let report = run();
    for id in ["privilege.namespaces", "kernel.xdp-native", "kernel.threaded-napi"] {
        let check = check(&report, id);
        assert_eq!(check.status, Status::Ok, "{check:?}");
    }
    let prefix = format!("weir-doctor-{}-", std::process::id());
    let left = weir_net::netns::list().unwrap();
    assert!(!left.iter().any(|name| name.starts_with(&prefix)), "{left:?}");
}
