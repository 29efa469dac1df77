//! `weir connect serve`: attaches the server, shows what it counts, detaches it.

use std::time::Instant;

use weir_bpf::connect::{ConnectAttachError, ConnectServer, ServerConfig};
use weir_gen::connect::frame_bytes;
use weir_gen::connect::ledger::Counts;
use weir_gen::preflight;
use weir_net::{LinkInfo, Netlink};

use super::plan;
use super::show::{SERVER_TOTALS, ServerReport};
use crate::cli::connect::ServeArgs;
use crate::exit::Outcome;
use crate::progress;
use crate::receive::{Screen, Session};

pub(super) fn command(args: &ServeArgs) -> anyhow::Result<Outcome> {
    let session = Session::open("weir connect serve", &args.receive)?;
    // Without --listen, replies have either kind of header: the longer one has to fit.
    let is_ipv6 = args.listen.is_none_or(|range| range.is_ipv6());
    let size_bytes = frame_bytes(is_ipv6, args.reply_bytes());
    preflight::interface(&session.link.name, size_bytes, false)?;
    if args.listen.is_none() && has_default_route(&session.link)? {
        progress::warn(&format!(
            "the default route of this host leads to `{}`, and without --listen every TCP packet \
             that comes in there is answered here, those to this host (ssh) as well",
            session.link.name
        ));
    }
    let config = ServerConfig { listen: args.listen, reply_bytes: args.reply_bytes() };
    let server = ConnectServer::load(&config)?;
    let attached = server.attach(session.link.ifindex, session.mode);
    let link = attached.map_err(|error| match error {
        ConnectAttachError::Attach(error) => session.explain(&error),
        other => other.into(),
    })?;
    plan::check_path(&session.link.name, &[])?;
    match &args.listen {
        Some(range) => progress::note(&format!("serving {range} at `{}`", session.link.name)),
        None => progress::note(&format!("serving every address at `{}`", session.link.name)),
    }
    let mut screen = Screen::new(session.json);
    let begin = Instant::now();
    let mut last = (begin, 0);
    let outcome = session.run(|| {
        let counts = Counts::from(server.counters()?);
        let report = ServerReport::new("interval", begin, last, counts);
        last = (Instant::now(), counts.established);
        screen.interval(
            || serde_json::to_string(&report),
            || report.line(),
            || report.line() + "\n",
        )
    });
    drop(link);
    let counts = Counts::from(server.counters()?);
    let report = ServerReport::new(SERVER_TOTALS, begin, (begin, 0), counts);
    screen.total(|| serde_json::to_string(&report), || report.block())?;
    outcome
}

/// Whether this host has its other connections by way of the interface, too.
fn has_default_route(link: &LinkInfo) -> anyhow::Result<bool> {
    let routes = Netlink::open()?.routes()?;
    Ok(routes.iter().any(|route| route.is_default_of(link.ifindex)))
}
