//! The arguments of `weir console`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weir_wire::units::parse_duration;

use super::JsonFlag;

pub(crate) const HELP: &str = "\
TARGET is one of
  /dev/ttyUSB0          a serial device (or serial:/dev/…), 115200 8n1 unless --speed
  /run/vm/console.sock  a socket, such as QEMU's -serial unix:…,server=on,wait=off (or unix:PATH)
  tcp:HOST:PORT         a TCP port that carries the line as it is, such as a terminal server's
  telnet:HOST:PORT      one that speaks telnet
  ipmi:[USER@]HOST      serial over LAN through ipmitool; the password is in IPMI_PASSWORD

On a terminal, keys go to the machine as they are. The escape sequences are those of ssh and
ipmitool, at the beginning of a line:
  ~.   leave            ~b   send a break           ~?   show these
  ~~   send one ~       (--escape changes the character)
Within ssh, write ~~. to reach this one.

A script (--script) waits for words and answers; docs/console.md has its format. It ends with exit
code 1 if what it waits for does not come. Values of its secrets come from the environment and are
masked in what is shown, in the log and in messages.

Examples:
  weir console /dev/ttyUSB0 --log dut1.log
  IPMI_PASSWORD=… weir console ipmi:admin@bmc1
  weir console vm.sock --script install.toml --log install.log
  weir console telnet:ts1:2003 --script login.toml --stay
  weir console unix:vm.sock --wait 30s          a machine that is about to be started";

/// `weir console`.
#[derive(Debug, Args)]
pub(crate) struct ConsoleArgs {
    /// The console: a device, a socket, tcp:HOST:PORT, telnet:HOST:PORT, ipmi:HOST or
    /// ipmi:USER@HOST.
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Append everything that the machine says to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Drive the machine by this script; several are run one after the other.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Vec<PathBuf>,
    /// Stay after the scripts, as without one.
    #[arg(long, requires = "script", conflicts_with = "json")]
    pub(crate) stay: bool,
    /// Wait for the console to be there, such as the socket of a machine that is being started.
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub(crate) wait: Option<Duration>,
    /// Speed of a serial device, bits per second [default: 115200].
    #[arg(long, value_name = "N")]
    pub(crate) speed: Option<u32>,
    /// The character that begins escape sequences, or `none`.
    #[arg(long, value_name = "C", default_value = "~", value_parser = escape)]
    pub(crate) escape: EscapeCharacter,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// The character that begins escape sequences, if one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EscapeCharacter(pub(crate) Option<u8>);

fn escape(text: &str) -> Result<EscapeCharacter, String> {
    match text.as_bytes() {
        _ if text == "none" => Ok(EscapeCharacter(None)),
        [byte] if byte.is_ascii_graphic() => Ok(EscapeCharacter(Some(*byte))),
        _ => Err("it must be one visible ASCII character, or `none`".to_owned()),
    }
}
