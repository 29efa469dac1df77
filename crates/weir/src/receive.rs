//! What `weir sink` and `weir reflect` have in common: an interface that takes a program, and a
//! run that ends by time or by signal, with something to show after each interval.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use weir_bpf::attach::{self, AttachError, Mode};
use weir_bpf::ethtool;
use weir_machine::cancel::Cancel;
use weir_net::{LinkInfo, Netlink};

use crate::cli::ReceiveOptions;
use crate::exit::{self, Outcome};
use crate::{lab, signals};

/// The loopback interface has this index in every network namespace.
const LOOPBACK_IFINDEX: u32 = 1;

/// An interface that was looked at, and for how long it is used.
pub(crate) struct Session {
    pub(crate) link: LinkInfo,
    pub(crate) mode: Mode,
    pub(crate) json: bool,
    duration: Option<Duration>,
    interval: Duration,
    netlink: Netlink,
    pub(crate) cancel: Cancel,
}

/// ENOSPC: what a veth answers that would be sent to more queues than it has.
const NO_SPACE: i32 = 28;

impl Session {
    /// Checks the interface before anything is attached, and starts to listen to signals.
    pub(crate) fn open(command: &str, options: &ReceiveOptions) -> anyhow::Result<Self> {
        lab::require_root(command, "attaches an XDP program (CAP_BPF and CAP_NET_ADMIN)")?;
        if options.duration.is_some_and(|duration| duration.is_zero()) {
            bail!("--duration is zero: give a time such as 10s, or leave it out");
        }
        let netlink = Netlink::open()?;
        let link = netlink.link(&options.interface).with_context(|| {
            format!("{command} cannot use `{}`; see `ip link`", options.interface)
        })?;
        let name = &link.name;
        if link.ifindex == LOOPBACK_IFINDEX {
            bail!(
                "`{name}` is the loopback interface: its packets never leave the network stack, \
                 and it has no native XDP; use one end of a veth pair to stay on this host"
            );
        }
        if !link.is_up {
            bail!("interface `{name}` is down: set it up with `ip link set dev {name} up`");
        }
        if let Some(other) = attach::attached(link.ifindex)? {
            let known = if other.name.is_empty() { "without a name" } else { &other.name };
            bail!(
                "an XDP program is attached to `{name}` already: {known}, id {}; end what attached \
                 it, or remove it with `ip link set dev {name} xdp off`",
                other.id
            );
        }
        Ok(Self {
            mode: if options.generic { Mode::Generic } else { Mode::Native },
            json: options.json.json,
            duration: options.duration,
            interval: options.interval,
            cancel: signals::listen()?,
            link,
            netlink,
        })
    }

    /// What to do about a driver that refuses the program.
    pub(crate) fn explain(&self, error: &AttachError) -> anyhow::Error {
        let more = ", or accept several times less speed with --generic";
        self.explain_with(error, if self.mode == Mode::Native { more } else { "" })
    }

    /// The same for a command that has no generic mode.
    pub(crate) fn explain_without_generic(&self, error: &AttachError) -> anyhow::Error {
        self.explain_with(error, "")
    }

    fn explain_with(&self, error: &AttachError, more: &str) -> anyhow::Error {
        let name = &self.link.name;
        if error.is_unsupported() && self.mode == Mode::Native {
            return anyhow!(
                "`{name}` does not take an XDP program in native mode ({}): its driver has none, \
                 or not with its current MTU and queues; lower the MTU or the number of \
                 queues{more}",
                error.source
            );
        }
        if error.source.raw_os_error() == Some(NO_SPACE) {
            return anyhow!(
                "`{name}` has fewer receive queues than its far end has transmit queues, which XDP \
                 on a veth forbids: `ethtool -L {name} rx N` here, or `ethtool -L PEER tx N` there"
            );
        }
        anyhow!("{error}")
    }

    /// What the user of a veth must know who returns packets (XDP_TX): the far end takes what is
    /// returned only while an XDP program is attached there.
    pub(crate) fn returning_note(&self) -> Option<String> {
        let name = &self.link.name;
        let is_veth = ethtool::driver(name).is_ok_and(|driver| driver == "veth");
        let links = self.netlink.links().unwrap_or_default();
        let peer = links.iter().find(|link| {
            Some(link.ifindex) == self.link.peer_ifindex && !self.link.peer_is_elsewhere
        });
        if !is_veth || self.mode == Mode::Generic || peer.is_some_and(|peer| peer.has_xdp) {
            return None;
        }
        Some(format!(
            "the far end of `{name}`, a veth, gets what is returned only while it has an XDP \
             program itself, such as that of `weir sink` or `weir pkt-gen -f ping`"
        ))
    }

