//! Workers with an AF_XDP socket, which exchange source and destination themselves.

use std::io;
use std::time::Duration;

use weir_bpf::priority;
use weir_bpf::xsk::Xsk;

use super::Job;

/// How long a worker sleeps at most before it looks whether it is to end.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

const ETHERNET_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;
const IPV6_BYTES: usize = 40;

/// The worker goes before the thread that receives, where that is one (threaded NAPI) and they
/// share a CPU: what it has no time for is then not received in the first place.
pub(super) fn serve(job: &Job, socket: &mut Xsk, port: u16) -> io::Result<()> {
    // Without it, only more is received than it can take.
    let _ = priority::go_before_others();
    while job.goes_on() {
        let turn = socket.turn(|frame| job.echoes && turn_around(frame, port))?;
        let refused = if job.echoes { turn.received - turn.returned } else { 0 };
        job.counters.add(turn.received, turn.returned, refused);
        if turn.received == 0 {
            socket.wait(LOOK_AGAIN)?;
        }
    }
    Ok(())
}

/// Exchanges source and destination of a UDP datagram, under up to two VLAN tags. Sums do not
/// change by that. False if it is none, or cut, or comes from `spared_port`: the own one, which
/// another server may have, too.
fn turn_around(frame: &mut [u8], spared_port: u16) -> bool {
    let mut at = ETHERNET_BYTES;
    let kind = |frame: &[u8], at: usize| match frame.get(at - 2..at) {
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    };
    for _ in 0..2 {
        if matches!(kind(frame, at), 0x8100 | 0x88a8) {
            at += VLAN_BYTES;
        }
    }
    let (addresses, bytes, ports) = match kind(frame, at) {
        0x0800 => {
            let header = frame.get(at).map_or(0, |first| usize::from(first & 15) * 4);
            (at + 12, 4, at + header)
        }
        0x86dd => (at + 8, 16, at + IPV6_BYTES),
        _ => return false,
    };
    if frame.get(ports..ports + 2) == Some(&spared_port.to_be_bytes()[..]) {
        return false;
    }
    exchange(frame, addresses, bytes) && exchange(frame, ports, 2) && exchange(frame, 0, 6)
}

/// Exchanges two fields of that size that follow each other; false if they are not there.
fn exchange(frame: &mut [u8], at: usize, bytes: usize) -> bool {
    let Some(both) = frame.get_mut(at..at + 2 * bytes) else { return false };
    let (first, second) = both.split_at_mut(bytes);
    first.swap_with_slice(second);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with numbers for fields, and what it is when it is turned around.
    fn frames(tags: &[u16], kind: u16, header: &[u8]) -> [Vec<u8>; 2] {
        let tag = |tag: &u16| [tag.to_be_bytes(), [0, 7]].concat();
        let types: Vec<u8> = tags.iter().flat_map(tag).collect();
        let kind = kind.to_be_bytes();
        let build = |macs: [u8; 2], header: &[u8], ports: [u8; 2]| {
            let macs = macs.map(|mac| [mac; 6]).concat();
            let ports = ports.map(|port| [port; 2]).concat();
            [&macs, &types, &kind[..], header, &ports, &[0, 9, 0xab, 0xcd, 0x55][..]].concat()
        };
        let mut turned = header.to_vec();
        let (at, bytes) = if header.len() == IPV6_BYTES { (8, 16) } else { (12, 4) };
        turned[at..at + bytes].copy_from_slice(&header[at + bytes..at + 2 * bytes]);
        turned[at + bytes..at + 2 * bytes].copy_from_slice(&header[at..at + bytes]);
        [build([1, 2], header, [3, 4]), build([2, 1], &turned, [4, 3])]
    }

    #[test]
    fn source_and_destination_are_exchanged_and_nothing_else() {
        let mut v4: Vec<u8> = (100..124).collect();
        v4[0] = 0x46;
        let mut v6: Vec<u8> = (100..140).collect();
        v6[0] = 0x60;
        for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100]] {
            for (kind, header) in [(0x0800, &v4), (0x86dd, &v6)] {
                let [mut frame, turned] = frames(tags, kind, header);
                let sent = frame.clone();
                assert!(!turn_around(&mut frame, 0x0303) && frame == sent, "a server's");
                assert!(turn_around(&mut frame, 7));
                assert_eq!(frame, turned, "{tags:x?} {kind:x}");
                let cut = &mut frame[..14 + tags.len() * 4 + header.len() + 3];
                assert!(!turn_around(cut, 7));
            }
        }
        let [mut frame, _] = frames(&[], 0x0806, &v4);
        assert!(!turn_around(&mut frame, 7), "it is ARP");
        assert!(!turn_around(&mut [0; 10], 7));
    }
}
