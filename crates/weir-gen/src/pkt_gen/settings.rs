//! The options as values: what was given, each argument checked by itself.
//!
//! As with `getopt(3)`, the last of several counts, except for `-l`, which pkt-gen takes twice.

use weir_wire::mac::MacAddr;

use super::given::Given;
use super::options::{self, Decision};
use super::{Function, Interface, PktGenError};
use weir_wire::units::parse_count;

/// pkt-gen's smallest frame, bytes.
const SIZE_BYTES_MIN: u64 = 16;
/// Shortest time between reports, ms.
const REPORT_MS_MIN: u64 = 10;
/// Longest durations that are read: a year, in seconds and milliseconds.
const YEAR_S: u64 = 365 * 24 * 3600;
/// Most slots of a packet.
const SLOT_COUNT_MAX: u64 = 63;

/// Bits of `-o`.
const BITS_WITHOUT_EFFECT: u64 = 1 | 2 | 4 | 8 | 16 | 32 | 4096;
const BIT_DUMP: u64 = 64;
const BIT_RUBBISH: u64 = 256;
const BIT_RANDOM_SRC: u64 = 512;
const BIT_RANDOM_DST: u64 = 1024;
const BIT_AVERAGES: u64 = 2048;

/// What was given.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) help: bool,
    pub(super) interface: Option<Interface>,
    pub(super) function: Function,
    pub(super) packet_count: u64,
    pub(super) sizes_bytes: Vec<u16>,
    pub(super) src: Option<String>,
    pub(super) dst: Option<String>,
    pub(super) src_mac: Option<Mac>,
    pub(super) dst_mac: Option<Mac>,
    /// `-4` or `-6`: whether it is the latter.
    pub(super) ipv6: Option<bool>,
    pub(super) random_src: bool,
    pub(super) random_dst: bool,
    pub(super) rate_pps: u64,
    pub(super) burst: Option<u32>,
    pub(super) threads: Option<u16>,
    pub(super) cpu: Option<u32>,
    pub(super) cpu_count: Option<u32>,
    pub(super) wait_s: Option<u64>,
    pub(super) report_ms: Option<u64>,
    pub(super) silence: bool,
    pub(super) plain: bool,
    pub(super) averages: bool,
    pub(super) framing: bool,
    pub(super) verbose: bool,
    /// Every letter that was given, once, in order.
    pub(super) letters: Vec<char>,
    /// What is to be told.
    pub(super) notes: Vec<String>,
}

/// A MAC address and how it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mac {
    pub(super) addr: MacAddr,
    pub(super) text: String,
}

impl Settings {
    /// Reads the options one by one.
    pub(super) fn read(given: Vec<Given>) -> Result<Self, PktGenError> {
        let mut settings = Self::default();
        for Given { letter, value } in given {
            if !settings.letters.contains(&letter) {
                settings.letters.push(letter);
            }
            settings.take(letter, &value)?;
        }
        Ok(settings)
    }

    fn take(&mut self, letter: char, text: &str) -> Result<(), PktGenError> {
        match letter {
            'h' => self.help = true,
            'i' => self.interface = Some(Interface::parse(text)?),
            'f' => self.function = function(text)?,
            'n' => self.packet_count = self.count(letter, text)?,
            'R' => self.rate_pps = self.count(letter, text)?,
            's' => self.src = Some(text.to_owned()),
            'd' => self.dst = Some(text.to_owned()),
            'S' => self.src_mac = Some(mac(letter, text)?),
            'D' => self.dst_mac = Some(mac(letter, text)?),
            '4' => self.ipv6 = Some(false),
            '6' => self.ipv6 = Some(true),
            'z' => self.random_src = true,
            'Z' => self.random_dst = true,
            'N' => self.plain = true,
            'A' => self.averages = true,
            'B' => self.framing = true,
            'W' => self.silence = true,
            'v' => self.verbose = true,
            'U' | 'I' | 'C' => self.no_effect(letter),
            'o' => self.bits(text)?,
            _ => self.take_number(letter, text)?,
        }
        Ok(())
    }

