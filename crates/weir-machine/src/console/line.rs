//! The line itself: a pair of file descriptors that carry bytes, whatever stands behind them.
//!
//! Opened lines do not block: whoever reads or writes waits with poll(2). A serial device is set to
//! raw mode and given back as it was.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeWriter, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, Flock, FlockArg, OFlag, fcntl};
use nix::sys::termios::{self, BaudRate, ControlFlags, SetArg, Termios};

use super::ConsoleError;
use super::target::Target;
use super::telnet::Telnet;

/// How long a TCP connection may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// How long ipmitool may take to end a session.
const IPMI_PATIENCE: Duration = Duration::from_secs(10);
/// ipmitool's own escape character, Ctrl-]; `~` goes through. Whoever types it sends it: it is
/// doubled where ipmitool would take it for the beginning of an escape sequence.
const IPMI_ESCAPE: u8 = 0x1d;
/// The variable from which ipmitool takes the password (its `-E`).
pub const IPMI_PASSWORD: &str = "IPMI_PASSWORD";

/// What has to be undone when a line is closed.
enum Behind {
    Nothing,
    Serial { device: Flock<File>, before: Box<Termios> },
    Ipmi { child: Child, arguments: Vec<String>, keys: IpmiKeys },
    Telnet(Box<Telnet>),
}

/// What ipmitool makes of the keys that it gets: it looks for its escape character at the beginning
/// of a line only (ipmi_sol.c).
#[derive(Debug)]
struct IpmiKeys {
    at_begin: bool,
}

impl IpmiKeys {
    fn new() -> Self {
        Self { at_begin: true }
    }

    /// Keys as ipmitool has to get them, so that the machine gets these.
    fn encode(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            if self.at_begin && byte == IPMI_ESCAPE {
                encoded.push(IPMI_ESCAPE);
            }
            encoded.push(byte);
            self.at_begin = matches!(byte, b'\r' | b'\n');
        }
        encoded
    }

    /// The sequence that sends a break, where ipmitool takes one.
    fn send_break(&mut self) -> Result<[u8; 2], String> {
        if !self.at_begin {
            return Err("ipmitool sends a break only at the beginning of a line: send a return \
                        first, if the machine may get one"
                .to_owned());
        }
        self.at_begin = false;
        Ok([IPMI_ESCAPE, b'B'])
    }
}

/// An open line.
pub(super) struct Line {
    pub(super) input: File,
    pub(super) output: File,
    behind: Behind,
}

