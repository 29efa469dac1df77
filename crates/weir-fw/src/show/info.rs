//! `pfctl -s info` (FreeBSD, `print_status`).

use std::fmt::Write as _;

/// A counter with its name.
pub type Counter = (&'static str, u64);

/// Bytes and packets of `set loginterface`, or of `-i`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogInterface {
    pub name: String,
    /// Bytes by family (IPv4, IPv6) and direction (in, out), passed and blocked ones.
    pub bytes: [[u64; 2]; 2],
    /// Packets by family, direction and outcome (passed, blocked).
    pub packets: [[[u64; 2]; 2]; 2],
}

/// What is printed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Info {
    /// `pfctl -e`.
    pub is_enabled: bool,
    /// Seconds since it was enabled or disabled; `None` before either.
    pub since_s: Option<u64>,
    /// `set debug`: `None`, `Urgent`, `Misc`, `Loud`.
    pub debug: &'static str,
    /// `set hostid`.
    pub host_id: u32,
    /// Of the ruleset that is loaded.
    pub checksum: [u8; 16],
    /// The interface that is counted, if one is.
    pub interface: Option<LogInterface>,
    /// States that exist now.
    pub state_count: u64,
    /// Searches, inserts, removals of states.
    pub table: Vec<Counter>,
    /// Source nodes that there are now, and their searches, inserts, removals.
    pub source_node_count: u64,
    /// Searches, inserts and removals of source nodes.
    pub source_nodes: Vec<Counter>,
    /// Fragments that there are now.
    pub fragment_count: u64,
    /// Drops by pf's reasons.
    pub reasons: Vec<Counter>,
    /// Limits of rules that were met.
    pub limits: Vec<Counter>,
    /// Drops by reasons that pf does not have.
    pub weir_reasons: Vec<Counter>,
    /// Flows that were exported, and not.
    pub pflow: Vec<Counter>,
    /// States that firewalls send each other.
    pub sync: Vec<Counter>,
    /// `set syncookies`
    pub syncookies: CookieInfo,
}

/// What becomes of SYNs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CookieInfo {
    /// `never`, `always` or `adaptive`.
    pub mode: &'static str,
    /// Whether they are answered by cookies now.
    pub is_active: bool,
    /// States of connections whose ends have not shaken hands so far.
    pub half_open_count: u32,
    /// Half-open states: with more than the first cookies are on, with fewer than the second off.
    pub levels: Option<[u32; 2]>,
}

impl Info {
    /// The text; `is_verbose` as by `-v`.
    #[must_use]
    pub fn text(&self, is_verbose: bool) -> String {
        let mut out = String::new();
        let status = self.status();
        let _ = write!(out, "{status:<44}{:>15}\n\n", format!("Debug: {}", self.debug));
        if is_verbose {
            let _ = writeln!(out, "Hostid:   {:#010x}", self.host_id);
            out.push_str("Checksum: 0x");
            for byte in self.checksum {
                let _ = write!(out, "{byte:02x}");
            }
            out.push_str("\n\n");
        }
        if let Some(interface) = &self.interface {
            put_interface(&mut out, interface);
        }
        let _ = writeln!(out, "{:<27} {:>14} {:>16}", "State Table", "Total", "Rate");
        put_entries(&mut out, self.state_count);
        self.put_counters(&mut out, &self.table);
        if is_verbose {
            out.push_str("Source Tracking Table\n");
            put_entries(&mut out, self.source_node_count);
            self.put_counters(&mut out, &self.source_nodes);
            out.push_str("Fragments\n");
            put_entries(&mut out, self.fragment_count);
        }
        out.push_str("Counters\n");
        self.put_counters(&mut out, &self.reasons);
        if is_verbose {
            out.push_str("Limit Counters\n");
            self.put_counters(&mut out, &self.limits);
            self.syncookies.put(&mut out);
            out.push_str("Counters of weir\n");
            self.put_counters(&mut out, &self.weir_reasons);
            out.push_str("Flow Export\n");
            self.put_counters(&mut out, &self.pflow);
            out.push_str("State Synchronisation\n");
            self.put_counters(&mut out, &self.sync);
        }
        out
    }

    fn status(&self) -> String {
        let word = if self.is_enabled { "Enabled" } else { "Disabled" };
        let Some(seconds) = self.since_s else { return format!("Status: {word}") };
        let (minutes, hours, days) = (seconds / 60 % 60, seconds / 3600 % 24, seconds / 86_400);
        format!("Status: {word} for {days} days {hours:02}:{minutes:02}:{:02}", seconds % 60)
    }

    fn put_counters(&self, out: &mut String, counters: &[Counter]) {
        for (name, count) in counters {
            let _ = write!(out, "  {name:<25} {count:>14} ");
            let _ = match self.since_s {
                Some(seconds) if seconds > 0 => {
                    writeln!(out, "{:>14.1}/s", rate(*count, seconds))
                }
                _ => writeln!(out, "{:>14}", ""),
            };
        }
    }
}

