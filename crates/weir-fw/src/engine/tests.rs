//! An engine on a data path of its own, in a namespace: what is left behind by one that ends in the
//! middle, and what a refusal changes.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use weir_bpf::firewall::layout::{
    SCRUB_ENDS_SHIFT, SCRUBS_AT, control, image, target, translation,
};
use weir_bpf::firewall::{Attachment, Firewall};
use weir_net::{Netlink, NetnsGuard, VethEnd};
use weir_oracle::netns::namespace;
use weir_rules::facts::Facts;

use super::load::{Manner, Next};
use super::source::Source;
use super::{Engine, Machine, Options, Refused};
use crate::limits::Followed;
use crate::protocol::{Bytes, Load, LoadParts, NamedFile, TableAction};

/// A machine with two interfaces; the address of the first one changes.
struct Fake(Mutex<&'static str>);

impl Machine for Fake {
    fn facts(&self) -> Result<Facts, String> {
        let address = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = format!("interface b0 {address}/24\ninterface b1 10.2.0.1/24\n");
        Facts::parse(&text).map_err(|error| error.to_string())
    }
}

struct Rig {
    netns: NetnsGuard,
    machine: Arc<Fake>,
}

impl Rig {
    /// `None`, and the reason is printed, without privileges.
    fn new(tag: &str) -> Option<Self> {
        let netns = namespace(tag)?;
        netns
            .run(|| {
                let netlink = Netlink::open().unwrap();
                for (end, peer) in [("b0", "p0"), ("b1", "p1")] {
                    netlink.create_veth(&VethEnd::new(end), &VethEnd::new(peer), 1).unwrap();
                    netlink.set_up(end).unwrap();
                    netlink.set_up(peer).unwrap();
                }
            })
            .unwrap();
        Some(Self { netns, machine: Arc::new(Fake(Mutex::new("10.1.0.1"))) })
    }

    fn start(&self, text: &str) -> Engine {
        let machine: Arc<dyn Machine> = Arc::<Fake>::clone(&self.machine);
        Engine::start(Options::default(), machine, load(text), 0).unwrap().0
    }

    fn move_to(&self, address: &'static str) {
        *self.machine.0.lock().unwrap() = address;
    }
}

fn load(text: &str) -> Load {
    Load {
        name: "pf.conf".to_owned(),
        text: Bytes::new(text.as_bytes()),
        files: Vec::new(),
        macros: Vec::new(),
        hosts: Vec::new(),
        pipes: String::new(),
        dialect: None,
        level: None,
        anchor: String::new(),
        parts: LoadParts::ALL,
        is_merged: false,
        pid: 1,
    }
}

/// Another ruleset, compiled as a load would.
fn next(engine: &Engine, text: &str) -> Next {
    let facts = engine.machine.facts().unwrap();
    let main = Source::compile(load(text), &facts, &[], None, String::new).unwrap();
    let tables = engine.tables.with_all("", &main.ruleset, &main.anchors);
    Next { facts, main, anchors: Vec::new(), tables, typed: engine.typed.clone() }
}

fn table(engine: &mut Engine, name: &str, action: TableAction, entries: &[&str]) -> String {
    let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
    let answer = engine.table(&(String::new(), name.to_owned()), action, &entries, 0);
    answer.unwrap().text
}

const FIRST: &str = "table <allowed> persist\ntable <bad> persist\nblock on { b0 b1 }\n\
                     pass in on b0 from <allowed>\nblock in on b1 from <bad>\n";
/// The tables stand the other way round in its image.
const SECOND: &str = "table <bad> persist\ntable <allowed> persist\nblock on { b0 b1 }\n\
                      block in on b1 from <bad>\npass in on b0 from <allowed>\n";

/// Where a daemon ends while it loads the second ruleset.
#[derive(Debug, Clone, Copy)]
enum End {
    BeforeAnything,
    BeforeCommit,
    AfterCommit,
}

#[test]
fn a_daemon_that_is_killed_around_the_commit_leaves_the_tables_right() {
    let Some(rig) = Rig::new("doc") else { return };
    let (allowed, bad) = ("   192.0.2.1\n", "   198.51.100.1\n");
    rig.netns
        .run(|| {
            let mut engine = rig.start(FIRST);
            table(&mut engine, "allowed", TableAction::Add, &["192.0.2.1"]);
            table(&mut engine, "bad", TableAction::Add, &["198.51.100.1"]);
            for end in [End::BeforeAnything, End::BeforeCommit, End::AfterCommit] {
                let staged = engine.stage(next(&engine, SECOND), Manner::Asked).unwrap();
                match end {
                    End::BeforeAnything => {}
                    End::BeforeCommit => {
                        engine.announce(&staged);
                    }
                    End::AfterCommit => {
                        engine.announce(&staged);
                        let installer = engine.installer().unwrap();
                        installer.commit(staged.prepared, super::boot_ns()).unwrap();
                    }
                }
                drop(engine);
                engine = rig.start(FIRST);
                assert!(engine.is_adopted());
                for (name, entries) in [("allowed", allowed), ("bad", bad)] {
                    let shown = table(&mut engine, name, TableAction::Show, &[]);
                    assert_eq!(shown, entries, "{name}, {end:?}");
                }
            }
            // What is written without a new ruleset is about the one that is active.
            engine.set_debug("loud").unwrap();
            drop(engine);
            let mut engine = rig.start(SECOND);
            assert_eq!(engine.debug, "loud");
            assert_eq!(table(&mut engine, "allowed", TableAction::Show, &[]), allowed);
            engine.stop();
        })
        .unwrap();
}

#[test]
fn tables_of_the_files_of_anchors_are_filled_and_count() {
    let Some(rig) = Rig::new("files") else { return };
    let with_file = |limit: u32| {
        let text = format!(
            "set limit table-entries {limit}\ntable <a> {{ 192.0.2.1 }}\nblock in on b0 from <a>\n\
             anchor ftp\nload anchor ftp from \"ftp.conf\"\n"
        );
        let file = NamedFile {
            path: "ftp.conf".to_owned(),
            from: "pf.conf".to_owned(),
            bytes: Bytes::new(b"table <b> { 192.0.2.2 192.0.2.3 }\nblock in on b0 from <b>\n"),
        };
        Load { files: vec![file], ..load(&text) }
    };
    let held = |engine: &Engine| {
        let mut held = addresses(engine);
        held.sort_unstable();
        held
    };
    let all = [1, 2, 3].map(|host| IpAddr::from([192, 0, 2, host]));
    rig.netns
        .run(|| {
            let machine: Arc<dyn Machine> = Arc::<Fake>::clone(&rig.machine);
            let mut engine = Engine::start(Options::default(), machine, with_file(3), 0).unwrap().0;
            assert_eq!(held(&engine), all, "at the start");
            let refused = engine.load(with_file(2), 0).unwrap_err().to_string();
            assert_eq!(refused, format!("pf.conf:1: {}", super::tables::too_many_entries(3, 2)));
            engine.load(load("pass on { b0 b1 }\n"), 0).unwrap();
            assert_eq!(held(&engine), [] as [IpAddr; 0]);
            engine.load(with_file(3), 0).unwrap();
            assert_eq!(held(&engine), all, "at a load");
            engine.stop();
        })
        .unwrap();
}

/// The addresses in the tables that the data path's rules have.
fn addresses(engine: &Engine) -> Vec<IpAddr> {
    let installer = engine.installer().unwrap();
    let all = (0..engine.directory.len()).flat_map(|index| installer.table_entries(index));
    all.map(|entry| entry.address).collect()
}

#[test]
fn an_address_that_changes_while_a_load_is_refused_is_followed() {
    let Some(rig) = Rig::new("facts") else { return };
    rig.netns
        .run(|| {
            let mut engine = rig.start("pass on { b0 b1 }\nblock in on b0 to (b0)\n");
            assert_eq!(addresses(&engine), ["10.1.0.1".parse::<IpAddr>().unwrap()]);
            rig.move_to("10.1.0.9");
            let refused = engine.load(load("blok\n"), 0).unwrap_err().to_string();
            assert!(refused.contains("pf.conf:1"), "{refused}");
            engine.refresh().unwrap();
            assert_eq!(addresses(&engine), ["10.1.0.9".parse::<IpAddr>().unwrap()]);
            // So is one that changes while the ruleset compiles, and cannot be activated.
            rig.move_to("10.1.0.7");
            let big = load("set hashsize 16\nset limit states 10\npass on { b0 b1 }\n");
            let refused = engine.load(big, 0).unwrap_err().to_string();
            assert!(refused.contains("set hashsize 16"), "{refused}");
            engine.refresh().unwrap();
            assert_eq!(addresses(&engine), ["10.1.0.7".parse::<IpAddr>().unwrap()]);
            engine.stop();
        })
        .unwrap();
}

#[test]
fn what_was_stopped_stays_off() {
    let Some(rig) = Rig::new("stop") else { return };
    rig.netns
        .run(|| {
            let mut engine = rig.start("pass on { b0 b1 }\nblock in on b0 to (b0)\n");
            let netlink = Netlink::open().unwrap();
            let both = ["b0", "b1"].map(|name| netlink.ifindex(name).unwrap());
            let at = |engine: &Engine| {
                both.map(|ifindex| engine.firewall().attachment(ifindex).unwrap())
            };
            assert!(
                at(&engine)
                    .iter()
                    .all(|attachment| attachment.ingress.is_some() && attachment.egress)
            );
            engine.stop();
            assert_eq!(at(&engine), [Attachment::default(); 2]);
            // An interface's event, and a client that has waited for its turn.
            rig.move_to("10.1.0.9");
            assert_eq!(engine.refresh(), Ok(Vec::new()));
            let refused = engine.load(load("pass\n"), 0);
            assert_eq!(refused, Err(Refused("weir fw was stopped".to_owned())));
            assert!(engine.flush_rules("").is_err());
            assert_eq!(at(&engine), [Attachment::default(); 2]);
        })
        .unwrap();
}

#[test]
fn tables_beside_the_arena_take_what_the_arithmetic_says() {
    let Some(rig) = Rig::new("bytes") else { return };
    rig.netns
        .run(|| {
            let mut engine = rig.start("set limit frags 20000\npass on { b0 b1 }\n");
            let cpu_count = engine.firewall().regions().sizes.cpu_count;
            let followed = Followed { fragment_limit: 20_000, source_limit: 10_000 };
            let plan = crate::limits::plan(100_000, None, cpu_count, 0).unwrap().with(followed);
            let [fragments, sources] = plan.followed_bytes();
            let bytes = engine.firewall().table_bytes().unwrap();
            assert!(
                (fragments / 2..=fragments).contains(&bytes.fragments),
                "{bytes:?} {fragments}"
            );
            assert!((1 << 20..=sources).contains(&bytes.sources), "{bytes:?}, full {sources}");
            engine.stop();
        })
        .unwrap();
}

/// An IPv4 datagram of a flow, for nobody in particular: the kernel gets it if it passes.
fn datagram(flow: u16) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 2, 10, 2, 0, 9];
    let (words, _) = ip.as_chunks::<2>();
    let sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let ethernet = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let [high, low] = flow.to_be_bytes();
    [&ethernet[..], &ip, &[high, low, 0, 53, 0, 8, 0, 0]].concat()
}

