//! The data path's evaluation of rules against the reference evaluator: random rulesets and random
//! packets, judged by both.

mod random;
mod typed;

use random::{Random, Scene};
use weir_bpf::firewall::Arena;
use weir_bpf::firewall::judge::{Decision, Judge, Subject};
use weir_bpf::firewall::layout::{self, control, direction, family, packet_flags};
use weir_fw::compile::known::Known;
use weir_fw::compile::{Compiled, Input, compile};
use weir_fw::heap::{Heap, Kind};
use weir_fw::image::decision;
use weir_fw::install::{Contents, Installer, contents};
use weir_oracle::count;
use weir_rules::Dialect;
use weir_rules::evaluate::{
    Actions, AllRouted, Decision as Outcome, Evaluator, Moment, NoStates, Packet, Reason, Response,
    Verdict,
};
use weir_rules::ir::{Ruleset, TableEntry};
use weir_rules::value::{Af, Direction};
use weir_wire::protocol::TCP;

const HEAP_AT: u32 = 65_536;
const HEAP_BYTES: u32 = 256 << 20;
const CPU_COUNT: u32 = 2;
const PACKETS_OF_RULESET: usize = 100;
/// Pairs of a ruleset and a packet in a full run.
const PAIR_COUNT: u64 = 100_000;

