//! What `pfctl -s` prints, in FreeBSD's widths and words (`pfctl_parser.c`, `pf_print_state.c`,
//! `pfctl_table.c`, `pfctl.c`), so that scripts and exporters read it. Values in, text out: nothing
//! is asked here.

pub mod info;
pub mod interfaces;
pub mod limiters;
pub mod rules;
pub mod settings;
pub mod sources;
pub mod states;
pub mod tables;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// `ctime(3)`, without its newline: the time of this machine.
#[must_use]
pub(crate) fn ctime(unix_s: i64) -> String {
    let Ok(time) = Timestamp::from_second(unix_s) else { return "never".to_owned() };
    time.to_zoned(TimeZone::system()).strftime("%a %b %e %H:%M:%S %Y").to_string()
}

/// Titles of `pfctl -sa`: an empty line before each but the first.
#[derive(Debug, Default)]
pub struct Titles {
    has_title: bool,
}

impl Titles {
    /// Writes a title.
    pub fn put(&mut self, out: &mut String, title: &str) {
        if std::mem::replace(&mut self.has_title, true) {
            out.push('\n');
        }
        out.push_str(title);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_parted() {
        let (mut titles, mut out) = (Titles::default(), String::new());
        titles.put(&mut out, "INFO:");
        titles.put(&mut out, "LIMITS:");
        assert_eq!(out, "INFO:\n\nLIMITS:\n");
    }
}