impl CookieInfo {
    fn put(&self, out: &mut String) {
        let active = if self.is_active { "active" } else { "inactive" };
        let _ = writeln!(
            out,
            "Syncookies\n  {:<25} {}\n  {:<25} {active}",
            "mode", self.mode, "active"
        );
        if let Some([high, low]) = self.levels {
            let _ =
                writeln!(out, "  {:<25} {high:>14}\n  {:<25} {low:>14}", "highwater", "lowwater");
        }
        let _ = writeln!(out, "  {:<25} {:>14}", "halfopen states", self.half_open_count);
    }
}

/// Both are exact as `f64` up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "a rate with one decimal")]
fn rate(count: u64, seconds: u64) -> f64 {
    count as f64 / seconds as f64
}

fn put_entries(out: &mut String, count: u64) {
    let _ = writeln!(out, "  {:<25} {count:>14} {:>14}", "current entries", "");
}

fn put_interface(out: &mut String, interface: &LogInterface) {
    let _ =
        writeln!(out, "Interface Stats for {:<16} {:>5} {:>16}", interface.name, "IPv4", "IPv6");
    for (direction, word) in ["Bytes In", "Bytes Out"].into_iter().enumerate() {
        let [v4, v6] = interface.bytes;
        let _ = writeln!(out, "  {word:<25} {:>14} {:>16}", v4[direction], v6[direction]);
    }
    for (direction, word) in ["Packets In", "Packets Out"].into_iter().enumerate() {
        let _ = writeln!(out, "  {word}");
        for (outcome, word) in ["Passed", "Blocked"].into_iter().enumerate() {
            let [v4, v6] = interface.packets.map(|family| family[direction][outcome]);
            let _ = writeln!(out, "    {word:<23} {v4:>14} {v6:>16}");
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// pfctl's lines end in fifteen blanks where there is no rate: `~` stands for them.
    fn blanks(text: &str) -> String {
        text.replace('~', &" ".repeat(15))
    }

    fn info() -> Info {
        Info {
            is_enabled: true,
            since_s: Some(3 * 86_400 + 18 * 3600 + 29 * 60 + 48),
            debug: "Urgent",
            state_count: 1234,
            table: vec![("searches", 326_988), ("inserts", 1), ("removals", 0)],
            reasons: vec![("match", 7), ("bad-offset", 0)],
            ..Info::default()
        }
    }

    #[test]
    fn the_text_is_pfctls() {
        let expected = "\
Status: Enabled for 3 days 18:29:48           Debug: Urgent

State Table                          Total             Rate
  current entries                     1234~
  searches                          326988            1.0/s
  inserts                                1            0.0/s
  removals                               0            0.0/s
Counters
  match                                  7            0.0/s
  bad-offset                             0            0.0/s
";
        assert_eq!(info().text(false), blanks(expected));
    }

    #[test]
    fn more_is_told_on_request() {
        let info = Info {
            is_enabled: false,
            since_s: None,
            debug: "None",
            host_id: 0xbeef,
            checksum: [0xab; 16],
            source_node_count: 3,
            source_nodes: vec![("searches", 9), ("inserts", 4), ("removals", 1)],
            fragment_count: 8,
            limits: vec![("max-src-conn", 2)],
            weir_reasons: vec![("no-route", 5)],
            pflow: vec![("records", 6), ("lost states", 1)],
            sync: vec![("inserts", 5)],
            syncookies: CookieInfo {
                mode: "adaptive",
                is_active: true,
                half_open_count: 24_000,
                levels: Some([25_000, 12_000]),
            },
            ..info()
        };
        let expected = "\
Status: Disabled                                Debug: None

Hostid:   0x0000beef
Checksum: 0xabababababababababababababababab

State Table                          Total             Rate
  current entries                     1234~
  searches                          326988~
  inserts                                1~
  removals                               0~
Source Tracking Table
  current entries                        3~
  searches                               9~
  inserts                                4~
  removals                               1~
Fragments
  current entries                        8~
Counters
  match                                  7~
  bad-offset                             0~
Limit Counters
  max-src-conn                           2~
Syncookies
  mode                      adaptive
  active                    active
  highwater                          25000
  lowwater                           12000
  halfopen states                    24000
Counters of weir
  no-route                               5~
Flow Export
  records                                6~
  lost states                            1~
State Synchronisation
  inserts                                5~
";
        assert_eq!(info.text(true), blanks(expected));
    }

    #[test]
    fn an_interface_is_counted_by_family() {
        let interface = LogInterface {
            name: "em0".to_owned(),
            bytes: [[1, 2], [3, 4]],
            packets: [[[5, 6], [7, 8]], [[9, 10], [11, 12]]],
        };
        let mut out = String::new();
        put_interface(&mut out, &interface);
        let expected = "\
Interface Stats for em0               IPv4             IPv6
  Bytes In                               1                3
  Bytes Out                              2                4
  Packets In
    Passed                               5                9
    Blocked                              6               10
  Packets Out
    Passed                               7               11
    Blocked                              8               12

";
        assert_eq!(out, expected);
    }
}
