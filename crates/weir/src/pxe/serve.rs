//! `weir pxe serve`: dnsmasq, the HTTP server, and a line for everything that a machine did.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use jiff::Timestamp;
use serde_json::{Value, json};
use weir_machine::pxe::config::Config;
use weir_machine::pxe::dnsmasq::{
    Dnsmasq, Event, Follower, Heard, check_names, configuration, is_started,
};
use weir_machine::pxe::http::{self, Asked, State};
use weir_machine::pxe::need::needs;
use weir_machine::pxe::{Place, layout};
use weir_net::{Netlink, Prefix};

use crate::cli::pxe::ServeArgs;
use crate::exit::{self, Outcome};
use crate::{lab, progress, signals};

/// How often requests by HTTP are looked for.
const TICK: Duration = Duration::from_millis(100);

/// Runs the command.
pub(super) fn command(args: &ServeArgs) -> anyhow::Result<Outcome> {
    let config = super::configuration(&args.dir)?;
    lab::require_root("weir pxe serve", "answers on the ports of DHCP and TFTP")?;
    let needs = needs(&config, &args.dir);
    let lacking: Vec<String> =
        needs.iter().filter(|need| need.trouble.is_some()).map(super::line).collect();
    if !lacking.is_empty() {
        bail!("these files are missing or wrong (weir pxe check):\n{}", lacking.concat());
    }
    let dir = fs::canonicalize(&args.dir)
        .with_context(|| format!("cannot enter {}", args.dir.display()))?;
    check_names(&args.interface, &dir).map_err(|error| anyhow!("{error}"))?;
    let address = address(&args.interface, &config)?;
    let place = Place { address, http_port: config.http_port };
    let cancel = signals::listen_alone()?;
    let served =
        layout::make(&config, &args.dir, &needs, place).map_err(|error| anyhow!("{error}"))?;
    let (sender, asked) = mpsc::channel();
    let listen = SocketAddrV4::new(place.address, place.http_port);
    let interface = Some(args.interface.as_str());
    http::serve(listen, interface, served.files.clone(), sender).with_context(|| {
        format!("cannot serve HTTP on {listen}: set another http_port in pxe.toml")
    })?;
    let text = configuration(&config, &args.interface, place, &served.root);
    let mut dnsmasq = Dnsmasq::start(&text, &served.run_dir).map_err(|error| anyhow!("{error}"))?;
    let mut screen = Screen::open(args)?;
    for script in &served.scripts {
        progress::note(&format!("a console script installs it: {}", script.display()));
    }
    let mut follower = Follower::new(&served.root);
    loop {
        if let Some(signal) = cancel.signal() {
            return Ok(Outcome::Signal(signal));
        }
        match dnsmasq.hear(TICK) {
            Heard::Line(line) => {
                screen.log(&line);
                if is_started(&line) {
                    progress::note(&format!(
                        "serving {} on {} from {}; Ctrl-C ends",
                        match config.entries.len() {
                            1 => "1 entry".to_owned(),
                            count => format!("{count} entries"),
                        },
                        args.interface,
                        place.address
                    ));
                }
                if let Some(event) = follower.line(&line) {
                    screen.event(&event)?;
                }
            }
            Heard::Nothing => {}
            Heard::Ended(why) => {
                bail!("{why}; is another DHCP or TFTP server running here (ss -ulpn 'sport = 67')?")
            }
        }
        screen.asked(&asked)?;
    }
}

/// The interface's address in the network of the range.
pub(super) fn address(interface: &str, config: &Config) -> anyhow::Result<Ipv4Addr> {
    let netlink = Netlink::open()?;
    let link = netlink
        .link(interface)
        .with_context(|| format!("weir pxe cannot serve on `{interface}`; see `ip link`"))?;
    if !link.is_up {
        bail!("`{interface}` is down: `ip link set dev {interface} up`");
    }
    let (first, last) = config.range;
    let holds = |prefix: &Prefix, address: Ipv4Addr| {
        Prefix::new(address.into(), prefix.length())
            .is_ok_and(|other| other.network() == prefix.network())
    };
    let addresses = netlink.addresses(interface)?;
    let found = addresses.iter().find_map(|prefix| match prefix.address() {
        IpAddr::V4(address) if holds(prefix, first) && holds(prefix, last) => Some(address),
        _ => None,
    });
    let Some(address) = found else {
        bail!(
            "`{interface}` has no address in the network of the range {first}-{last}: `ip address \
             add ADDRESS/LENGTH dev {interface}`"
        );
    };
    if (first..=last).contains(&address) {
        bail!(
            "the range {first}-{last} holds {address}, which is the address of `{interface}` itself"
        );
    }
    Ok(address)
}

