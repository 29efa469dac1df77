//! What tests hold the product against: a reference device, packet tests, random cases, faults.
//!
//! *Never* part of what is shipped: no product crate depends on it.
//!
//! [`device`] says what can be tested; [`mod@reference`] is the device that is right by
//! construction, [`random`] makes cases to hold another one against it, and [`mod@format`],
//! [`frame`], [`outcome`] and [`runner`] are for packet tests. [`fault`] and [`shaper`] are
//! programs that lose, delay and limit packets exactly, [`mod@bench`] has the least programs that
//! benchmarks compare with. [`count`] says how many random cases are run, [`netns`] gives tests
//! namespaces that are removed even when they are killed, and [`tunnel`] joins two of them.
//!
//! # Packet tests
//!
//! They are rules, packets in, verdicts, packets out, states and counters in one text file, run
//! against any [`Device`](device::Device): the [`Reference`](reference::Reference) on the
//! evaluator, or a real data path.
//!
//! ```text
//! # A comment. Interfaces and names are written as for `weir fw --facts`.
//! interface em0 10.0.0.1/24 2001:db8::1/64
//! interface em1 192.0.2.1/24
//! route 0.0.0.0/0 em1
//!
//! rules {
//! block return
//! pass in on em0 proto tcp to port 80
//! pass out on em1
//! }
//!
//! in on em0 tcp 10.0.0.5:1000 > 203.0.113.9:80 S    => out em1, ttl 63
//! in on em1 tcp 203.0.113.9:80 > 10.0.0.5:1000 SA ack 1001    => out em0
//! in on em0 tcp 10.0.0.5:1001 > 203.0.113.9:22 S    => blocked match rst
//! out on em1 udp 192.0.2.1:5000 > 203.0.113.9:53    => out em1
//! states: 2
//! state: tcp 10.0.0.5:1000 -> 203.0.113.9:80 ESTABLISHED:SYN_SENT halves in+out packets 1:1
//! at +30s
//! drops: match 1
//! ```
//!
//! | line | meaning |
//! |---|---|
//! | `interface`, `group`, `host`, `service`, `protocol`, `user`, `usergroup` | [facts] |
//! | `route PREFIX INTERFACE` | where packets go besides the interfaces' networks |
//! | `dialect freebsd`, `dialect openbsd` | of the rules, where it is not to be guessed |
//! | `rules {` … `}` | loads a ruleset; a second one takes its place, and states stay |
//! | `refused {` … `}` | as `rules`, but the device has to refuse it |
//! | `at T`, `at +T` | sets the clock, or moves it: `500ms`, `3s`, `2m`, `24h` |
//! | `in on …`, `out on …` | a packet ([`frame`]) and, behind `=>`, what becomes of it |
//! | `states: N` | how many states there are |
//! | `state: …` | a state with these ends and names; `halves`, `packets` and `expires` if told |
//! | `no state: …` | none whose description begins so |
//! | `drops: REASON N, …` | all drops so far, by reason |
//! | `inserts: N`, `removals: N` | of states so far |
//!
//! [facts]: weir_rules::facts
//!
//! What becomes of a packet is `out INTERFACE`, `box`, or `blocked REASON` with `rst`, `ack`, `icmp
//! TYPE/CODE` or `abort` if the sender gets an answer. Behind a comma: `ttl N`, `tos N` and `df` or
//! `no df` of the frame that leaves, `logged` and `not logged`; `from END` and `to END` of one that
//! leaves or that the box's stack gets, with `about END > END` of what it quotes, where an end is
//! an address with its port (of an ICMP query with its identifier, at the end that has it). A
//! packet whose checksum was right leaves with a right one. Lines may go on after `\`, and a line
//! that begins with `=>` belongs to the one before.
//!
//! A state's ends are as the box routes its flow. What they are outside follows them where it is
//! something else: `in-as 10.0.0.5:1000 -> 192.0.2.1:80` where the opener's packets come in, and
//! `out-as 192.0.2.1:6000 -> 1.2.3.4:80` where they leave.

#![forbid(unsafe_code)]

pub mod bench;
pub mod count;
pub mod device;
pub mod fault;
pub mod format;
pub mod frame;
pub mod netns;
pub mod outcome;
pub mod random;
pub mod reference;
pub mod runner;
pub mod shaper;
pub mod systems;
pub mod tunnel;
#[expect(dead_code, reason = "structures come as a whole")]
mod types;
