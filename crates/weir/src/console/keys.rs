//! Escape sequences among keys: those of ssh(1), at the beginning of a line.

/// What is to be done about keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// The machine gets them.
    Send(Vec<u8>),
    /// The user leaves.
    Leave,
    /// The line gets a break.
    Break,
    /// The user wants to know what there is.
    Help(String),
}

/// Follows keys.
#[derive(Debug)]
pub(super) struct Keys {
    escape: Option<u8>,
    /// Nothing was typed on this line yet.
    at_begin: bool,
    /// The escape character was typed there.
    escaped: bool,
}

impl Keys {
    pub(super) fn new(escape: Option<u8>) -> Self {
        Self { escape, at_begin: true, escaped: false }
    }

    /// What these keys ask for. What comes after a request to leave is given up.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut pending = Vec::new();
        let flush = |pending: &mut Vec<u8>, actions: &mut Vec<Action>| {
            if !pending.is_empty() {
                actions.push(Action::Send(std::mem::take(pending)));
            }
        };
        for &byte in bytes {
            if let Some(escape) = self.escape.filter(|_| self.escaped) {
                self.escaped = false;
                let action = match byte {
                    b'.' => Some(Action::Leave),
                    b'b' | b'B' => Some(Action::Break),
                    b'?' => Some(Action::Help(help(escape))),
                    _ => None,
                };
                if let Some(action) = action {
                    flush(&mut pending, &mut actions);
                    let leaves = action == Action::Leave;
                    actions.push(action);
                    if leaves {
                        return actions;
                    }
                    continue;
                }
                pending.push(escape);
                self.at_begin = false;
                if byte == escape {
                    continue;
                }
            } else if self.at_begin && Some(byte) == self.escape {
                self.escaped = true;
                continue;
            }
            pending.push(byte);
            self.at_begin = matches!(byte, b'\r' | b'\n');
        }
        flush(&mut pending, &mut actions);
        actions
    }
}

fn help(escape: u8) -> String {
    let c = escape as char;
    format!(
        "\n{c}.  leave\n{c}b  send a break\n{c}?  this\n{c}{c}  send one {c}\n(at the beginning of \
         a line; --escape changes the character)\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(text: &str) -> Action {
        Action::Send(text.as_bytes().to_vec())
    }

    #[test]
    fn escape_sequences_are_those_at_the_beginning_of_a_line() {
        let mut keys = Keys::new(Some(b'~'));
        assert_eq!(keys.feed(b"ls ~.\r"), [send("ls ~.\r")]);
        assert_eq!(keys.feed(b"~b~~x\r"), [Action::Break, send("~x\r")]);
        // A key that is no sequence goes on with its character.
        assert_eq!(keys.feed(b"~/bin\r"), [send("~/bin\r")]);
        assert!(matches!(keys.feed(b"~?")[..], [Action::Help(_)]));
        assert_eq!(keys.feed(b"a\r~.lost"), [send("a\r"), Action::Leave]);
    }

    #[test]
    fn a_sequence_may_come_key_by_key() {
        let mut keys = Keys::new(Some(b'~'));
        assert_eq!(keys.feed(b"~"), []);
        assert_eq!(keys.feed(b"."), [Action::Leave]);
        let mut none = Keys::new(None);
        assert_eq!(none.feed(b"~."), [send("~.")]);
    }
}
