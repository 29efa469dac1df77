//! How a console is named: the argument of `weir console`, and of whoever has a machine to watch.

use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::{fmt, fs};

/// A console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A socket of this machine's file system, such as the serial port of a virtual machine.
    Unix(PathBuf),
    /// A TCP port that carries the line as it is: `HOST:PORT`.
    Tcp(String),
    /// A TCP port of a terminal server that speaks telnet: `HOST:PORT`.
    Telnet(String),
    /// A serial device: 8 data bits, no parity, no flow control.
    Serial {
        device: PathBuf,
        /// Bits per second; one of those that the system knows.
        speed_bps: u32,
    },
    /// Serial over LAN of a management controller, through ipmitool(1).
    Ipmi {
        /// The controller.
        host: String,
        /// Its user, if it has one.
        user: Option<String>,
    },
}

/// The speed of a serial line unless another is asked for: what boot loaders and installers of
/// today use.
pub(crate) const SPEED_BPS_DEFAULT: u32 = 115_200;

/// The forms of a target, for messages.
const FORMS: &str = "write /dev/ttyUSB0 (or another serial device), unix:/path/to/socket, \
                     tcp:HOST:PORT, telnet:HOST:PORT or ipmi:[USER@]HOST";

impl Target {
    /// Reads a target. What a path without a prefix is, a socket or a serial device, the file
    /// says.
    ///
    /// # Errors
    /// In words, with the forms that there are.
    pub fn parse(text: &str) -> Result<Self, String> {
        let serial = |device: PathBuf| Self::Serial { device, speed_bps: SPEED_BPS_DEFAULT };
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("serial", path)) if !path.is_empty() => Ok(serial(path.into())),
            Some((kind @ ("tcp" | "telnet"), address)) => match address.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                    let target = if kind == "tcp" { Self::Tcp } else { Self::Telnet };
                    Ok(target(address.to_owned()))
                }
                _ => Err(format!("`{text}` has no host and port: write {kind}:HOST:PORT")),
            },
            Some(("ipmi", rest)) => {
                let (user, host) = match rest.rsplit_once('@') {
                    Some((user, host)) => (Some(user.to_owned()), host),
                    None => (None, rest),
                };
                // What begins with a hyphen would be an option of ipmitool.
                let is_name = |name: &str| !name.is_empty() && !name.starts_with('-');
                if !is_name(host) || user.as_deref().is_some_and(|user| !is_name(user)) {
                    return Err(format!("`{text}` names no controller: write ipmi:[USER@]HOST"));
                }
                Ok(Self::Ipmi { host: host.to_owned(), user })
            }
            _ if text.contains('/') => {
                let kind = fs::metadata(text).map_err(|e| format!("cannot open {text}: {e}"))?;
                if kind.file_type().is_socket() {
                    Ok(Self::Unix(text.into()))
                } else if kind.file_type().is_char_device() {
                    Ok(serial(text.into()))
                } else {
                    Err(format!("{text} is neither a socket nor a serial device; {FORMS}"))
                }
            }
            _ => Err(format!("`{text}` is not a console; {FORMS}")),
        }
    }

    /// The same target at another speed; `None` if it is no serial device.
    #[must_use]
    pub fn with_speed(self, speed_bps: u32) -> Option<Self> {
        match self {
            Self::Serial { device, .. } => Some(Self::Serial { device, speed_bps }),
            _ => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Telnet(address) => write!(f, "telnet:{address}"),
            Self::Serial { device, .. } => write!(f, "{}", device.display()),
            Self::Ipmi { host, user: Some(user) } => write!(f, "ipmi:{user}@{host}"),
            Self::Ipmi { host, user: None } => write!(f, "ipmi:{host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_read_and_printed() {
        for text in [
            "unix:/run/vm.sock",
            "tcp:[::1]:7001",
            "telnet:ts1:2001",
            "ipmi:admin@bmc1",
            "ipmi:bmc1",
        ] {
            assert_eq!(Target::parse(text).map(|t| t.to_string()).as_deref(), Ok(text));
        }
        let serial = Target::parse("serial:/dev/ttyS0").unwrap().with_speed(9_600).unwrap();
        assert_eq!(serial, Target::Serial { device: "/dev/ttyS0".into(), speed_bps: 9_600 });
        assert_eq!(Target::parse("tcp:a:1").unwrap().with_speed(9_600), None);
    }

    #[test]
    fn a_path_is_what_the_file_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vm.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let text = path.to_str().unwrap();
        assert_eq!(Target::parse(text), Ok(Target::Unix(path.clone())));
        assert!(matches!(Target::parse("/dev/null"), Ok(Target::Serial { .. })));
        assert!(Target::parse("/etc/passwd").unwrap_err().contains("neither"));
        assert!(Target::parse("/nonexistent/tty").unwrap_err().contains("/nonexistent/tty"));
    }

    #[test]
    fn what_is_no_console_is_refused_with_the_forms() {
        for text in [
            "",
            "dut1",
            "tcp:host",
            "tcp::7",
            "tcp:host:99999",
            "telnet:ts1",
            "unix:",
            "ipmi:",
            "ipmi:@",
        ] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
        assert!(Target::parse("dut1").unwrap_err().contains("ipmi:[USER@]HOST"));
        assert!(Target::parse("ipmi:-oops").is_err());
    }
}