    /// The options whose argument is a plain number, and those that are refused.
    fn take_number(&mut self, letter: char, text: &str) -> Result<(), PktGenError> {
        let number = |first, last| within(letter, text, first, last);
        match letter {
            'l' => {
                if self.sizes_bytes.len() == 2 {
                    return Err(PktGenError::TooOften { letter, count: 2 });
                }
                self.sizes_bytes.push(small(number(SIZE_BYTES_MIN, u16::MAX.into())?));
            }
            'b' => self.burst = Some(small(number(1, 4096)?)),
            'p' => self.threads = Some(small(number(1, 256)?)),
            'a' => self.cpu = Some(small(number(0, u16::MAX.into())?)),
            'c' => self.cpu_count = Some(small(number(0, u16::MAX.into())?)),
            'w' => self.wait_s = Some(number(0, YEAR_S)?),
            'T' => self.report_ms = Some(number(REPORT_MS_MIN, YEAR_S * 1000)?),
            'F' => {
                number(1, SLOT_COUNT_MAX)?;
                self.no_effect(letter);
            }
            'M' => {
                number(1, u16::MAX.into())?;
                self.no_effect(letter);
            }
            'H' if text == "0" => {}
            'H' => return Err(refused(letter, &format!("-H {text}"))),
            _ => return Err(refused(letter, &format!("-{letter}"))),
        }
        Ok(())
    }

    /// `-o`: bits, several of which have options of their own.
    fn bits(&mut self, text: &str) -> Result<(), PktGenError> {
        let bits = within('o', text, 0, 8191)?;
        if bits & BIT_DUMP != 0 {
            return Err(refused('X', &format!("-o {text}, which has 64 (-X) in it,")));
        }
        if bits & BIT_RUBBISH != 0 {
            return Err(refused('r', &format!("-o {text}, which has 256 (-r) in it,")));
        }
        let known = BITS_WITHOUT_EFFECT | BIT_RANDOM_SRC | BIT_RANDOM_DST | BIT_AVERAGES;
        if bits & !known != 0 {
            let reason = format!("pkt-gen has no option bit {}", bits & !known);
            return Err(PktGenError::value('o', text, &reason));
        }
        self.random_src |= bits & BIT_RANDOM_SRC != 0;
        self.random_dst |= bits & BIT_RANDOM_DST != 0;
        self.averages |= bits & BIT_AVERAGES != 0;
        let idle = bits & BITS_WITHOUT_EFFECT;
        if idle != 0 {
            self.note(format!(
                "-o {text}: the bits {idle} change nothing: every packet is written whole, with \
                 correct checksums and the time of sending"
            ));
        }
        Ok(())
    }

    /// A count, with the suffixes that weir takes everywhere.
    fn count(&mut self, letter: char, text: &str) -> Result<u64, PktGenError> {
        let count = parse_count(text).map_err(|error| PktGenError::value(letter, text, &error))?;
        if text.bytes().any(|byte| !byte.is_ascii_digit()) {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            self.note(format!(
                "-{letter} {text}: is {count}; pkt-gen reads the first digits only, {}",
                &text[..digits]
            ));
        }
        Ok(count)
    }

    /// An option that changes nothing wherever it counts at all: the table says why.
    fn no_effect(&mut self, letter: char) {
        if let Some(Decision::NoEffect(reason)) = options::option(letter).map(|o| o.decision) {
            self.note(format!("-{letter} changes nothing: {reason}"));
        }
    }

    /// Adds a note, once.
    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

fn function(text: &str) -> Result<Function, PktGenError> {
    if let Some(function) = Function::ALL.into_iter().find(|known| known.to_string() == text) {
        return Ok(function);
    }
    let reason = match text {
        "txseq" | "rxseq" => {
            "every frame that tx sends carries a sequence number: use -f tx, and `weir sink` to \
             follow it"
        }
        _ => "the functions are rx, tx, ping and pong",
    };
    Err(PktGenError::value('f', text, reason))
}

/// A plain decimal number between two others.
fn within(letter: char, text: &str, first: u64, last: u64) -> Result<u64, PktGenError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { text.parse().ok() } else { None };
    number.filter(|number| (first..=last).contains(number)).ok_or_else(|| {
        PktGenError::value(letter, text, &format!("write a number from {first} to {last}"))
    })
}

/// A number whose bounds were checked.
fn small<T: TryFrom<u64> + Default>(number: u64) -> T {
    T::try_from(number).unwrap_or_default()
}

/// Six octets of one or two digits, as `ether_aton(3)` reads them.
fn mac(letter: char, text: &str) -> Result<Mac, PktGenError> {
    let pad = |octet: &str| if octet.len() == 1 { format!("0{octet}") } else { octet.to_owned() };
    let padded = text.split(':').map(pad).collect::<Vec<_>>().join(":");
    let addr = padded.parse().map_err(|_| {
        PktGenError::value(
            letter,
            text,
            "write six octets such as `02:00:00:00:00:01`, not a range",
        )
    })?;
    Ok(Mac { addr, text: text.to_owned() })
}

/// A refusal, by the reason in the table.
fn refused(letter: char, shown: &str) -> PktGenError {
    let reason = match options::option(letter).map(|option| option.decision) {
        Some(Decision::Refused(reason)) => reason,
        _ => "it is not built",
    };
    PktGenError::Refused { option: shown.to_owned(), reason: reason.to_owned() }
}
