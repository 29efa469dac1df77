//! The reference, but for what the data path does otherwise by design. This is the only place where
//! a difference is allowed, and each is said in docs/fw.md.

use super::modulation::modulation;
use weir_oracle::device::{Device, DeviceError, Network, RuleText};
use weir_oracle::outcome::{Answer, Counters, Outcome, Sent, StateInfo};
use weir_oracle::reference::Reference;
use weir_rules::value::Direction;

/// The reference with the data path's choices:
///
/// - SCTP gets no ABORT.
/// - What the kernel can never send is not tried: see [`cannot_be_sent`].
#[derive(Debug)]
pub(crate) struct Oracle(Reference);

impl Oracle {
    pub(crate) fn new() -> Self {
        Self(Reference::modulated_by(modulation))
    }
}

impl Device for Oracle {
    fn configure(&mut self, network: &Network) -> Result<(), DeviceError> {
        self.0.configure(network)
    }

    fn load(&mut self, rules: &RuleText<'_>) -> Result<(), DeviceError> {
        self.0.load(rules)
    }

    fn send(
        &mut self,
        frame: &[u8],
        direction: Direction,
        interface: &str,
        now_ns: u64,
    ) -> Result<Sent, DeviceError> {
        if direction == Direction::Out && cannot_be_sent(frame) {
            return Ok(not_sent());
        }
        let mut sent = self.0.send(frame, direction, interface, now_ns)?;
        without_abort(&mut sent.outcome);
        Ok(sent)
    }

    fn choose_as(&mut self, sent: &Sent, states: Vec<StateInfo>) {
        self.0.choose_as(sent, states);
    }

    fn counters(&mut self, now_ns: u64) -> Result<Counters, DeviceError> {
        self.0.counters(now_ns)
    }

    fn states(&mut self, now_ns: u64) -> Result<Vec<StateInfo>, DeviceError> {
        self.0.states(now_ns)
    }
}

/// Leaves out the answer that the data path does not give.
pub(crate) fn without_abort(outcome: &mut Outcome) {
    if let Outcome::Blocked(_, answer @ Answer::Abort) = outcome {
        *answer = Answer::None;
    }
}

/// Frames that the kernel makes no packet of for a test run: their IP header is not whole.
pub(crate) fn cannot_be_sent(frame: &[u8]) -> bool {
    const ETHERNET_BYTES: usize = 14;
    let header_bytes = match frame.get(12..ETHERNET_BYTES) {
        Some([0x08, 0x00]) => 20,
        Some([0x86, 0xdd]) => 40,
        Some(_) => 1,
        None => return true,
    };
    frame.len() < ETHERNET_BYTES + header_bytes
}

/// What both say of such a frame.
pub(crate) fn not_sent() -> Sent {
    Sent { outcome: Outcome::Box, frame: None, logged: Some(false), copied: Some(false) }
}