    /// Receive queues in use.
    pub(crate) fn queue_count(&self) -> u32 {
        let channels = ethtool::channels(&self.link.name).ok().flatten();
        channels.map_or(self.link.rx_queue_count, |channels| channels.rx_count).max(1)
    }

    /// Calls `tick` after each interval until the time is over or a signal comes. Intervals that
    /// were missed are left out. Ends with an error if the interface goes away, or if `tick` fails.
    pub(crate) fn run(
        &self,
        mut tick: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<Outcome> {
        let begin = Instant::now();
        let end = self.duration.and_then(|duration| begin.checked_add(duration));
        let mut next = begin;
        loop {
            // Two reports right after one another would show a rate of nothing.
            next = (next + self.interval).max(Instant::now());
            let deadline = end.map_or(next, |end| end.min(next));
            if !self.cancel.sleep_until(deadline) {
                return Ok(Outcome::Signal(self.cancel.signal().unwrap_or_default()));
            }
            if end.is_some_and(|end| end <= next) {
                return Ok(Outcome::Done);
            }
            self.check_present()?;
            tick()?;
        }
    }

    /// Fails if the interface went away.
    pub(crate) fn check_present(&self) -> anyhow::Result<()> {
        let name = &self.link.name;
        if !self.netlink.link(name).is_ok_and(|link| link.ifindex == self.link.ifindex) {
            bail!("interface `{name}` went away while it was in use");
        }
        Ok(())
    }
}

/// Shows results on standard output: JSON lines, lines of text, or a block of text that a terminal
/// sees in place.
pub(crate) struct Screen {
    json: bool,
    terminal: bool,
    shown_lines: usize,
}

impl Screen {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, terminal: !json && std::io::stdout().is_terminal(), shown_lines: 0 }
    }

    /// Whether somebody sees blocks in place.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Shows what there is after a second: `line` where there is no terminal, `block` on one.
    pub(crate) fn interval(
        &mut self,
        json: impl FnOnce() -> serde_json::Result<String>,
        line: impl FnOnce() -> String,
        block: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        match (self.json, self.terminal) {
            (true, _) => exit::put(&format!("{}\n", json()?)),
            (false, false) => exit::put(&format!("{}\n", line())),
            (false, true) => self.in_place(&block()),
        }
    }

    /// Shows the totals.
    pub(crate) fn total(
        &mut self,
        json: impl FnOnce() -> serde_json::Result<String>,
        block: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        if self.json { exit::put(&format!("{}\n", json()?)) } else { self.redraw(&block()) }
    }

    /// Shows a block on a terminal in the place of the last one, cut to what fits there: lines that
    /// are wrapped, or have left it at the top, cannot be written over.
    pub(crate) fn in_place(&mut self, block: &str) -> anyhow::Result<()> {
        match terminal_size::terminal_size_of(std::io::stdout()) {
            Some((width, height)) => self.redraw(&cut(block, width.0.into(), height.0.into())),
            None => self.redraw(block),
        }
    }

    /// Writes a block over the last one.
    fn redraw(&mut self, block: &str) -> anyhow::Result<()> {
        // Up by the lines that were shown, and erase from there to the end of the screen.
        let back = match (self.terminal, self.shown_lines) {
            (false, _) | (_, 0) => String::new(),
            (true, lines) => format!("\x1b[{lines}A\x1b[J"),
        };
        self.shown_lines = block.lines().count();
        exit::put(&(back + block))
    }
}

/// The upper left of a block, with a line less than there are, for the cursor.
fn cut(block: &str, width: usize, height: usize) -> String {
    let lines = block.lines().take(height.saturating_sub(1).max(1));
    lines.map(|line| line.chars().take(width).chain(['\n']).collect::<String>()).collect()
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn a_block_is_cut_to_what_fits_on_a_terminal() {
        assert_eq!(cut("abc\ndéfg\nhi\n", 3, 3), "abc\ndéf\n");
        assert_eq!(cut("abc\n", 80, 0), "abc\n");
    }
}
