//! Connections between machines: `weir connect` on the generator's, `weir connect serve` on the
//! receiver's.
//!
//! What both ends count is the ledger, as in a testbed of namespaces. Each client counts from zero
//! and goes on with the flow behind those of the runs before; the server counts from its start to
//! the teardown. Figures come as lines over SSH, with the clock of the end that counts the last
//! step of a connection. What devices lose on the way is in no ledger: machines do not say whose
//! packets those were.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use weir_gen::connect::ledger::{Counts, Course, End};
use weir_machine::cancel::Cancel;
use weir_results::accounting::Accounting;
use weir_results::counters::Counters;
use weir_results::record::{Check, Delays};
use weir_results::traffic::{Connect, Traffic};
use weir_wire::units::Rate;

use super::feed::{Arrived, Feed};
use super::line;
use super::pair::{CLIENT, Pair, Quantiles, SERVER, parsed};
use super::parts::Parts;
use super::program::Program;
use crate::model::{DriverKind, EndSpec, HostsSpec};
use crate::testbed::connections::{self, named};
use crate::testbed::{Burst, Observed, Reading, TestbedError, Topology};

/// How long an end may take until it says where it stands: a card whose driver starts its link anew
/// for a program takes some seconds.
const FIRST_COUNT_PATIENCE: Duration = Duration::from_secs(30);
/// How long an answering line may take beside the distance of the lines.
const LINE_PATIENCE: Duration = Duration::from_secs(5);

/// What a client says at its end beside its counts (docs/connect.md).
#[derive(Debug, Deserialize)]
struct Said {
    handshake_ns: Option<Quantiles>,
}

/// A client and its server.
pub(super) struct Connections {
    parts: Rc<Parts>,
    sample: Duration,
    cancel: Cancel,
    traffic: Traffic,
    connect: Connect,
    course: Course,
    server: Program,
    client: Option<Program>,
    /// The client of the last run: when it was started, its lines, and what was opened before.
    last: Option<(Instant, Feed, u64)>,
    is_limited: bool,
    runs: u32,
    /// What the clients of all runs before have counted, by name.
    before: BTreeMap<String, u64>,
    /// From SYN to SYN-ACK, in the last run.
    handshakes: Delays,
    /// When the last step was last counted, by the clock of its end.
    last_ns: Cell<u64>,
}

/// Why machines cannot open connections; `None` if they can.
pub(super) fn refusal(spec: &HostsSpec, traffic: &Traffic) -> Option<String> {
    let is_weir = |end: &EndSpec| end.driver.kind == DriverKind::Weir && end.driver.start.is_none();
    let why = if traffic.streams.specs().len() > 1 {
        "connections between machines are one stream"
    } else if spec.generators.len() > 1 {
        "connections have one client, and there are several generators"
    } else if !spec.generators.iter().chain([&spec.receiver]).all(is_weir) {
        "connections are opened and answered by `driver = \"weir\"` without `start`"
    } else {
        return None;
    };
    Some(why.to_owned())
}

impl Connections {
    /// Starts the server.
    pub(super) fn start(
        parts: &Rc<Parts>,
        (traffic, connect): (&Traffic, &Connect),
        sample: Duration,
        cancel: &Cancel,
    ) -> Result<Self, TestbedError> {
        let (host, end) = (&parts.receiver, &parts.spec.receiver);
        let (stream, _) = &traffic.streams.specs()[0];
        let mut words = vec![
            format!("exec {} connect serve --json", line::program(end)),
            format!("-i {} --interval {}ms", end.interface, sample.as_millis()),
            format!("--listen {} --reply {}", stream.dst, connect.reply_bytes),
        ];
        words.extend(end.driver.options.clone());
        let name = (host.name(), 0);
        let mut server = Program::start(host, (SERVER, end), name, words.join(" "), None)?;
        server.wait(FIRST_COUNT_PATIENCE, cancel, "showed no count", |last| last.is_some())?;
        Ok(Self {
            parts: Rc::clone(parts),
            sample,
            cancel: cancel.clone(),
            traffic: traffic.clone(),
            connect: *connect,
            course: connections::course(connect),
            server,
            client: None,
            last: None,
            is_limited: false,
            runs: 0,
            before: named(&Counts::default()),
            handshakes: Delays::default(),
            last_ns: Cell::new(0),
        })
    }

    /// The line of a run.
    fn client_line(&self, burst: &Burst) -> String {
        let (stream, _) = &self.traffic.streams.specs()[0];
        let end = &self.parts.spec.generators[0];
        let Connect { close, request_bytes, reply_bytes, .. } = self.connect;
        let mut words = vec![
            format!("exec {} connect --json --progress", line::program(end)),
            format!("-i {} --interval {}ms", end.interface, self.sample.as_millis()),
            format!("--src {} --dst {} --skip {}", stream.src, stream.dst, self.opened_before()),
            format!("--close {} --request {request_bytes} --reply {reply_bytes}", close.name()),
        ];
        words.extend(end.mac.as_ref().map(|mac| format!("--src-mac {mac}")));
        words.extend(end.next_hop_mac.as_ref().map(|mac| format!("--dst-mac {mac}")));
        if let Rate::Pps(rate_cps) = burst.rate {
            words.push(format!("--rate {rate_cps}"));
        }
        words.extend(burst.packet_limit.map(|count| format!("--count {count}")));
        words.extend(end.driver.options.clone());
        words.join(" ")
    }

    fn opened_before(&self) -> u64 {
        self.before.get("syn").copied().unwrap_or(0)
    }

