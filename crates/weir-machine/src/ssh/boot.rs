//! Which start of a machine this is: proof that it did reboot.
//!
//! A machine that answers after a reboot was asked for may not have gone down yet. Linux has a
//! random id for each boot (`random(4)`), newer FreeBSD too; elsewhere the time of the boot stands
//! for it, but that moves when the clock is set, so the machine must also be up for less time than
//! has passed since it was asked. Where it is not known which start was before, that alone decides.
//! This module never reboots anything.

use std::time::Duration;

/// What prints a [`Boot`]: an id or `-`, the time of the boot or `-`, and how long ago it was, in
/// seconds or as `ps` has it, or nothing.
pub(super) const QUESTION: &str = "\
cat /proc/sys/kernel/random/boot_id 2>/dev/null || sysctl -n kern.boot_id 2>/dev/null || echo -
sysctl -n kern.boottime 2>/dev/null || echo -
if [ -r /proc/uptime ]; then cat /proc/uptime; else ps -o etime= -p 1 2>/dev/null; fi
:";

/// How much later than it was asked a machine may seem to have started whose time of the boot is
/// another one: clocks are read one after the other, and `ps` counts whole seconds.
const SLACK: Duration = Duration::from_secs(5);

/// A start of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Boot {
    /// A random id.
    id: Option<String>,
    /// When it was, as the system writes it.
    time: Option<String>,
    /// How long it has been up.
    up: Option<Duration>,
}

/// Whether a start is another one than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Proof {
    /// It is, and this shows it.
    Another(String),
    /// It is not.
    Same,
    /// The system says nothing that would tell.
    Unknown,
}

impl Boot {
    /// Reads an answer; what is not in it is not known.
    pub(super) fn read(text: &str) -> Self {
        let mut lines = text.lines().map(str::trim);
        let mut next = || lines.next().filter(|line| *line != "-" && !line.is_empty());
        let (id, time) = (next().map(str::to_owned), next().map(str::to_owned));
        Self { id, time, up: next().and_then(read_uptime) }
    }

    /// Whether this is a start that was asked for `since_asked` ago, given the last one that was
    /// known before. If none was, only how long the machine is up can tell: it may have started by
    /// itself meanwhile, and go down only now.
    pub(super) fn proof(&self, before: Option<&Self>, since_asked: Duration) -> Proof {
        let both = |part: fn(&Self) -> Option<&String>| Some((part(self)?, part(before?)?));
        if let Some((now, other)) = both(|boot| boot.id.as_ref()) {
            return match now == other {
                true => Proof::Same,
                false => Proof::Another(format!("its boot id is {now}, and was {other}")),
            };
        }
        let slack = match both(|boot| boot.time.as_ref()) {
            Some((now, other)) if now == other => return Proof::Same,
            Some(_) => SLACK,
            None => Duration::ZERO,
        };
        match self.up {
            None => Proof::Unknown,
            Some(up) if up > since_asked + slack => Proof::Same,
            Some(up) => {
                let [up, since] = [up, since_asked].map(|time| time.as_secs_f64());
                Proof::Another(format!("up for {up:.1} s, {since:.1} s after it was asked for"))
            }
        }
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
        let linux = Boot::read("0f0c8d2e-93d4\n-\n350735.47 234388.90\n");
        assert_eq!(linux.id.as_deref(), Some("0f0c8d2e-93d4"));
        assert_eq!((linux.time, linux.up), (None, Some(Duration::from_millis(350_735_470))));
        let freebsd = "-\n{ sec = 1700000000, usec = 64412 } Tue Nov 14 22:13:20 2023\n   04:11\n";
        let freebsd = Boot::read(freebsd);
        assert_eq!((freebsd.id, freebsd.up), (None, Some(Duration::from_secs(251))));
        let openbsd = Boot::read("-\nTue Nov 14 22:13:20 2023\n2-03:04:05\n");
        let up_s = 2 * 86_400 + 3 * 3600 + 4 * 60 + 5;
        assert_eq!(openbsd.up, Some(Duration::from_secs(up_s)));
        let nothing = Boot { id: None, time: None, up: None };
        assert_eq!(Boot::read("-\n-\n"), nothing);
        assert_eq!(Boot::read(""), nothing);
    }

    fn boot(id: Option<&str>, time: Option<&str>, up: Duration) -> Boot {
        Boot { id: id.map(str::to_owned), time: time.map(str::to_owned), up: Some(up) }
    }

    fn is_another(now: &Boot, before: Option<&Boot>) -> bool {
        matches!(now.proof(before, MINUTE), Proof::Another(_))
    }

    #[test]
    fn an_id_decides_and_a_clock_that_was_set_does_not() {
        let before = boot(Some("a"), Some("t"), MINUTE);
        assert!(is_another(&boot(Some("b"), Some("t"), 90 * MINUTE), Some(&before)));
        assert!(!is_another(&boot(Some("a"), Some("u"), MINUTE / 2), Some(&before)));
        let before = boot(None, Some("t"), 10 * MINUTE);
        assert!(is_another(&boot(None, Some("u"), MINUTE / 2), Some(&before)));
        assert!(!is_another(&boot(None, Some("u"), 11 * MINUTE), Some(&before)), "a set clock");
        assert!(!is_another(&boot(None, Some("t"), MINUTE / 2), Some(&before)));
    }

    #[test]
    fn without_a_start_before_only_a_short_uptime_is_proof() {
        for id in [None, Some("a")] {
            assert!(is_another(&boot(id, Some("t"), MINUTE - SLACK), None));
            assert!(
                !is_another(&boot(id, Some("t"), MINUTE + SLACK / 2), None),
                "it was up before"
            );
        }
        // What answers now may be another system.
        let before = boot(None, Some("t"), MINUTE);
        assert!(is_another(&boot(Some("a"), None, MINUTE / 2), Some(&before)));
        assert!(!is_another(&boot(Some("a"), None, 2 * MINUTE), Some(&before)));
    }

    #[test]
    fn a_system_that_tells_nothing_proves_nothing() {
        let nothing = Boot::read("");
        assert_eq!(nothing.proof(Some(&nothing), MINUTE), Proof::Unknown);
        let set = Boot { time: Some("u".to_owned()), ..nothing.clone() };
        let before = Boot { time: Some("t".to_owned()), ..nothing };
        assert_eq!(set.proof(Some(&before), MINUTE), Proof::Unknown, "a clock may have been set");
    }
}
