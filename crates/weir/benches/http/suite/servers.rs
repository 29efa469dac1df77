//! Requests that `weir http serve` and nginx answer, in turn, to the same `weir http`, per second
//! of the server's CPU time.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use weir_machine::cancel::Cancel;
use weir_net::address::Prefix;

use super::bed::{Bed, SERVER_DIRECT};
use super::requests::{Case, Serving, by_weir, marginal_of};
use super::{Result, Settings};

const CASE: Case = Case { connections: 64, closes: false };
/// As many bytes as `weir http serve` answers with.
const BODY_BYTES: usize = 128;

/// Requests per second of CPU time, by weir and by nginx; `None` without nginx.
pub(super) fn rates(bed: &Bed, settings: &Settings, cancel: &Cancel) -> Result<(f64, Option<f64>)> {
    let server: Prefix = SERVER_DIRECT.parse()?;
    let address = SocketAddr::new(server.address(), 80);
    let rate = |serving: &Serving| {
        let run = |time| by_weir(bed, settings, address, CASE, time);
        marginal_of(cancel, || serving.cpu_time(), run)
    };
    let weir = rate(&Serving::start(bed, settings, address)?)?;
    if !has_nginx() {
        return Ok((weir, None));
    }
    let directory = tempfile::tempdir()?;
    fs::write(directory.path().join("nginx.conf"), configuration(address))?;
    let mut command = Command::new("taskset");
    command.args(["-c", &bed.cpus[1].to_string(), "nginx", "-c", "nginx.conf", "-p"]);
    command.arg(directory.path());
    let nginx = rate(&Serving::spawn(bed, command, address)?)?;
    Ok((weir, Some(nginx)))
}

fn has_nginx() -> bool {
    let mut asked = Command::new("nginx");
    asked.arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// One process, an answer from memory, no log: as little as nginx can do.
fn configuration(address: SocketAddr) -> String {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary: String =
        temporary.iter().map(|name| format!("{name}_temp_path {name};\n")).collect();
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr crit;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\naccess_log off;\nkeepalive_requests 1000000000;\n{temporary}\
         server {{\nlisten {address};\nlocation / {{ return 200 \"{}\"; }}\n}}\n}}\n",
        "x".repeat(BODY_BYTES)
    )
}