/// Where events go.
struct Screen {
    json: bool,
    log: Option<File>,
    /// Machines by their address.
    macs: BTreeMap<IpAddr, String>,
}

impl Screen {
    fn open(args: &ServeArgs) -> anyhow::Result<Self> {
        let log = args.log.as_ref().map(|path| {
            let opened = OpenOptions::new().create(true).append(true).open(path);
            opened.with_context(|| format!("cannot write {} (--log)", path.display()))
        });
        Ok(Self { json: args.json.json, log: log.transpose()?, macs: BTreeMap::new() })
    }

    /// A line for the log. One that cannot be written ends the log, not the service: machines are
    /// in the middle of their installation.
    fn log(&mut self, line: &str) {
        let Some(log) = &mut self.log else { return };
        if let Err(error) = writeln!(log, "{} {line}", Timestamp::now()) {
            self.log = None;
            progress::warn(&format!(
                "cannot write the log (--log), which ends here: {error}; the service continues"
            ));
        }
    }

    fn asked(&mut self, asked: &Receiver<Asked>) -> anyhow::Result<()> {
        while let Ok(asked) = asked.try_recv() {
            let what = by_http(&asked);
            let value = json!({ "kind": "http", "address": asked.address, "file": asked.file,
                "status": asked.status, "size_bytes": asked.size_bytes, "state": asked.state,
                "sent_bytes": asked.sent_bytes });
            self.show(&asked.address.into(), value, &what)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> anyhow::Result<()> {
        let (who, what): (Who, String) = match event {
            Event::Asked { mac, firmware } => {
                let firmware = firmware.as_deref().unwrap_or("no firmware named");
                (Who::Mac(mac.clone()), format!("asks for an address ({firmware})"))
            }
            Event::Address { mac, address } => {
                self.macs.insert((*address).into(), mac.clone());
                ((*address).into(), "got its address".to_owned())
            }
            Event::Refused { mac, reason } => {
                (Who::Mac(mac.clone()), format!("GOT NO ADDRESS: {reason}"))
            }
            Event::Sent { address, file } => ((*address).into(), format!("{file} sent by TFTP")),
            Event::Looked { address, file } => {
                ((*address).into(), format!("{file}: looked for; it does not exist, and need not"))
            }
            Event::Missing { address, file } => {
                ((*address).into(), format!("{file}: MISSING, asked for by TFTP"))
            }
            Event::Broken { address, reason } => {
                ((*address).into(), format!("transfer broke off: {reason}"))
            }
        };
        self.show(&who, serde_json::to_value(event)?, &what)
    }

    fn show(&mut self, who: &Who, mut value: Value, what: &str) -> anyhow::Result<()> {
        let mac = match who {
            Who::Mac(mac) => Some(mac.clone()),
            Who::Address(address) => self.macs.get(address).cloned(),
        };
        let shown = match (who, &mac) {
            (Who::Address(address), Some(mac)) => format!("{mac} {address}"),
            (Who::Address(address), None) => address.to_string(),
            (Who::Mac(mac), _) => mac.clone(),
        };
        let text = format!("{shown}: {what}");
        self.log(&text);
        let line = if self.json {
            value["mac"] = mac.into();
            value["t_utc"] = Timestamp::now().to_string().into();
            value.to_string()
        } else {
            let now = Timestamp::now().strftime("%H:%M:%S");
            format!("{now} {text}")
        };
        exit::put(&format!("{line}\n"))
    }
}

/// What a request by HTTP, or its answer, has come to.
fn by_http(asked: &Asked) -> String {
    let Asked { file, size_bytes, sent_bytes, status, .. } = asked;
    match asked.state {
        State::Begun => format!("{file} ({size_bytes} bytes) is being sent by HTTP"),
        State::Sent => format!("{file} ({size_bytes} bytes) sent by HTTP"),
        State::Broken => {
            format!("{file}: transfer by HTTP BROKE OFF after {sent_bytes} of {size_bytes} bytes")
        }
        State::SizeOnly => format!("{file}: asked for its size by HTTP ({size_bytes} bytes)"),
        State::Refused if *status == 404 => format!("{file}: MISSING, asked for by HTTP"),
        State::Refused => format!("{file}: refused by HTTP, status {status}"),
    }
}

/// A machine, by what is known of it.
enum Who {
    Mac(String),
    Address(IpAddr),
}

impl From<IpAddr> for Who {
    fn from(address: IpAddr) -> Self {
        Self::Address(address)
    }
}

impl From<Ipv4Addr> for Who {
    fn from(address: Ipv4Addr) -> Self {
        Self::Address(address.into())
    }
}
