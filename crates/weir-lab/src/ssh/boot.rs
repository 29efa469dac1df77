//! Which start of a machine this is: proof that it did reboot.
//!
//! A machine that answers after a reboot was asked for may not have gone down yet. Linux has a
//! random id for each boot (`random(4)`), newer FreeBSD too; elsewhere the time of the boot stands
//! for it, but that moves when the clock is set, so the machine must also be up for less time than
//! has passed since it was asked. This module never reboots anything.

use std::time::Duration;

/// What prints a [`Boot`]: an id or `-`, the time of the boot or `-`, and how long ago it was, in
/// seconds or as `ps` has it.
pub(super) const QUESTION: &str = "\
cat /proc/sys/kernel/random/boot_id 2>/dev/null || sysctl -n kern.boot_id 2>/dev/null || echo -
sysctl -n kern.boottime 2>/dev/null || echo -
if [ -r /proc/uptime ]; then cat /proc/uptime; else ps -o etime= -p 1; fi";

/// How much later than it was asked a machine may seem to have started: clocks are read one after
/// the other, and `ps` counts whole seconds.
const SLACK: Duration = Duration::from_secs(5);

/// A start of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Boot {
    /// A random id.
    id: Option<String>,
    /// When it was, as the system writes it.
    time: Option<String>,
    /// How long it has been up.
    up: Duration,
}

impl Boot {
    /// Reads an answer.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim);
        let known = |line: &str| (line != "-" && !line.is_empty()).then(|| line.to_owned());
        let (id, time) = (known(lines.next()?), known(lines.next()?));
        let up = read_uptime(lines.next()?)?;
        (id.is_some() || time.is_some()).then_some(Self { id, time, up })
    }

    /// Whether this is a later start than `earlier`, which was seen `since` before.
    pub(super) fn is_after(&self, earlier: &Self, since: Duration) -> bool {
        match (&self.id, &earlier.id) {
            (Some(own), Some(other)) => own != other,
            _ => self.time != earlier.time && self.up <= since + SLACK,
        }
    }

    /// How long the machine has been up.
    pub(super) fn up(&self) -> Duration {
        self.up
    }
}

/// `12345.67 …` of Linux, or `[[days-]hours:]minutes:seconds` of ps(1).
fn read_uptime(text: &str) -> Option<Duration> {
    let text = text.split_whitespace().next()?;
    if !text.contains(':') {
        return text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    }
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let mut seconds = 0;
    for part in rest.split(':') {
        seconds = seconds * 60 + part.parse::<u64>().ok()?;
    }
    Some(Duration::from_secs(days.parse::<u64>().ok()? * 86_400 + seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn each_systems_answer_is_read() {
        let linux = Boot::read("0f0c8d2e-93d4\n-\n350735.47 234388.90\n").unwrap();
        assert_eq!(linux.id.as_deref(), Some("0f0c8d2e-93d4"));
        assert_eq!(linux.up.as_secs(), 350_735);
        let freebsd = "-\n{ sec = 1700000000, usec = 64412 } Tue Nov 14 22:13:20 2023\n   04:11\n";
        let freebsd = Boot::read(freebsd).unwrap();
        assert_eq!((freebsd.id, freebsd.up), (None, Duration::from_secs(251)));
        let openbsd = Boot::read("-\nTue Nov 14 22:13:20 2023\n2-03:04:05\n").unwrap();
        assert_eq!(openbsd.up.as_secs(), 2 * 86_400 + 3 * 3600 + 4 * 60 + 5);
        assert_eq!(Boot::read("-\n-\n04:11\n"), None, "nothing that tells boots apart");
        assert_eq!(Boot::read("-\nx\n"), None);
    }

    #[test]
    fn an_id_decides_and_a_clock_that_was_set_does_not() {
        let boot = |id: Option<&str>, time: &str, up| Boot {
            id: id.map(str::to_owned),
            time: Some(time.to_owned()),
            up,
        };
        assert!(boot(Some("b"), "t", 90 * MINUTE).is_after(&boot(Some("a"), "t", MINUTE), MINUTE));
        assert!(!boot(Some("a"), "u", MINUTE / 2).is_after(&boot(Some("a"), "t", MINUTE), MINUTE));
        let before = boot(None, "t", 10 * MINUTE);
        assert!(boot(None, "u", MINUTE / 2).is_after(&before, MINUTE));
        assert!(!boot(None, "u", 11 * MINUTE).is_after(&before, MINUTE), "the clock was set");
        assert!(!boot(None, "t", 11 * MINUTE).is_after(&before, MINUTE));
    }
}
