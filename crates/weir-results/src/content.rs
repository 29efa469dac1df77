//! What stands in a file of a configuration tree: known by its checksum to everybody who reads a
//! record, and byte by byte only to whoever lays it over a machine.
//!
//! Such files hold keys and passwords, which no record may hold. So a content is written down as
//! its size and its SHA-256, and what was read back from a record has no bytes. This module never
//! reads a file.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The content of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Recorded")]
pub struct Content {
    /// Bytes of the file.
    pub size_bytes: u64,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    #[serde(skip)]
    bytes: Option<Arc<[u8]>>,
}

/// A content in a record. Records of before have the whole text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Recorded {
    Digest { size_bytes: u64, sha256: String },
    Text(String),
}

impl Content {
    /// The content that is `bytes`.
    #[must_use]
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        let size_bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Self { size_bytes, sha256: sha256(&bytes), bytes: Some(bytes) }
    }

    /// Its bytes; absent in what was read from a record.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }

    /// Its bytes as text; absent where they are not known, or are none in UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}

/// Two contents are equal if their checksums are.
impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        (self.size_bytes, &self.sha256) == (other.size_bytes, &other.sha256)
    }
}

impl Eq for Content {}

impl From<Recorded> for Content {
    fn from(recorded: Recorded) -> Self {
        match recorded {
            Recorded::Digest { size_bytes, sha256 } => Self { size_bytes, sha256, bytes: None },
            Recorded::Text(text) => Self::new(text.into_bytes()),
        }
    }
}

/// SHA-256 in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dut::TreeFile;

    #[test]
    fn a_record_holds_the_checksum_and_not_the_secret() {
        let content = Content::new(*b"psk = hunter2\n");
        let file = TreeFile { path: "etc/ipsec.conf".to_owned(), mode: 0o600, content };
        let written = serde_json::to_string(&file).unwrap();
        assert!(!written.contains("hunter2"), "{written}");
        assert!(written.contains(&sha256(b"psk = hunter2\n")), "{written}");
        let read: TreeFile = serde_json::from_str(&written).unwrap();
        assert_eq!(read, file);
        assert_eq!((read.content.size_bytes, read.content.bytes()), (14, None));
    }

    #[test]
    fn a_record_of_before_is_still_read() {
        let read: TreeFile =
            serde_json::from_str(r#"{"path": "etc/a", "mode": 420, "text": "b\n"}"#).unwrap();
        assert_eq!(read.content, Content::new(*b"b\n"));
        assert_eq!(read.content.text(), Some("b\n"));
    }
}
