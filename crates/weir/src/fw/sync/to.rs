//! `weir fw sync to`: keeps up a connection to the other firewall, and has this one's states go by
//! it. It never gives up, and says each loss and each return once, or how many there were.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::Voice;
use super::local::Firewall;
use super::repeats::{Kind, Repeats};
use super::trust::{self, Caller};
use super::tunnel::{Ended, Failure, Stop, Tunnel};
use super::wire;

/// Between two tries: it doubles from the one to the other.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long the other side may take to agree.
const PATIENCE: Duration = Duration::from_secs(10);
/// Reasons that are remembered, so that each is said once.
const REASONS_MAX: usize = 16;
/// Between two looks whether to stop.
const POLL: Duration = Duration::from_millis(20);

/// A connection that is kept up.
pub(super) struct Link<'a> {
    pub(super) host: &'a str,
    pub(super) bind: Option<IpAddr>,
    pub(super) trust: &'a Caller,
    pub(super) firewall: &'a dyn Firewall,
    pub(super) voice: Voice<'a>,
    pub(super) stop: Stop<'a>,
}

/// How a try went.
enum Tried {
    /// No states went.
    Not(String),
    /// They did for so long, and go no more.
    Went(Duration, String),
}

impl Link<'_> {
    /// Runs until it is asked to stop.
    pub(super) fn run(&self) {
        let mut pause = PAUSE_MIN;
        let mut said: Vec<String> = Vec::new();
        let mut repeats = Repeats::default();
        while !(self.stop)() {
            repeats.due(Instant::now()).iter().for_each(|line| (self.voice)(line));
            let tried = self.once(&mut repeats);
            if (self.stop)() {
                return;
            }
            match tried {
                Tried::Not(why) => {
                    if !said.contains(&why) && said.len() < REASONS_MAX {
                        (self.voice)(&format!("no states go to {}: {why}; trying on", self.host));
                        said.push(why);
                    }
                }
                Tried::Went(time, why) => {
                    let text = format!("no states go to {} any more: {why}; trying on", self.host);
                    self.say(&mut repeats, Kind::Ended, text);
                    said.clear();
                    if time >= PAUSE_MAX {
                        pause = PAUSE_MIN;
                    }
                }
            }
            self.sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn say(&self, repeats: &mut Repeats, kind: Kind, text: String) {
        if let Some(text) = repeats.add(kind, text, Instant::now()) {
            (self.voice)(&text);
        }
    }

    fn once(&self, repeats: &mut Repeats) -> Tried {
        let (mut tunnel, local) = match self.begin() {
            Ok(both) => both,
            Err(error) => return Tried::Not(crate::exit::message(&error)),
        };
        self.say(repeats, Kind::Begun, format!("states go to {}", self.host));
        let began = Instant::now();
        let why = match tunnel.carry(&local, self.stop) {
            Ok(Ended::Peer | Ended::Stopped) => "the other firewall has ended it".to_owned(),
            Ok(Ended::Local) => {
                "this firewall has ended it (`weir fw sync status` has its reason)".to_owned()
            }
            Err(failure) => failure.to_string(),
        };
        Tried::Went(began.elapsed(), why)
    }

    fn begin(&self) -> anyhow::Result<(Tunnel, std::os::unix::net::UnixStream)> {
        self.firewall.check()?;
        let tcp = wire::connect(self.host, self.bind, self.stop)?;
        let mut tunnel = Tunnel::new(self.trust.begin()?, tcp)?;
        tunnel.shake(Instant::now() + PATIENCE, self.stop)?;
        if trust::peer(tunnel.tls()).is_none() {
            anyhow::bail!("the other side is no weir fw sync of this version");
        }
        // Until then it may still refuse this side's key, or have no firewall.
        tunnel.hear(Instant::now() + PATIENCE, self.stop).map_err(|failure| match failure {
            Failure::Closed => anyhow::anyhow!(
                "the other firewall takes no states now: its weir fw sync serve says why"
            ),
            failure => failure.into(),
        })?;
        let local = self.firewall.join()?;
        Ok((tunnel, local))
    }

    fn sleep(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until && !(self.stop)() {
            std::thread::sleep(POLL);
        }
    }
}
