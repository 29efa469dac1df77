//! The reference, but for what the data path does otherwise by design. This is the only place where
//! a difference is allowed, and each is said in docs/fw.md.

use weir_rules::packet_test::reference::Reference;
use weir_rules::packet_test::{
    Answer, Counters, Device, DeviceError, DropReason, Network, Outcome, RuleText, Sent, StateInfo,
};
use weir_rules::value::Direction;

/// The reference with the data path's choices:
///
/// - SCTP gets no ABORT, and the box itself no RST for what its own state refuses.
/// - Frames with a VLAN tag are not judged where they leave by way of the kernel: they have been,
///   at their VLAN interface.
/// - What the kernel can never send is not tried: see [`cannot_be_sent`].
#[derive(Debug, Default)]
pub(crate) struct Oracle(Reference);

impl Oracle {
    pub(crate) fn new() -> Self {
        Self::default()
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
        if direction == Direction::Out && is_tagged(frame) {
            let frame = Some(frame.to_vec());
            let outcome = Outcome::Out(interface.into());
            return Ok(Sent { outcome, frame, logged: Some(false) });
        }
        let mut sent = self.0.send(frame, direction, interface, now_ns)?;
        without_answer(direction, &mut sent.outcome);
        Ok(sent)
    }

    fn counters(&mut self, now_ns: u64) -> Result<Counters, DeviceError> {
        self.0.counters(now_ns)
    }

    fn states(&mut self, now_ns: u64) -> Result<Vec<StateInfo>, DeviceError> {
        self.0.states(now_ns)
    }
}

/// Leaves out the answers that the data path does not give.
pub(crate) fn without_answer(direction: Direction, outcome: &mut Outcome) {
    let Outcome::Blocked(reason, answer) = outcome else {
        return;
    };
    let is_own = direction == Direction::Out && *reason == DropReason::StateMismatch;
    if is_own || *answer == Answer::Abort {
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
    Sent { outcome: Outcome::Box, frame: None, logged: Some(false) }
}

fn is_tagged(frame: &[u8]) -> bool {
    matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]))
}
