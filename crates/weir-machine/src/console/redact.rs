//! Takes secrets out of a stream of bytes, also where one is cut by the end of a piece.

/// What stands in a secret's place.
const MASK: &[u8] = b"********";
/// The shortest secret.
pub(super) const SECRET_BYTES_MIN: usize = 4;

/// The filter; it keeps back what may be the beginning of a secret.
#[derive(Debug, Default)]
pub(super) struct Redactor {
    secrets: Vec<Vec<u8>>,
    held: Vec<u8>,
}

impl Redactor {
    /// From now on, this is not to be seen. One of fewer than [`SECRET_BYTES_MIN`] bytes would hide
    /// half of all text, and is none: scripts refuse such values.
    pub(super) fn add(&mut self, secret: &[u8]) {
        if secret.len() >= SECRET_BYTES_MIN && !self.secrets.iter().any(|known| known == secret) {
            self.secrets.push(secret.to_vec());
            // A longer secret may begin with a shorter one.
            self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
    }

    /// What may be shown after these bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.secrets.is_empty() {
            return bytes.to_vec();
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(bytes);
        let mut shown = Vec::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            if let Some(secret) = self.secrets.iter().find(|s| rest.starts_with(s)) {
                shown.extend_from_slice(MASK);
                at += secret.len();
            } else if self.secrets.iter().any(|s| s.starts_with(rest)) {
                self.held = rest.to_vec();
                break;
            } else {
                shown.push(text[at]);
                at += 1;
            }
        }
        shown
    }

    /// What was kept back: nothing more comes.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// A whole text without secrets.
    pub(super) fn redacted(&self, text: &[u8]) -> Vec<u8> {
        let mut other = Self { secrets: self.secrets.clone(), held: Vec::new() };
        let mut shown = other.feed(text);
        shown.extend(other.finish());
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hidden_wherever_it_is_cut() {
        let text = b"login: root\r\nPassword: hunter22\r\nhunter2? hunt";
        for size in 1..text.len() {
            let mut redactor = Redactor::default();
            redactor.add(b"hunter22");
            let mut shown: Vec<u8> = text.chunks(size).flat_map(|c| redactor.feed(c)).collect();
            shown.extend(redactor.finish());
            let shown = String::from_utf8(shown).unwrap();
            assert_eq!(shown, "login: root\r\nPassword: ********\r\nhunter2? hunt", "{size}");
        }
    }

    #[test]
    fn the_longer_of_two_secrets_wins_and_short_ones_are_none() {
        let mut redactor = Redactor::default();
        redactor.add(b"pass");
        redactor.add(b"passphrase");
        redactor.add(b"ab");
        assert_eq!(redactor.redacted(b"ab passphrase pass"), b"ab ******** ********");
    }
}