#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn judge() -> Option<Judge> {
    match Judge::load() {
        Ok(judge) => {
            judge.arena().populate(0, 65_536).unwrap();
            Some(judge)
        }
        Err(weir_bpf::firewall::FirewallError::Load(error)) if error.is_permission() => {
            eprintln!("skipped: BPF programs need root");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// One shared memory in which rulesets follow each other.
struct Box<'a> {
    judge: &'a Judge,
    known: Known,
    now_ns: u64,
}

impl<'a> Box<'a> {
    fn new(judge: &'a Judge) -> Self {
        Heap::format(judge.arena(), HEAP_AT, HEAP_BYTES).unwrap();
        judge.arena().write32(control::ACTIVE, 0);
        Self { judge, known: Known::default(), now_ns: 1 }
    }

    fn load(&mut self, evaluator: &Evaluator<'_>, scene: &Scene, tables: &Contents) -> Compiled {
        let (resolver, slots, known) = (&scene.facts, &scene.slots, &self.known);
        let counted = crate::counted_tables(evaluator.ruleset());
        let typed = &weir_fw::compile::declared_values(evaluator.ruleset());
        let input = Input { evaluator, resolver, slots, known, counted: &counted, typed };
        let mut compiled = compile(&input).unwrap_or_else(|refused| panic!("{:?}", refused.0));
        let arena = self.judge.arena();
        let heap = Heap::adopt(arena, HEAP_AT, HEAP_BYTES).unwrap();
        let installer = Installer::new(arena, heap, CPU_COUNT, 0x1234);
        installer.heap().reap(self.now_ns).unwrap();
        compiled.typed_at = crate::place_typed(&installer, evaluator.ruleset());
        self.known = installer.activate(&compiled, evaluator, tables, self.now_ns).unwrap();
        self.known.release(|_| true);
        self.now_ns += 10_000_000_000;
        compiled
    }
}

fn subject_of(packet: &Packet, ruleset: &Ruleset, scene: &Scene) -> Subject {
    let octets = |address: std::net::IpAddr| {
        let mut out = [0; 16];
        match address {
            std::net::IpAddr::V4(address) => out[..4].copy_from_slice(&address.octets()),
            std::net::IpAddr::V6(address) => out = address.octets(),
        }
        out
    };
    let slot =
        |name: &str| scene.slots.iter().find(|known| known.interface == name).unwrap().number;
    let is_in = packet.direction == Direction::In;
    let received = packet.received_on.as_ref().map_or(0, |name| slot(name));
    let has_options = match ruleset.dialect {
        Dialect::FreeBsd => packet.extensions.ipv4_options || packet.extensions.routing_header,
        Dialect::OpenBsd => packet.extensions.ipv4_options || packet.extensions.ipv6_options,
    };
    let family = match packet.af() {
        Af::Inet => family::INET,
        Af::Inet6 => family::INET6,
    };
    let flag = |is_set: bool, flags: u32| if is_set { flags } else { 0 };
    let later = packet_flags::FRAGMENT | packet_flags::LATER_FRAGMENT;
    Subject {
        src: octets(packet.source),
        dst: octets(packet.destination),
        src_port: if packet.is_icmp() { packet.icmp.id } else { packet.source_port },
        dst_port: packet.destination_port,
        family,
        protocol: packet.protocol,
        tcp_flags: packet.tcp_flags,
        icmp_type: packet.icmp.kind,
        icmp_code: packet.icmp.code,
        tos: packet.tos,
        direction: if is_in { direction::IN } else { direction::OUT },
        flags: flag(packet.fragment, later) | flag(has_options, packet_flags::OPTIONS),
        vlan_bytes: if packet.prio.is_some() { 4 } else { 0 },
        ip_bytes: 100,
        interface: if is_in { slot(&packet.interface) } else { received },
        out_interface: if is_in { 0 } else { slot(&packet.interface) },
        priority: packet.prio.unwrap_or(0),
        tag: 0,
        ruleset: 0,
        user: packet.user.unwrap_or(u32::MAX),
        group: packet.group.unwrap_or(u32::MAX),
    }
}

/// What both have to agree on.
#[derive(Debug, PartialEq, Eq)]
struct Judged {
    blocked: bool,
    by_options: bool,
    rule: Option<u32>,
    keeps_state: bool,
    logs: bool,
    log_all: bool,
    answer: Option<(u8, u8)>,
    /// Of what is not blocked: `max-mss`, `min-ttl`, `set tos`, `no-df`, `random-id`.
    changes: Option<(u16, u8, Option<u8>, bool, bool)>,
}

fn by_reference(verdict: &Verdict<'_>, compiled: &Compiled) -> Judged {
    let id = |rule: weir_rules::evaluate::RuleId| {
        compiled.rules.iter().find(|info| info.rule == rule).unwrap().id
    };
    Judged {
        blocked: verdict.decision == Outcome::Block,
        by_options: verdict.reason == Reason::Options,
        rule: verdict.rule.map(|rule| id(rule.id)),
        keeps_state: verdict.state.is_some(),
        logs: !verdict.logs.is_empty(),
        log_all: verdict.actions.log_all,
        answer: match verdict.response {
            Response::None | Response::SctpAbort => None,
            Response::Rst { ttl } => Some((0xff, ttl)),
            Response::Icmp { kind, code } => Some((kind, code)),
        },
        changes: (verdict.decision != Outcome::Block).then(|| {
            let Actions { max_mss, min_ttl, set_tos, no_df, random_id, .. } = verdict.actions;
            (max_mss.unwrap_or(0), min_ttl.unwrap_or(0), set_tos, no_df, random_id)
        }),
    }
}

fn by_data_path(found: &Decision) -> Judged {
    let has = |bit: u32| found.flags & bit != 0;
    Judged {
        blocked: has(decision::BLOCK),
        by_options: has(decision::BLOCK) && found.reason == 8,
        rule: (found.rule != layout::RULE_NONE).then_some(found.rule),
        keeps_state: has(decision::KEEP_STATE),
        logs: has(decision::LOG),
        log_all: has(decision::LOG_ALL),
        answer: match (has(decision::RETURN_RST), has(decision::RETURN_ICMP)) {
            (true, _) => Some((0xff, found.rst_ttl)),
            (false, true) => Some((found.icmp_type, found.icmp_code)),
            (false, false) => None,
        },
        changes: (!has(decision::BLOCK)).then(|| {
            let [mss_low, mss_high, ttl, tos, flags, ..] = found.scrub.to_le_bytes();
            let flag = |shift: u32| flags >> (shift - layout::SCRUB_SETS_TOS_SHIFT) & 1 == 1;
            let sets_tos = flag(layout::SCRUB_SETS_TOS_SHIFT);
            (
                u16::from_le_bytes([mss_low, mss_high]),
                ttl,
                sets_tos.then_some(tos),
                flag(layout::SCRUB_NO_DF_SHIFT),
                flag(layout::SCRUB_RANDOM_ID_SHIFT),
            )
        }),
    }
}

fn listing(compiled: &Compiled) -> String {
    compiled
        .rules
        .iter()
        .map(|info| format!("{} @{} {}\n", info.id, info.number, info.text))
        .collect()
}

fn compare(judge: &Judge, ruleset_count: usize, seed: u64, rule_count_max: usize) {
    let scene = Scene::new();
    let mut filter = Box::new(judge);
    let mut random = Random(seed);
    for round in 0..ruleset_count {
        let dialect = if random.below(2) == 0 { Dialect::FreeBsd } else { Dialect::OpenBsd };
        let rule_count = 1 + random.below(rule_count_max);
        let text = random::ruleset(&mut random, &scene, dialect, rule_count);
        let compiled_text = scene.compile(&text, dialect);
        let ruleset = &compiled_text.ruleset;
        let evaluator = Evaluator::new(ruleset, &[], &scene.facts).unwrap();
        let compiled = filter.load(&evaluator, &scene, &contents("", ruleset));
        let active = judge.arena().read32(control::ACTIVE);
        for _ in 0..PACKETS_OF_RULESET {
            let packet = random::packet(&mut random);
            let mut states = NoStates;
            let mut moment = Moment {
                now_ns: 0,
                random: &mut || 1_000_000,
                states: &mut states,
                routes: &AllRouted,
            };
            let verdict = evaluator.evaluate(&packet, &mut moment);
            let mut subject = subject_of(&packet, ruleset, &scene);
            subject.ruleset = active;
            let (found, _) = judge.run(&subject, 1).unwrap();
            assert_eq!(
                by_data_path(&found),
                by_reference(&verdict, &compiled),
                "round {round}, {packet:?}\n{found:?}\n{text}\n{}",
                listing(&compiled)
            );
        }
    }
}

#[test]
fn random_rulesets_are_judged_as_by_the_reference() {
    let Some(judge) = judge() else { return };
    let pair_count = usize::try_from(count::pairs(PAIR_COUNT)).unwrap();
    let ruleset_count = pair_count / PACKETS_OF_RULESET;
    compare(&judge, ruleset_count * 4 / 5, 1, 12);
    compare(&judge, ruleset_count / 5, 2, 90);
    // `make soak` says for how long.
    let soak = std::env::var("WEIR_SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let end = std::time::Instant::now() + std::time::Duration::from_secs(soak.unwrap_or(0));
    let mut seed = 1000;
    while std::time::Instant::now() < end {
        compare(&judge, 20, seed, 40);
        compare(&judge, 1, seed + 1, 3000);
        seed += 2;
    }
}

#[test]
fn large_rulesets_are_judged_as_by_the_reference() {
    let Some(judge) = judge() else { return };
    compare(&judge, 4, 3, 9000);
}

/// A packet of TCP that comes in by em0.
fn segment(source: [u8; 4], port: u16, active: u32) -> Subject {
    let mut subject = Subject {
        src_port: 40_000,
        dst_port: port,
        protocol: TCP,
        tcp_flags: 2,
        interface: 1,
        ip_bytes: 60,
        ruleset: active,
        ..Subject::default()
    };
    subject.src[..4].copy_from_slice(&source);
    subject.dst[..4].copy_from_slice(&[10, 0, 0, 9]);
    subject
}

impl Box<'_> {
    fn load_text(&mut self, scene: &Scene, text: &str) -> Compiled {
        let read = scene.compile(text, Dialect::FreeBsd);
        let evaluator = Evaluator::new(&read.ruleset, &[], &scene.facts).unwrap();
        self.load(&evaluator, scene, &contents("", &read.ruleset))
    }

    fn is_blocked(&self, source: [u8; 4], port: u16) -> bool {
        let active = self.judge.arena().read32(control::ACTIVE);
        let (found, _) = self.judge.run(&segment(source, port, active), 1).unwrap();
        found.flags & decision::BLOCK != 0
    }

    /// Evaluations, and packets in, of the rule with this text.
    fn counted(&self, compiled: &Compiled, text: &str) -> (u32, u64, u64) {
        let rule = compiled.rules.iter().find(|info| info.text == text).unwrap();
        let at = self.known.counters_at(rule.id, CPU_COUNT).unwrap();
        let arena = self.judge.arena();
        (rule.id, arena.read64(at), arena.read64(at + 8))
    }

    fn with_installer<T>(&self, use_it: impl FnOnce(&Installer<'_, Arena>) -> T) -> T {
        let arena = self.judge.arena();
        let heap = Heap::adopt(arena, HEAP_AT, HEAP_BYTES).unwrap();
        use_it(&Installer::new(arena, heap, CPU_COUNT, 0x1234))
    }
}

#[test]
fn a_reload_keeps_the_counters_of_unchanged_rules() {
    const HTTP: &str = "pass in proto tcp from any to any port = http no state";
    const SSH: &str = "pass in proto tcp from any to any port = ssh no state";
    let Some(judge) = judge() else { return };
    let (scene, mut filter) = (Scene::new(), Box::new(&judge));
    let first = filter.load_text(&scene, &format!("block all\n{HTTP}\n{SSH}\n"));
    for port in [80, 80, 80, 22, 443] {
        assert_eq!(filter.is_blocked([10, 0, 0, 5], port), port == 443);
    }
    let (http, evaluations, packets) = filter.counted(&first, HTTP);
    assert_eq!((evaluations, packets), (3, 3));
    let (ssh, ..) = filter.counted(&first, SSH);

    let second = filter.load_text(&scene, &format!("block in all\n{HTTP}\n"));
    assert_eq!(filter.counted(&second, HTTP), (http, 3, 3));
    assert!(!filter.is_blocked([10, 0, 0, 5], 80) && filter.is_blocked([10, 0, 0, 5], 22));
    assert_eq!(filter.counted(&second, HTTP), (http, 4, 4));

    // The identifier of a rule that is gone comes back with its counters at 0.
    let third = filter.load_text(&scene, &format!("{SSH}\nblock in all\n{HTTP}\n"));
    let (again, evaluations, _) = filter.counted(&third, SSH);
    assert!(again == ssh || again < third.known.id_count, "{again}");
    assert_eq!(evaluations, 0);
    assert_eq!(filter.counted(&third, HTTP), (http, 4, 4));
}

#[test]
fn a_table_is_replaced_as_a_whole() {
    let Some(judge) = judge() else { return };
    let (scene, mut filter) = (Scene::new(), Box::new(&judge));
    let text = "table <bad> persist { 10.0.0.0/24 !10.0.0.7 }\nblock in from <bad>\n";
    let compiled = filter.load_text(&scene, text);
    assert_eq!(compiled.tables.len(), 1);
    let blocked = |filter: &Box<'_>| [5, 7, 9].map(|last| filter.is_blocked([10, 0, 0, last], 80));
    assert_eq!(blocked(&filter), [true, false, true]);

    let entry = |address: [u8; 4], bits| TableEntry { address: address.into(), bits, not: false };
    let entries = [entry([10, 0, 0, 7], 32), entry([192, 0, 2, 0], 24)];
    filter.with_installer(|installer| {
        installer.replace_table(0, &entries, 1).unwrap();
        assert_eq!(installer.table_entries(0), entries);
        assert_eq!(installer.table_entry_count(0), 2);
    });
    assert_eq!(blocked(&filter), [false, true, false]);

    filter.with_installer(|installer| {
        let used = |installer: &Installer<'_, Arena>| {
            let blocks = installer.heap().blocks().unwrap();
            blocks.iter().filter(|block| block.kind == Kind::Prefixes).count()
        };
        installer.replace_table(0, &[], 2).unwrap();
        assert_eq!(used(installer), 2, "what was replaced is there for a while");
        installer.heap().reap(u64::MAX).unwrap();
        assert_eq!(used(installer), 0);
    });
    assert_eq!(blocked(&filter), [false, false, false]);
}

#[test]
fn what_is_prepared_and_abandoned_leaves_no_trace() {
    let Some(judge) = judge() else { return };
    let (scene, mut filter) = (Scene::new(), Box::new(&judge));
    let text = "table <bad> persist { 10.0.0.0/24 }\nblock in from <bad>\n";
    filter.load_text(&scene, text);
    let next = "table <bad> persist { 192.0.2.0/24 }\ntable <good> persist { 10.0.0.5 }\n\
                pass in from <good>\nblock in from <bad>\n";
    let read = scene.compile(next, Dialect::FreeBsd);
    let evaluator = Evaluator::new(&read.ruleset, &[], &scene.facts).unwrap();
    let known = &filter.known;
    let (resolver, slots) = (&scene.facts, &scene.slots);
    let counted = crate::counted_tables(&read.ruleset);
    let typed = &weir_fw::compile::declared_values(&read.ruleset);
    let input = Input { evaluator: &evaluator, resolver, slots, known, counted: &counted, typed };
    let compiled = compile(&input).unwrap_or_else(|refused| panic!("{:?}", refused.0));
    filter.with_installer(|installer| {
        let before = installer.heap().blocks().unwrap();
        let tables = contents("", &read.ruleset);
        let prepared = installer.prepare(&compiled, &evaluator, &tables).unwrap();
        assert_ne!(installer.heap().blocks().unwrap(), before);
        assert!(filter.is_blocked([10, 0, 0, 5], 80), "it is not active");
        installer.abandon(prepared).unwrap();
        assert_eq!(installer.heap().blocks().unwrap(), before);
        let prepared = installer.prepare(&compiled, &evaluator, &tables).unwrap();
        installer.commit(prepared, 1).unwrap();
    });
    assert!(!filter.is_blocked([10, 0, 0, 5], 80) && filter.is_blocked([192, 0, 2, 5], 80));
}

#[test]
fn a_large_table_holds_what_it_was_given() {
    let Some(judge) = judge() else { return };
    let (scene, mut filter) = (Scene::new(), Box::new(&judge));
    filter.load_text(&scene, "table <bad> persist\nblock in from <bad>\n");
    let address = |n: u32| (n.wrapping_mul(2_654_435_761) | 1 << 24).to_be_bytes();
    let entries: Vec<TableEntry> = (0..300_000)
        .map(|n| TableEntry { address: address(n * 2).into(), bits: 32, not: false })
        .collect();
    filter.with_installer(|installer| installer.replace_table(0, &entries, 1).unwrap());
    let held: std::collections::HashSet<_> = entries.iter().map(|entry| entry.address).collect();
    for n in (0..600_000).step_by(997) {
        let is_held = held.contains(&address(n).into());
        assert_eq!(filter.is_blocked(address(n), 80), is_held, "{n}");
    }
}
