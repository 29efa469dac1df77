//! What nft lists, in files as it wrote them, and rulesets that real packets meet.

use std::net::UdpSocket;

use weir_machine::host::Process;
use weir_net::netns::NetnsGuard;
use weir_net::{Netlink, process, sysctl};

use super::*;

/// The files that stand next to their listings.
const STATEMENTS_NFT: &str = include_str!("statements.nft");
const NAMED_NFT: &str = include_str!("named.nft");

fn listed(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

fn statements_json() -> Value {
    listed(include_str!("statements.json"))
}

fn named_json() -> Value {
    listed(include_str!("named.json"))
}

fn nftables(text: &str) -> Nftables {
    Nftables::new("nft", DutFile { path: "r.nft".into(), text: text.to_owned() })
}

/// Each counter's packets, which tell them apart in the files, and whether they are losses.
fn counted(known: &Known) -> Vec<(u64, bool)> {
    let mut counted: Vec<_> = known.counters.iter().map(|c| (c.packets, c.drops)).collect();
    counted.sort_unstable();
    counted
}

const STATEMENTS_COUNTED: [(u64, bool); 14] = [
    (1, false),  // named, no verdict
    (2, true),   // named, drop
    (3, false),  // named, in two rules
    (10, false), // accept
    (11, true),  // drop
    (12, false), // a match, drop
    (13, false), // a limit, drop
    (14, true),  // drop, after a limit
    (15, true),  // reject
    (16, true),  // a mark and a log, drop
    (18, true),  // drop; the one before the match is not read
    (19, false), // a quota, drop
    (20, false), // an addition to a set, which may be full, drop
    (21, false), // a match, reject
];

/// The first two are in a map without a name, which refers to the first counter too. Then: one
/// of a table with a map of counters, and one that two rules of its table refer to.
const NAMED_COUNTED: [(u64, bool); 6] =
    [(1, false), (2, true), (3, false), (4, false), (5, false), (6, true)];

#[test]
fn a_drop_counter_counts_what_its_rule_drops_and_nothing_else() {
    let known = Known::of(&statements_json());
    assert_eq!(counted(&known), STATEMENTS_COUNTED);
    // The matches, the limit, the quota, the set, the shared counter, and one without a counter.
    assert_eq!(known.uncounted_drop_count, 7);
    let names: Vec<&str> = known.counters.iter().map(|c| c.name.as_str()).collect();
    assert!(names.contains(&"inet f forward handle 8"), "{names:?}");
    let nftables = Nftables { known, ..nftables("") };
    let drops: Vec<String> = nftables.drops().into_iter().map(|d| d.name).collect();
    assert_eq!(drops.len(), 6, "{drops:?}");
    assert!(drops.contains(&"nft inet f forward handle 8".to_owned()), "{drops:?}");
    assert!(drops.contains(&"nft inet f counter gone".to_owned()), "{drops:?}");
}

#[test]
fn a_named_counter_is_a_loss_if_one_rule_refers_to_it() {
    let known = Known::of(&named_json());
    assert_eq!(counted(&known), NAMED_COUNTED);
    assert!(known.counters.iter().any(|c| c.name == "ip g counter a" && !c.drops));
}

#[test]
fn connection_tracking_is_seen() {
    assert!(uses_conntrack(&statements_json()));
    assert!(!uses_conntrack(&named_json()));
}

fn run(counters: &[(&str, u64)]) -> Counters {
    let of_nft = counters.iter().map(|(name, packets)| ((*name).to_owned(), *packets)).collect();
    Counters::from([("nft".to_owned(), of_nft)])
}

#[test]
fn a_ruleset_whose_counters_stand_still_did_not_take_effect() {
    let nftables = Nftables { known: Known::of(&named_json()), ..nftables("") };
    let still = nftables.took_effect(&run(&[("ip f counter a", 0)]));
    assert!(!still.passed);
    assert!(still.detail.starts_with("none of the 6 counters of the ruleset moved"));
    assert!(still.detail.ends_with(&format!("({FORMS})")), "{}", still.detail);
    let moved = nftables.took_effect(&run(&[("ip f counter a", 9), ("ip f counter b", 0)]));
    assert!(moved.passed);
    let expected = "ip f counter a: 9 packets; 4 rules drop without a `counter` of their own \
                    right before `drop` or `reject`: their losses cannot be attributed";
    assert_eq!(moved.detail, expected);
}

#[test]
fn a_long_list_of_counters_is_cut() {
    let names: Vec<String> = (0..10).map(|n| format!("ip f counter c{n}")).collect();
    let counters: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let counter = Counter { name: names[0].clone(), packets: 0, drops: false };
    let known = Known { counters: vec![counter], uncounted_drop_count: 0 };
    let nftables = Nftables { known, ..nftables("") };
    let all = nftables.took_effect(&run(&counters)).detail;
    assert!(all.ends_with("ip f counter c7: 1 packets; and 2 more"), "{all}");
    let few = nftables.took_effect(&run(&counters[..8])).detail;
    assert!(few.ends_with("ip f counter c7: 1 packets"), "{few}");
}

#[test]
fn a_ruleset_without_counters_proves_nothing() {
    let check = nftables("").took_effect(&Counters::new());
    assert!(!check.passed);
    assert!(check.detail.contains(FORMS), "{}", check.detail);
}

/// A namespace as a host that runs commands and reads settings.
struct Namespace(NetnsGuard);

impl Namespace {
    /// `None`, said aloud, where there can be none or where nft is missing.
    #[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
    fn create(what: &str) -> Option<Self> {
        let version = process::Invocation::program(["nft", "--version"]);
        if let Err(error) = process::run(&version, NFT_TIMEOUT) {
            eprintln!("skipped: {error}");
            return None;
        }
        weir_oracle::netns::namespace(&format!("nft-{what}")).map(Self)
    }
}

impl Host for Namespace {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn run(&self, command: &Command<'_>) -> Result<Output, HostError> {
        let Program::Arguments(argv) = command.program else {
            return Err(HostError::new(self.name(), "no shell here"));
        };
        let invocation = process::Invocation::program(argv.iter().copied()).stdin(command.stdin);
        let output = self.0.run(|| process::run(&invocation, command.timeout)).unwrap();
        let output = output.map_err(|e| HostError::new(self.name(), e))?;
        Ok(Output {
            exit_code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    fn sysctl(&self, name: &str) -> Result<String, HostError> {
        self.0.run(|| sysctl::read(name)).unwrap().map_err(|e| HostError::new(self.name(), e))
    }

    fn spawn(&self, _: &str, _: &str) -> Result<Box<dyn Process>, HostError> {
        Err(HostError::new(self.name(), "no processes here"))
    }

    fn write_file(&self, _: &str, _: &str) -> Result<String, HostError> {
        Err(HostError::new(self.name(), "no files here"))
    }

    fn set_sysctl(&self, _: &str, _: &str) -> Result<String, HostError> {
        Err(HostError::new(self.name(), "settings stay here"))
    }

    fn sysctls(&self) -> Result<BTreeMap<String, String>, HostError> {
        Ok(BTreeMap::new())
    }

    fn stack_counters(&self) -> Result<Counters, HostError> {
        Ok(Counters::new())
    }

    fn take_log(&self) -> String {
        String::new()
    }

    fn take_artefacts(&self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}

#[test]
fn the_installed_nft_lists_as_the_files_say() {
    let Some(host) = Namespace::create("listing") else {
        return;
    };
    for (text, expected) in
        [(STATEMENTS_NFT, &STATEMENTS_COUNTED[..]), (NAMED_NFT, &NAMED_COUNTED[..])]
    {
        let mut nftables = nftables(&format!("flush ruleset\n{text}"));
        nftables.load(&host).unwrap();
        assert_eq!(counted(&nftables.known), expected);
        assert_eq!(nftables.counters(&host).unwrap().len(), expected.len());
    }
}

#[test]
fn packets_that_are_dropped_are_those_that_drop_counters_count() {
    let Some(host) = Namespace::create("packets") else {
        return;
    };
    let mut nftables = nftables(
        "table ip f {
           counter nine { }
           counter every { }
           chain x {
             type filter hook output priority 0; policy accept;
             counter name every
             counter udp dport 7 drop
             udp dport 8 counter drop
             udp dport 9 counter name nine drop
             ct state invalid accept
           }
         }",
    );
    nftables.load(&host).unwrap();
    assert!(nftables.tracks_connections());
    assert!(nftables.tracked(&host).unwrap() < nftables.limit(&host).unwrap());
    let sent = host.0.run(|| {
        Netlink::open().unwrap().set_up("lo").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ports = [7, 7, 7, 8, 8, 9];
        ports.map(|port| socket.send_to(b"x", ("127.0.0.1", port)).is_ok())
    });
    assert_eq!(sent.unwrap(), [false; 6], "the sender is told of a drop");
    let run = Counters::from([("nft".to_owned(), nftables.counters(&host).unwrap())]);
    let drops = nftables.drops();
    let mut lost: Vec<_> = drops.iter().map(|drop| drop.counters.sum(&run)).collect();
    lost.sort_unstable();
    assert_eq!(lost, [Some(1), Some(2)], "{drops:?}");
    assert_eq!(run["nft"]["ip f counter every"], 6);
    let check = nftables.took_effect(&run);
    assert!(check.passed && check.detail.contains("; 1 rules drop without"), "{}", check.detail);
}

#[test]
fn elements_of_sets_are_not_listed() {
    let Some(host) = Namespace::create("elements") else {
        return;
    };
    let elements: Vec<String> =
        (0..20_000).map(|n| format!("10.0.{}.{}", n / 250, n % 250)).collect();
    let mut nftables = nftables(&format!(
        "table ip f {{
           set s {{
             type ipv4_addr
             elements = {{ {} }}
           }}
           chain x {{
             ip saddr @s counter drop
           }}
         }}",
        elements.join(",\n")
    ));
    // Without the message of nft, which would be long.
    assert!(nftables.load(&host).is_ok());
    assert_eq!(counted(&nftables.known), [(0, true)]);
    let output = nftables.nft(&host, &LIST, "").unwrap();
    assert!(output.stdout.len() < 2000, "{} bytes", output.stdout.len());
}

#[test]
fn wrong_rulesets_and_settings_are_named() {
    let Some(host) = Namespace::create("wrong") else {
        return;
    };
    let error = nftables("table ip f { nonsense }").load(&host).unwrap_err().to_string();
    assert!(error.contains("`nft -f r.nft` failed:\nr.nft:1:"), "{error}");
    let error = nftables("").number(&host, "net.core.no_such_setting").unwrap_err().to_string();
    assert!(error.contains("no_such_setting"), "{error}");
}