    /// The counts of a line.
    fn counts(last: Option<Arrived>) -> Counts {
        last.and_then(|last| last.count.connections).unwrap_or_default()
    }

    /// What came to its good end by a line of the end that counts it, and when; `base` is what had
    /// by lines of other programs.
    fn reading_of(&self, arrived: Arrived, base: u64, tx_packets: u64) -> Reading {
        let (_, counter) = connections::last_step(&self.course);
        let through = named(&Self::counts(Some(arrived))).get(counter).copied();
        let t_ns = arrived.count.t_ns.unwrap_or(self.last_ns.get());
        self.last_ns.set(t_ns);
        Reading { t_ns, rx_packets: base + through.unwrap_or(0), rx_bytes: 0, tx_packets }
    }

    /// What the clients before have brought to its good end, where that is the client's to count.
    fn through_before(&self) -> u64 {
        let (_, counter) = connections::last_step(&self.course);
        self.before.get(counter).copied().unwrap_or(0)
    }

    fn counts_at_server(&self) -> bool {
        connections::last_step(&self.course).0 == End::Server
    }
}

impl Pair for Connections {
    fn begin(&mut self, burst: &Burst) -> Result<(), TestbedError> {
        let (host, end) = (&self.parts.generators[0], &self.parts.spec.generators[0]);
        let line = self.client_line(burst);
        self.runs += 1;
        self.is_limited = burst.packet_limit.is_some();
        let name = (host.name(), self.runs);
        let mut client = Program::start(host, (CLIENT, end), name, line, None)?;
        if !self.is_limited {
            // The run begins when SYNs do, not when a program is started.
            let sends = |last: Option<Arrived>| last.is_some_and(|last| last.count.packets > 0);
            let begun = client.wait(FIRST_COUNT_PATIENCE, &self.cancel, "opened nothing", sends);
            if let Err(error) = begun {
                drop(client.end());
                return Err(error);
            }
        }
        self.last = Some((client.started, client.feed.clone(), self.opened_before()));
        self.client = Some(client);
        Ok(())
    }

    fn finished(&mut self) -> bool {
        self.client.as_mut().is_none_or(|client| client.has_ended().unwrap_or(true))
    }

    fn end_client(&mut self) -> Result<(), TestbedError> {
        let Some(client) = &mut self.client else { return Ok(()) };
        let over = client.is_over(self.is_limited);
        over.and_then(|is_over| if is_over { Ok(()) } else { client.end() })
    }

    fn account(&mut self) -> Result<(), TestbedError> {
        let Some(client) = self.client.take() else { return Ok(()) };
        let total = client.total(self.parts.total_patience);
        // What one without a total had counted until then stays, so that a sum never goes back.
        for (name, count) in named(&Self::counts(client.feed.last())) {
            *self.before.entry(name).or_default() += count;
        }
        total?;
        self.handshakes =
            parsed::<Said>(&client)?.handshake_ns.map(Quantiles::delays).unwrap_or_default();
        // What the server has counted by now is in its next line.
        self.server.wait_for_line(2 * self.sample + LINE_PATIENCE, &self.cancel)
    }

    fn reading(&self) -> Reading {
        let client = self.client.as_ref().and_then(|client| client.feed.last());
        let tx_packets = self.opened_before() + client.map_or(0, |last| last.count.packets);
        let last = match self.counts_at_server() {
            true => self.server.feed.last(),
            false => client,
        };
        let base = if self.counts_at_server() { 0 } else { self.through_before() };
        match last {
            Some(last) => self.reading_of(last, base, tx_packets),
            None => Reading { t_ns: self.last_ns.get(), rx_packets: base, rx_bytes: 0, tx_packets },
        }
    }

    fn recorded(&self, from: Instant, to: Instant) -> Option<Vec<Reading>> {
        let (started, feed, opened_before) = self.last.as_ref()?;
        let lines = match self.counts_at_server() {
            true => self.server.feed.between(from, to),
            false => feed.between(from, to),
        };
        // What was through before the run makes no difference to a rate.
        let reading = |line: Arrived| {
            let tx_packets = opened_before + feed.packets_at(*started, line.at);
            self.reading_of(line, 0, tx_packets)
        };
        Some(lines.into_iter().map(reading).collect())
    }

    fn counters(&self) -> Result<Counters, TestbedError> {
        let server = named(&Self::counts(self.server.feed.last()));
        Ok([(CLIENT.to_owned(), self.before.clone()), (SERVER.to_owned(), server)].into())
    }

    fn accounting(&self) -> Accounting {
        connections::accounting(&self.course, Topology::Dut, Vec::new())
    }

    fn checks(&self) -> Vec<Check> {
        Vec::new()
    }

    fn observed(&self) -> Result<Observed, TestbedError> {
        let delays = self.handshakes;
        Ok(Observed { packets: delays.sample_count, delays, directions: Vec::new() })
    }

    fn advice(&self) -> String {
        let (stream, _) = &self.traffic.streams.specs()[0];
        let spec = &self.parts.spec;
        let (generator, receiver) = (self.parts.generators[0].name(), self.parts.receiver.name());
        format!(
            "no connection came through: `weir connect -i {} --src {} --dst {} --rate 10 \
             --count 10` on {generator} says at which end they are lost; the DUT needs a route to \
             {} by way of {receiver}, and one back to {} by way of {generator}",
            spec.generators[0].interface, stream.src, stream.dst, stream.dst, stream.src
        )
    }

    fn teardown(mut self: Box<Self>) -> Result<(), TestbedError> {
        let client = self.client.as_mut().map_or(Ok(()), Program::end);
        self.server.end().and(client)
    }
}