/// Ends the packets of [`beside_packets`], also where a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Does something while packets of ever new flows come by b0, every one of which has to pass.
/// `what` can wait for the next one.
fn beside_packets(firewall: &Firewall, what: impl FnOnce(&dyn Fn())) {
    const XDP_PASS: i32 = 2;
    let ifindex = Netlink::open().unwrap().ifindex("b0").unwrap();
    let (is_over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let not_passed = thread::scope(|scope| {
        let packets = scope.spawn(|| {
            let mut not_passed = Vec::new();
            while !is_over.load(Ordering::Acquire) {
                let number = count.fetch_add(1, Ordering::AcqRel);
                let flow = u16::try_from(number % 60_000).unwrap() + 1;
                let action = firewall.run_ingress(ifindex, &datagram(flow)).unwrap().action;
                not_passed.extend((action != XDP_PASS).then_some((number, action)));
            }
            not_passed
        });
        let over = Over(&is_over);
        what(&|| {
            let before = count.load(Ordering::Acquire);
            while count.load(Ordering::Acquire) == before && !packets.is_finished() {
                thread::yield_now();
            }
        });
        drop(over);
        packets.join().unwrap()
    });
    let count = count.into_inner();
    assert!(not_passed.is_empty(), "{} of {count}: {not_passed:?}", not_passed.len());
}

/// Rulesets that let all packets pass, each in its own way; one's rules with the other's settings
/// drop them.
const PAIRS: [[&str; 2]; 2] = [
    ["pass no state\n", "set skip on b0\nblock\n"],
    ["set limit states 1\npass no state\n", "set limit states 70000\npass keep state\n"],
];

#[test]
fn no_packet_meets_half_of_a_ruleset() {
    let Some(rig) = Rig::new("half") else { return };
    rig.netns
        .run(|| {
            for pair in PAIRS {
                let mut engine = rig.start(pair[1]);
                let firewall = Arc::clone(&engine.firewall);
                beside_packets(&firewall, |next_packet| {
                    for round in 0..300 {
                        engine.load(load(pair[round % 2]), 0).unwrap();
                        next_packet();
                    }
                });
                engine.stop();
            }
        })
        .unwrap();
}

/// The addresses of the pool of the only rule of a list.
fn pool(engine: &Engine) -> Vec<[u8; 4]> {
    let arena = engine.firewall().arena();
    let at = arena.read32(control::ACTIVE);
    let list_at = at + arena.read32(at + image::TRANSLATIONS_AT);
    let number = arena.read32(at + image::RULE_COUNT);
    let translation_at = at + arena.read32(list_at + number * 4);
    let count = arena.read32(translation_at + translation::TARGET_COUNT);
    let targets_at = at + arena.read32(translation_at + translation::TARGETS_AT);
    let address = |at: u32| arena.read32(targets_at + at * target::SIZE_BYTES).to_ne_bytes();
    (0..count).map(address).collect()
}

#[test]
fn a_pool_follows_its_table() {
    let Some(rig) = Rig::new("pool") else { return };
    let text = "table <servers> persist { 10.2.0.5 }\n\
                rdr on b0 inet proto tcp to port 80 -> <servers>\npass on { b0 b1 }\n";
    rig.netns
        .run(|| {
            let mut engine = rig.start(text);
            assert_eq!(pool(&engine), [[10, 2, 0, 5]]);
            table(&mut engine, "servers", TableAction::Add, &["10.2.0.6", "!10.2.0.7"]);
            assert_eq!(pool(&engine), [[10, 2, 0, 5], [10, 2, 0, 6]]);
            table(&mut engine, "servers", TableAction::Delete, &["10.2.0.5"]);
            assert_eq!(pool(&engine), [[10, 2, 0, 6]]);
            rig.move_to("10.1.0.9");
            engine.refresh().unwrap();
            assert_eq!(pool(&engine), [[10, 2, 0, 6]], "not what the file says");

            let many: Vec<String> =
                (0..1024).map(|n| format!("10.3.{}.{}", n / 256, n % 256)).collect();
            let key = (String::new(), "servers".to_owned());
            let refused = engine.table(&key, TableAction::Add, &many, 0).err().unwrap();
            assert!(refused.0.contains("a pool of 1025 networks"), "{refused:?}");
            assert_eq!(pool(&engine), [[10, 2, 0, 6]]);
            let shown = table(&mut engine, "servers", TableAction::Show, &[]);
            assert_eq!(shown, "   10.2.0.6\n  !10.2.0.7\n", "nor is it in the table");
            let key = ("a".to_owned(), "servers".to_owned());
            assert!(!engine.is_of_pool(&key), "an anchor's is another one");
            let key = (String::new(), "servers".to_owned());
            engine.add_sources(&key, &["10.2.0.4".parse().unwrap()]).unwrap();
            assert_eq!(pool(&engine), [[10, 2, 0, 4], [10, 2, 0, 6]], "as `overload` does");
            table(&mut engine, "servers", TableAction::Kill, &[]);
            assert_eq!(pool(&engine), [[0; 4]; 0]);
            engine.load(load(text), 0).unwrap();
            assert_eq!(pool(&engine), [[10, 2, 0, 5]]);
            engine.stop();
        })
        .unwrap();
}

#[test]
fn changes_that_no_state_has_make_room_for_others() {
    let Some(rig) = Rig::new("scrubs") else { return };
    rig.netns
        .run(|| {
            let mut engine = rig.start("pass on { b0 b1 }\n");
            let firewall = Arc::clone(engine.firewall());
            let word = |number: u32| firewall.arena().word64(SCRUBS_AT + number * 8);
            for number in 1..=9 {
                word(number).store(number.into(), Ordering::Relaxed);
            }
            engine.release_scrubs();
            // A program takes one of them again.
            let ends = 1 << SCRUB_ENDS_SHIFT;
            assert_eq!(word(3).swap(3, Ordering::Relaxed), ends | 3);
            engine.release_scrubs();
            let words = [1, 2, 3, 4, 9].map(|number| word(number).load(Ordering::Relaxed));
            assert_eq!(words, [1, 0, ends | 3, 0, 0]);
            engine.stop();
        })
        .unwrap();
}

#[test]
fn a_table_is_replaced_within_the_limit_of_entries() {
    let Some(rig) = Rig::new("replace") else { return };
    let text = "set limit table-entries 3\ntable <t> persist { 192.0.2.1 192.0.2.2 }\n\
                block in on { b0 b1 } from <t>\n";
    rig.netns
        .run(|| {
            let mut engine = rig.start(text);
            let others = ["198.51.100.1", "198.51.100.2", "198.51.100.3"];
            table(&mut engine, "t", TableAction::Replace, &others);
            let shown = table(&mut engine, "t", TableAction::Show, &[]);
            assert_eq!(shown, "   198.51.100.1\n   198.51.100.2\n   198.51.100.3\n");
            let key = (String::new(), "t".to_owned());
            let more = vec!["198.51.100.4".to_owned()];
            let refused = engine.table(&key, TableAction::Add, &more, 0).err().unwrap();
            assert_eq!(refused.0, super::tables::too_many_entries(4, 3));
            engine.stop();
        })
        .unwrap();
}
