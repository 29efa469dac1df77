//! The way to a machine's SSH server: through QEMU's user network, from inside its namespace.
//!
//! OpenSSH gets a configuration file of its own for it. Its connection is carried by a small
//! script inside the namespace, so that nothing of the machine is reachable from elsewhere. The
//! machine's key is the one that the image is known to have; an image that has none named is asked
//! once per start, over a way that nobody else is on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_net::Netns;
use weir_net::process::{self, Invocation};

use super::{QemuError, inside};
use crate::access::RemoteSpec;

/// Where QEMU listens, inside the namespace.
pub const PORT: u16 = 2222;
/// The machine's name for OpenSSH.
const ALIAS: &str = "weir-dut";
/// How long a question for keys may take; emulated machines answer slowly.
const SCAN_TIMEOUT: Duration = Duration::from_secs(40);

/// What is known of a machine's SSH server.
#[derive(Debug)]
pub struct Access<'a> {
    /// User to log in as.
    pub user: &'a str,
    /// File of the private key.
    pub key: Option<&'a Path>,
    /// The machine's public keys, one in a line.
    pub host_key: Option<&'a str>,
}

/// The files that OpenSSH needs.
#[derive(Debug)]
pub struct Login {
    /// How the machine is reached.
    pub remote: RemoteSpec,
    known_hosts: PathBuf,
    host_key: Option<String>,
}

impl Login {
    /// Writes them to a directory, for a machine that runs in a namespace.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn prepare(
        access: &Access<'_>,
        netns: &Netns,
        directory: &Path,
    ) -> Result<Self, QemuError> {
        let known_hosts = directory.join("known_hosts");
        let config = directory.join("ssh_config");
        let carrier = directory.join("carry");
        write(&carrier, &carrier_script())?;
        let quoted = |path: &Path| format!("\"{}\"", path.display());
        let mut text = format!(
            "Host {ALIAS}\n  User {}\n  HostKeyAlias {ALIAS}\n  UserKnownHostsFile {}\n  \
             GlobalKnownHostsFile /dev/null\n  ProxyCommand nsenter --net={} bash {}\n",
            access.user,
            quoted(&known_hosts),
            netns.path().display(),
            carrier.display(),
        );
        if let Some(key) = access.key {
            text.push_str(&format!("  IdentityFile {}\n  IdentitiesOnly yes\n", quoted(key)));
        }
        write(&config, &text)?;
        let remote = RemoteSpec {
            name: netns.name().to_owned(),
            ssh: Some(ALIAS.to_owned()),
            config: Some(config.display().to_string()),
            processes: Vec::new(),
        };
        let login = Self { remote, known_hosts, host_key: access.host_key.map(str::to_owned) };
        login.know()?;
        Ok(login)
    }

    /// Whether the machine's key is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.host_key.is_some()
    }

    /// Asks the machine for its key, once. Nothing where it does not answer yet.
    ///
    /// # Errors
    /// When the key cannot be written down.
    pub fn ask(&mut self, netns: &Netns) -> Result<(), QemuError> {
        let port = PORT.to_string();
        let scan = Invocation::program(["ssh-keyscan", "-T", "30", "-p", &port, "127.0.0.1"]);
        let output = inside(netns, || process::run(&scan, SCAN_TIMEOUT).map_err(|e| e.to_string()));
        let text = output.map(|output| output.text()).unwrap_or_default();
        let keys: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once(' ').map(|(_, key)| key))
            .collect();
        if !keys.is_empty() {
            self.host_key = Some(keys.join("\n"));
        }
        self.know()
    }

    fn know(&self) -> Result<(), QemuError> {
        let keys = self.host_key.iter().flat_map(|keys| keys.lines());
        let text: String = keys.map(|key| format!("{ALIAS} {key}\n")).collect();
        write(&self.known_hosts, &text)
    }
}

/// Carries a connection between its standard input and output and QEMU's port. It ends when
/// either side does.
fn carrier_script() -> String {
    format!(
        "exec 3<>/dev/tcp/127.0.0.1/{PORT} || exit 1\n\
         {{ cat <&3; kill $$; }} 2>/dev/null &\n\
         cat >&3\n\
         kill $! 2>/dev/null\n"
    )
}

fn write(path: &Path, text: &str) -> Result<(), QemuError> {
    fs::write(path, text)
        .map_err(|e| QemuError::new(format!("cannot write {}: {e}", path.display())))
}
