//! The telnet protocol of terminal servers, as much of it as a console needs: bytes in both
//! directions, a break, and an answer to every option that the server brings up.
//!
//! Sources: RFC 854 (commands, the line's CR), 855 (options), 856 (binary), 857 (echo), 858
//! (suppress go ahead). Nothing is asked of the server. Its echo, its binary mode and its lack of
//! go-aheads are accepted, ours the same; whatever else it offers or asks for is declined.

const SE: u8 = 240;
const BREAK: u8 = 243;
const SB: u8 = 250;
const WILL: u8 = 251;
const WONT: u8 = 252;
const DO: u8 = 253;
const DONT: u8 = 254;
const IAC: u8 = 255;

const BINARY: u8 = 0;
const ECHO: u8 = 1;
const SUPPRESS_GO_AHEAD: u8 = 3;

/// Where the decoder stands in what the server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Data,
    /// Behind a CR, whose NUL or LF is still to come.
    Return,
    Command,
    /// Behind one of WILL, WONT, DO and DONT.
    Option(u8),
    /// Within a subnegotiation, of which nothing was agreed.
    Sub,
    SubCommand,
}

/// One connection's state.
#[derive(Debug)]
pub(super) struct Telnet {
    at: At,
    /// Options that the server has in force.
    theirs: [bool; 256],
    /// Options that are in force here.
    ours: [bool; 256],
    /// What the server is to be answered.
    replies: Vec<u8>,
}

impl Telnet {
    pub(super) fn new() -> Self {
        Self { at: At::Data, theirs: [false; 256], ours: [false; 256], replies: Vec::new() }
    }

    /// What the machine has said, out of what came from the server.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut data = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            self.at = match (self.at, byte) {
                // A CR that stands alone has a NUL behind it.
                (At::Return, 0) => At::Data,
                (At::Data | At::Return, IAC) => At::Command,
                (At::Data | At::Return, _) => {
                    data.push(byte);
                    let is_return = byte == b'\r' && !self.theirs[usize::from(BINARY)];
                    if is_return { At::Return } else { At::Data }
                }
                (At::Command, IAC) => {
                    data.push(IAC);
                    At::Data
                }
                (At::Command, WILL | WONT | DO | DONT) => At::Option(byte),
                (At::Command, SB) => At::Sub,
                // Go ahead, no operation, data mark: nothing to do for a console.
                (At::Command, _) => At::Data,
                (At::Option(command), option) => {
                    self.negotiate(command, option);
                    At::Data
                }
                (At::Sub, IAC) => At::SubCommand,
                (At::SubCommand, SE) => At::Data,
                (At::Sub | At::SubCommand, _) => At::Sub,
            };
        }
        data
    }

    /// An answer where something changes, or is declined: an answer to an answer would never end.
    fn negotiate(&mut self, command: u8, option: u8) {
        let index = usize::from(option);
        let (in_force, is_fine, [yes, no]) = match command {
            WILL | WONT => (
                &mut self.theirs[index],
                [BINARY, ECHO, SUPPRESS_GO_AHEAD].contains(&option),
                [DO, DONT],
            ),
            _ => {
                (&mut self.ours[index], [BINARY, SUPPRESS_GO_AHEAD].contains(&option), [WILL, WONT])
            }
        };
        let is_on = matches!(command, WILL | DO);
        let answer = match (is_on, is_fine, *in_force) {
            (true, true, false) => yes,
            (true, false, _) | (false, _, true) => no,
            (true, true, true) | (false, _, false) => return,
        };
        *in_force = answer == yes;
        self.replies.extend([IAC, answer, option]);
    }

    /// Keys as the server has to get them.
    pub(super) fn encode(&self, bytes: &[u8]) -> Vec<u8> {
        let is_binary = self.ours[usize::from(BINARY)];
        let mut encoded = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            encoded.push(byte);
            match byte {
                IAC => encoded.push(IAC),
                b'\r' if !is_binary => encoded.push(0),
                _ => {}
            }
        }
        encoded
    }

    /// The command for it, which servers hand on to serial lines.
    pub(super) const fn send_break() -> [u8; 2] {
        [IAC, BREAK]
    }

    /// What the server is to be answered, once.
    pub(super) fn take_replies(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.replies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_out_wherever_the_bytes_are_cut() {
        let stream = [
            b"a".as_slice(),
            &[IAC, WILL, ECHO, IAC, SB, 24, 1, IAC, SE, IAC, 241],
            b"b\r\0c\r\nd",
            &[IAC, IAC],
            b"e",
        ]
        .concat();
        for size in 1..stream.len() {
            let mut telnet = Telnet::new();
            let data: Vec<u8> = stream.chunks(size).flat_map(|part| telnet.decode(part)).collect();
            assert_eq!(data, b"ab\rc\r\nd\xffe", "in parts of {size}");
            assert_eq!(telnet.take_replies(), [IAC, DO, ECHO]);
            assert!(telnet.take_replies().is_empty());
        }
    }

    #[test]
    fn options_are_answered_once_and_what_is_not_known_is_declined() {
        let mut telnet = Telnet::new();
        let mut answer = |command, option| {
            assert!(telnet.decode(&[IAC, command, option]).is_empty());
            telnet.take_replies()
        };
        assert_eq!(answer(DO, SUPPRESS_GO_AHEAD), [IAC, WILL, SUPPRESS_GO_AHEAD]);
        assert!(answer(DO, SUPPRESS_GO_AHEAD).is_empty());
        assert_eq!(answer(DONT, SUPPRESS_GO_AHEAD), [IAC, WONT, SUPPRESS_GO_AHEAD]);
        assert!(answer(DONT, SUPPRESS_GO_AHEAD).is_empty());
        // Terminal type, window size, and an echo of ours.
        for option in [24, 31, ECHO] {
            assert_eq!(answer(DO, option), [IAC, WONT, option]);
        }
        assert_eq!(answer(WILL, 44), [IAC, DONT, 44]);
        assert!(answer(WONT, 44).is_empty());
    }

    #[test]
    fn a_return_is_as_the_line_has_it_and_plain_in_binary() {
        let mut telnet = Telnet::new();
        assert_eq!(telnet.encode(b"ls\r\xff"), b"ls\r\0\xff\xff");
        telnet.decode(&[IAC, DO, BINARY, IAC, WILL, BINARY]);
        assert_eq!(telnet.encode(b"ls\r\xff"), b"ls\r\xff\xff");
        assert_eq!(telnet.decode(b"\r\0"), b"\r\0");
    }
}
