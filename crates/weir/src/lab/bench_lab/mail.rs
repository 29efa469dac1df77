//! A mail at the end of a campaign, by the system's `mail`.

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use weir_net::process::{self, Invocation};

const PROGRAM: &str = "mail";

/// How long it may take to hand a mail over.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What the address may hold besides letters and digits.
const SIGNS: &str = "@._%+-";

/// Somebody who is told.
#[derive(Debug)]
pub(super) struct Mail {
    address: String,
}

impl Mail {
    /// A mail to this address.
    ///
    /// # Errors
    /// When it is none that can be handed to `mail`.
    pub(super) fn to(address: &str) -> anyhow::Result<Self> {
        let good = |c: char| c.is_ascii_alphanumeric() || SIGNS.contains(c);
        if address.is_empty() || address.starts_with('-') || !address.chars().all(good) {
            bail!("`{address}` is not a mail address: give one such as root@localhost");
        }
        Ok(Self { address: address.to_owned() })
    }

    /// Why it cannot be sent from this machine, if that is so.
    pub(super) fn lack(&self) -> Option<String> {
        let is_there = |dir: &Path| dir.join(PROGRAM).is_file();
        if std::env::split_paths(&process::search_path()).any(|dir| is_there(&dir)) {
            return None;
        }
        Some(format!(
            "there is no `{PROGRAM}` here: {} will get no mail when it is over; install bsd-mailx \
             or mailutils",
            self.address
        ))
    }

    /// Sends it.
    ///
    /// # Errors
    /// When `mail` is missing, or does not take it.
    pub(super) fn send(&self, subject: &str, text: &str) -> anyhow::Result<()> {
        let words = [PROGRAM, "-s", subject, &self.address];
        process::run(&Invocation::program(words).stdin(text), TIMEOUT)?.check()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mail_would_take_for_an_option_is_refused() {
        for address in ["root@localhost", "ops+lab@example.org", "root"] {
            assert!(Mail::to(address).is_ok(), "{address}");
        }
        for address in ["", "-A", "a b", "x;reboot", "a\nb"] {
            assert!(
                Mail::to(address).unwrap_err().to_string().contains("not a mail address"),
                "{address}"
            );
        }
    }
}
