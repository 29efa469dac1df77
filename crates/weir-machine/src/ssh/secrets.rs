//! Values that must be nowhere but where they are used: passwords of power switches and management
//! controllers.
//!
//! A specification names environment variables of the manager; their values are put into the
//! environment of the manager's own commands alone, and taken out of every text that a machine has
//! said, or that goes to a log, an artefact or a message. This module never writes a value
//! anywhere.

use std::fmt;
use std::sync::Arc;

use crate::host::Output;

/// A value so short would make holes into ordinary text.
const LENGTH_MIN: usize = 4;

/// A number so short would make holes into figures: counters have up to 20 digits.
const DIGITS_MIN: usize = 12;

/// Secrets: name and value.
#[derive(Clone, Default)]
pub struct Secrets(Arc<Vec<(String, String)>>);

impl Secrets {
    /// The values of these environment variables of this process.
    ///
    /// # Errors
    /// Names the variable that is not set, has no usable name, or is too short to be told from
    /// other text.
    pub fn from_env(names: &[String]) -> Result<Self, String> {
        let read = |name: &String| {
            let value = std::env::var(name).map_err(|_| {
                format!(
                    "the environment variable {name}, which the specification names as a secret, \
                     is not set: export it before you start weir"
                )
            })?;
            Ok((name.clone(), value))
        };
        Self::new(names.iter().map(read).collect::<Result<_, String>>()?)
    }

    /// Secrets with their values.
    ///
    /// # Errors
    /// As [`Secrets::from_env`].
    pub fn new(mut secrets: Vec<(String, String)>) -> Result<Self, String> {
        for (name, value) in &secrets {
            let good = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            if !good {
                return Err(format!("`{name}` cannot be the name of an environment variable"));
            }
            if value.len() < LENGTH_MIN {
                return Err(format!(
                    "the value of {name} has fewer than {LENGTH_MIN} characters: it cannot be kept \
                     out of logs, because it would be found in other words; use a longer one"
                ));
            }
            if value.len() < DIGITS_MIN && value.bytes().all(|b| b.is_ascii_digit()) {
                return Err(format!(
                    "the value of {name} is a number of fewer than {DIGITS_MIN} digits: it cannot \
                     be kept out of logs, because it would be found in counters and figures; use \
                     one with a letter"
                ));
            }
            // Outputs are looked through line by line.
            if value.contains(['\n', '\r']) {
                return Err(format!(
                    "the value of {name} has more than one line: it cannot be kept out of logs, \
                     which are read line by line; put it into a file of the manager that only you \
                     can read, and name that file in the command"
                ));
            }
        }
        // Of two values one of which holds the other, the longer is looked for first.
        secrets.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Ok(Self(Arc::new(secrets)))
    }

    /// The text, with `***NAME***` where a value stood.
    #[must_use]
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in self.0.iter() {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), &format!("***{name}***"));
            }
        }
        text
    }

    /// What a command printed, redacted.
    pub(crate) fn redact_output(&self, output: Output) -> Output {
        if self.0.is_empty() {
            return output;
        }
        let (stdout, stderr) = (self.redact(&output.stdout), self.redact(&output.stderr));
        Output { stdout, stderr, ..output }
    }

    /// With one more secret, which was read from a file.
    ///
    /// # Errors
    /// As [`Secrets::from_env`].
    pub fn with(&self, name: &str, value: &str) -> Result<Self, String> {
        let mut all = self.0.to_vec();
        all.push((name.to_owned(), value.to_owned()));
        Self::new(all)
    }

    /// Names and values, for the environment of a command.
    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.0
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(pairs: &[(&str, &str)]) -> Result<Secrets, String> {
        Secrets::new(pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn values_are_taken_out_and_names_put_in() {
        let secrets = secret(&[("PDU", "hunter2"), ("IPMI", "hunter2000")]).unwrap();
        assert_eq!(secrets.redact("-P hunter2000 -p hunter2"), "-P ***IPMI*** -p ***PDU***");
        assert!(!format!("{secrets:?}").contains("hunter"), "{secrets:?}");
    }

    #[test]
    fn what_cannot_be_kept_out_is_refused() {
        assert!(secret(&[("PDU", "abc")]).unwrap_err().contains("fewer than 4"));
        let error = secret(&[("KEY", "-----BEGIN\nMIIE")]).unwrap_err();
        assert!(error.contains("KEY has more than one line") && !error.contains("MIIE"), "{error}");
        assert!(secret(&[("PIN", "4711")]).unwrap_err().contains("counters and figures"));
        assert!(secret(&[("KEY", "123456789012")]).is_ok() && secret(&[("PIN", "47a1")]).is_ok());
        assert!(secret(&[("1X", "abcdef")]).unwrap_err().contains("`1X`"));
        let names = ["WEIR_NO_SUCH_VARIABLE".to_owned()];
        let error = Secrets::from_env(&names).unwrap_err();
        assert!(error.contains("WEIR_NO_SUCH_VARIABLE") && error.contains("export"), "{error}");
    }
}