impl Line {
    pub(super) fn open(target: &Target) -> Result<Self, ConsoleError> {
        let failed = |source: io::Error| ConsoleError::Open { target: target.to_string(), source };
        match target {
            Target::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(failed)?;
                stream.set_nonblocking(true).map_err(failed)?;
                let output = stream.try_clone().map_err(failed)?;
                Ok(Self::plain(stream.into(), output.into()))
            }
            Target::Tcp(address) | Target::Telnet(address) => {
                let stream = connect(address).map_err(failed)?;
                stream.set_nonblocking(true).map_err(failed)?;
                stream.set_nodelay(true).map_err(failed)?;
                let output = stream.try_clone().map_err(failed)?;
                let mut line = Self::plain(stream.into(), output.into());
                if let Target::Telnet(_) = target {
                    line.behind = Behind::Telnet(Box::new(Telnet::new()));
                }
                Ok(line)
            }
            Target::Serial { device, speed_bps } => serial(device, *speed_bps, target),
            Target::Ipmi { host, user } => ipmi(host, user.as_deref()),
        }
    }

    fn plain(input: OwnedFd, output: OwnedFd) -> Self {
        Self { input: input.into(), output: output.into(), behind: Behind::Nothing }
    }

    /// Bytes as the line has to get them, so that the machine gets these.
    pub(super) fn encode<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        match &mut self.behind {
            Behind::Ipmi { keys, .. } => keys.encode(bytes).into(),
            Behind::Telnet(telnet) => telnet.encode(bytes).into(),
            Behind::Nothing | Behind::Serial { .. } => bytes.into(),
        }
    }

    /// What the machine has said, out of what the line carried.
    pub(super) fn decode<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        match &mut self.behind {
            Behind::Telnet(telnet) => telnet.decode(bytes).into(),
            _ => bytes.into(),
        }
    }

    /// What the other end of the line is to be answered, which no machine has asked for.
    pub(super) fn take_replies(&mut self) -> Vec<u8> {
        match &mut self.behind {
            Behind::Telnet(telnet) => telnet.take_replies(),
            _ => Vec::new(),
        }
    }

    /// Sends a break: the condition on which serial consoles call their debugger or boot loader.
    pub(super) fn send_break(&mut self) -> Result<(), String> {
        match &mut self.behind {
            Behind::Serial { .. } => termios::tcsendbreak(self.output.as_fd(), 0)
                .map_err(|error| format!("cannot send a break: {error}")),
            Behind::Ipmi { keys, .. } => {
                let sequence = keys.send_break()?;
                self.output.write_all(&sequence).map_err(|error| error.to_string())
            }
            Behind::Telnet(_) => {
                self.output.write_all(&Telnet::send_break()).map_err(|error| error.to_string())
            }
            Behind::Nothing => {
                Err("a socket carries no break; serial devices, telnet and IPMI do".into())
            }
        }
    }

    /// How the program behind the line ended, if there is one and it did.
    pub(super) fn ended(&mut self) -> Option<String> {
        match &mut self.behind {
            Behind::Ipmi { child, .. } => {
                child.try_wait().ok().flatten().map(|status| format!("ipmitool ended: {status}"))
            }
            _ => None,
        }
    }

    /// Gives the line back as it was, and ends what stands behind it; once.
    pub(super) fn close(&mut self) {
        match &mut std::mem::replace(&mut self.behind, Behind::Nothing) {
            Behind::Nothing | Behind::Telnet(_) => {}
            Behind::Serial { device, before } => {
                // A line that is gone cannot be set, and needs not.
                let _ = termios::tcsetattr(device.as_fd(), SetArg::TCSANOW, before);
            }
            Behind::Ipmi { child, arguments, .. } => {
                let _ = child.kill();
                let _ = child.wait();
                // Otherwise the controller keeps the session, and refuses the next one.
                end_session(arguments);
            }
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.close();
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn serial(device: &Path, speed_bps: u32, target: &Target) -> Result<Line, ConsoleError> {
    let failed = |source: io::Error| ConsoleError::Open { target: target.to_string(), source };
    let speed = baud_rate(speed_bps).ok_or_else(|| {
        ConsoleError::Refused(format!(
            "{speed_bps} bit/s is not a serial line speed: 9600, 19200, 38400, 57600, 115200, …"
        ))
    })?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags((OFlag::O_NOCTTY | OFlag::O_NONBLOCK).bits())
        .open(device)
        .map_err(failed)?;
    let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| {
        ConsoleError::Refused(format!(
            "{} is used by another program ({error}): `fuser {}` names it",
            device.display(),
            device.display()
        ))
    })?;
    let before = termios::tcgetattr(lock.as_fd()).map_err(|error| failed(error.into()))?;
    let mut raw = before.clone();
    termios::cfmakeraw(&mut raw);
    raw.control_flags |= ControlFlags::CLOCAL | ControlFlags::CREAD | ControlFlags::CS8;
    raw.control_flags &= !(ControlFlags::CRTSCTS | ControlFlags::CSTOPB | ControlFlags::PARENB);
    termios::cfsetspeed(&mut raw, speed).map_err(|error| failed(error.into()))?;
    termios::tcsetattr(lock.as_fd(), SetArg::TCSANOW, &raw).map_err(|e| failed(e.into()))?;
    let input = lock.try_clone().map_err(failed)?;
    let output = lock.try_clone().map_err(failed)?;
    Ok(Line { input, output, behind: Behind::Serial { device: lock, before: Box::new(before) } })
}

fn baud_rate(speed_bps: u32) -> Option<BaudRate> {
    Some(match speed_bps {
        1_200 => BaudRate::B1200,
        2_400 => BaudRate::B2400,
        4_800 => BaudRate::B4800,
        9_600 => BaudRate::B9600,
        19_200 => BaudRate::B19200,
        38_400 => BaudRate::B38400,
        57_600 => BaudRate::B57600,
        115_200 => BaudRate::B115200,
        230_400 => BaudRate::B230400,
        460_800 => BaudRate::B460800,
        921_600 => BaudRate::B921600,
        1_500_000 => BaudRate::B1500000,
        _ => return None,
    })
}

fn ipmi(host: &str, user: Option<&str>) -> Result<Line, ConsoleError> {
    if std::env::var_os(IPMI_PASSWORD).is_none() {
        return Err(ConsoleError::Refused(format!(
            "no password for {host}: set {IPMI_PASSWORD} in the environment (it is never on a \
             command line, nor in a log)"
        )));
    }
    let mut arguments: Vec<String> = ["-I", "lanplus", "-E", "-H", host].map(str::to_owned).into();
    if let Some(user) = user {
        arguments.extend(["-U".to_owned(), user.to_owned()]);
    }
    let escape = char::from(IPMI_ESCAPE).to_string();
    arguments.extend(["-e".to_owned(), escape, "sol".to_owned()]);
    let failed = |source: io::Error| ConsoleError::Open { target: format!("ipmi:{host}"), source };
    let (input, writer) = io::pipe().map_err(failed)?;
    let errors: PipeWriter = writer.try_clone().map_err(failed)?;
    let mut child = Command::new("ipmitool")
        .args(&arguments)
        .arg("activate")
        .stdin(Stdio::piped())
        .stdout(writer)
        .stderr(errors)
        .spawn()
        .map_err(|error| {
            let advice = if error.kind() == io::ErrorKind::NotFound {
                "; install the package ipmitool"
            } else {
                ""
            };
            ConsoleError::Refused(format!("cannot start ipmitool: {error}{advice}"))
        })?;
    let output = child.stdin.take().map(OwnedFd::from);
    let line = output.ok_or_else(|| io::Error::other("ipmitool has no standard input"));
    let (input, output) = (OwnedFd::from(input), line.map_err(failed)?);
    for fd in [&input, &output] {
        let flags = fcntl(fd, FcntlArg::F_GETFL).map_err(|error| failed(error.into()))?;
        let flags = OFlag::from_bits_truncate(flags) | OFlag::O_NONBLOCK;
        fcntl(fd, FcntlArg::F_SETFL(flags)).map_err(|error| failed(error.into()))?;
    }
    let behind = Behind::Ipmi { child, arguments, keys: IpmiKeys::new() };
    Ok(Line { input: input.into(), output: output.into(), behind })
}

/// Asks the controller to end the session, for as long as that is worth.
fn end_session(arguments: &[String]) {
    let started = Command::new("ipmitool")
        .args(arguments)
        .arg("deactivate")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = started else { return };
    let deadline = Instant::now() + IPMI_PATIENCE;
    while Instant::now() < deadline {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_gets_the_keys_that_ipmitool_would_take_for_its_own() {
        let mut keys = IpmiKeys::new();
        assert_eq!(keys.encode(b"\x1d.ls\x1d.\r\x1d"), b"\x1d\x1d.ls\x1d.\r\x1d\x1d");
        assert_eq!(keys.encode(b".~.\x01"), b".~.\x01");
    }

    #[test]
    fn a_break_brings_no_return_with_it() {
        let mut keys = IpmiKeys::new();
        assert_eq!(keys.send_break(), Ok([IPMI_ESCAPE, b'B']));
        assert!(keys.send_break().unwrap_err().contains("beginning of a line"));
        assert_eq!(keys.encode(b"go"), b"go");
        assert!(keys.send_break().is_err());
        assert_eq!(keys.encode(b"\r"), b"\r");
        assert!(keys.send_break().is_ok());
    }
}
