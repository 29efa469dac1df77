//! What can be read and set of an interface's receive side scaling, whatever is behind it.

use std::io;
use std::os::unix::fs::MetadataExt as _;

use weir_bpf::ethtool::rss::{self as ioctl, HashFields, HashFunction, HashInput};
use weir_bpf::ethtool::{self, EthtoolError};
use weir_bpf::rss::{Receiver, RssError, WireSettings};
use weir_wire::rss::{Fields, FlowKind, Key, Settings, Symmetry, Table};

const KERNEL_KEY: &str = "/proc/sys/net/core/netdev_rss_key";

/// What an interface says of its receive side scaling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The hash function; `None` if the driver does not name it.
    pub function: Option<HashFunction>,
    /// What is done to the fields before.
    pub input: HashInput,
    /// The key; empty if the driver does not show it.
    pub key: Vec<u8>,
    /// A receive queue for each bucket; empty if there is no table.
    pub table: Vec<u32>,
    /// What is hashed of each kind of flow, in the order of [`FlowKind::ALL`], as ethtool's bits;
    /// `None` where the driver does not say.
    pub fields: [Option<u64>; 4],
    /// Receive queues in use; `None` if the driver does not say.
    pub queue_count: Option<u32>,
    /// Numbers of further contexts: tables that rules of the card send packets to.
    pub contexts: Vec<u32>,
    /// Whether it is a wire of weir's and no card.
    pub is_wire: bool,
}

/// Why an interface's receive side scaling cannot be read, set or computed with.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// The driver has none.
    #[error(
        "interface `{interface}` has no receive side scaling: its driver answers no `ethtool -x`; \
         with one queue there is nothing to spread, and receive packet steering (rps_cpus) \
         spreads in software"
    )]
    None { interface: String },
    /// The driver or the kernel refuses.
    #[error("{source}{}", hint(source))]
    Ethtool {
        #[from]
        source: EthtoolError,
    },
    /// The wire cannot be read or set.
    #[error(transparent)]
    Wire(#[from] RssError),
    /// The interface or its namespace cannot be looked up.
    #[error("cannot look up interface `{interface}`: {source}")]
    Interface { interface: String, source: io::Error },
    /// What it says cannot be computed with here.
    #[error("interface `{interface}` {why}")]
    Unknown { interface: String, why: String },
}

fn hint(error: &EthtoolError) -> &'static str {
    match error.code() {
        Some(nix::libc::EPERM) => "; run as root, or with CAP_NET_ADMIN",
        Some(nix::libc::EOPNOTSUPP) => {
            "; its driver cannot (no `ethtool -X`, or not this of it): software can spread \
             instead, by rps_cpus or `weir rerss run`"
        }
        Some(nix::libc::EINVAL) => "; its driver takes neither this nor, maybe, any other value",
        Some(nix::libc::EBUSY) => "; something else holds it: see `ethtool -x` and `ethtool -l`",
        _ => "",
    }
}

/// Something that spreads the packets of an interface over its queues.
pub trait Card {
    /// Name of the interface.
    fn interface(&self) -> &str;

    /// What it says of itself.
    ///
    /// # Errors
    /// [`CardError`] if it does not answer.
    fn read(&self) -> Result<State, CardError>;

    /// Sets key and table, each if it is given, in one step.
    ///
    /// # Errors
    /// [`CardError`] if it refuses.
    fn set_hash(&self, key: Option<&[u8]>, table: Option<&[u32]>) -> Result<(), CardError>;

    /// Sets what is hashed of a kind of flow, as ethtool's bits.
    ///
    /// # Errors
    /// [`CardError`] if it refuses.
    fn set_fields(&self, kind: FlowKind, bits: u64) -> Result<(), CardError>;
}

/// What spreads the packets of an interface of the calling thread's network namespace.
///
/// # Errors
/// [`CardError::None`] if nothing does.
pub fn open(interface: &str) -> Result<Box<dyn Card>, CardError> {
    if ioctl::settings(interface)?.is_some() {
        return Ok(Box::new(Driver { interface: interface.to_owned() }));
    }
    if ethtool::driver(interface).is_ok_and(|driver| driver == "veth") {
        let receiver = receiver(interface)?;
        // Without privileges there is none to be seen.
        if let Ok(Some(settings)) = WireSettings::find(receiver) {
            return Ok(Box::new(Wired { interface: interface.to_owned(), settings }));
        }
    }
    Err(CardError::None { interface: interface.to_owned() })
}

/// An interface of the calling thread's network namespace, as a wire names it.
///
/// # Errors
/// [`CardError::Interface`] if there is none.
pub fn receiver(interface: &str) -> Result<Receiver, CardError> {
    let failed = |source| CardError::Interface { interface: interface.to_owned(), source };
    let netns = std::fs::metadata("/proc/thread-self/ns/net").map_err(failed)?.ino();
    let ifindex = nix::net::if_::if_nametoindex(interface).map_err(|e| failed(e.into()))?;
    Ok(Receiver { netns, ifindex })
}

/// The key that the kernel has drawn for all drivers that bring none of their own; some of them
/// hash by it and do not show it (igb). `None` where the kernel does not tell it: to who is not
/// root, outside of the initial network namespace, and before a driver has asked for it.
#[must_use]
fn kernel_key() -> Option<Key> {
    key_of(&std::fs::read_to_string(KERNEL_KEY).ok()?)
}

/// The key in the text of that file; zeros are none.
fn key_of(text: &str) -> Option<Key> {
    let key: Key = text.trim().parse().ok()?;
    key.bytes().iter().any(|byte| *byte != 0).then_some(key)
}

/// A card's driver.
struct Driver {
    interface: String,
}

impl Card for Driver {
    fn interface(&self) -> &str {
        &self.interface
    }

    fn read(&self) -> Result<State, CardError> {
        let none = || CardError::None { interface: self.interface.clone() };
        let ioctl::Rss { function, input, key, table } =
            ioctl::settings(&self.interface)?.ok_or_else(none)?;
        let mut fields = [None; 4];
        for kind in FlowKind::ALL {
            fields[kind as usize] = ioctl::field_bits(&self.interface, kind)?;
        }
        let channels = ethtool::channels(&self.interface)?;
        Ok(State {
            function,
            input,
            key,
            table,
            fields,
            queue_count: channels.map(|channels| channels.rx_count),
            contexts: ioctl::contexts(&self.interface)?,
            is_wire: false,
        })
    }

    fn set_hash(&self, key: Option<&[u8]>, table: Option<&[u32]>) -> Result<(), CardError> {
        Ok(ioctl::set(&self.interface, key, table)?)
    }

    fn set_fields(&self, kind: FlowKind, bits: u64) -> Result<(), CardError> {
        Ok(ioctl::set_field_bits(&self.interface, kind, bits)?)
    }
}

/// A veth that receives from a wire.
struct Wired {
    interface: String,
    settings: WireSettings,
}

impl Card for Wired {
    fn interface(&self) -> &str {
        &self.interface
    }

    fn read(&self) -> Result<State, CardError> {
        let settings = self.settings.read()?;
        let bits = |fields| Some(if fields == Fields::TwoTuple { 0x30 } else { 0xf0 });
        Ok(State {
            function: Some(HashFunction::Toeplitz),
            input: match settings.symmetry {
                Symmetry::None => HashInput::AsIs,
                Symmetry::Xor => HashInput::SymmetricXor,
                Symmetry::OrXor => HashInput::SymmetricOrXor,
            },
            key: settings.key.bytes().to_vec(),
            table: settings.table.queues().iter().map(|queue| u32::from(*queue)).collect(),
            fields: settings.fields.map(bits),
            queue_count: ethtool::channels(&self.interface)?.map(|channels| channels.rx_count),
            contexts: Vec::new(),
            is_wire: true,
        })
    }

    fn set_hash(&self, key: Option<&[u8]>, table: Option<&[u32]>) -> Result<(), CardError> {
        let mut settings = self.settings.read()?;
        if let Some(key) = key {
            settings.key = Key::new(key).map_err(|error| self.unknown(&error))?;
        }
        if let Some(table) = table {
            settings.table = table_of(table).map_err(|error| self.unknown(&error))?;
        }
        Ok(self.settings.write(&settings)?)
    }

    fn set_fields(&self, kind: FlowKind, bits: u64) -> Result<(), CardError> {
        let mut settings = self.settings.read()?;
        settings.fields[kind as usize] =
            fields_of(bits).ok_or_else(|| self.unknown(&"hashes addresses, or ports with them"))?;
        Ok(self.settings.write(&settings)?)
    }
}

impl Wired {
    fn unknown(&self, why: &dyn std::fmt::Display) -> CardError {
        CardError::Unknown { interface: self.interface.clone(), why: why.to_string() }
    }
}

fn table_of(queues: &[u32]) -> Result<Table, String> {
    let queues: Result<Vec<u16>, _> = queues.iter().map(|queue| u16::try_from(*queue)).collect();
    let queues = queues.map_err(|_| "has a queue above 65,535 in its table".to_owned())?;
    Table::new(queues).map_err(|error| error.to_string())
}

/// Fields by ethtool's bits; `None` where they are neither the 2-tuple nor the 4-tuple.
#[must_use]
pub fn fields_of(bits: u64) -> Option<Fields> {
    match HashFields::of(bits) {
        HashFields { src: true, dst: true, src_port: false, dst_port: false, others: false } => {
            Some(Fields::TwoTuple)
        }
        HashFields { src: true, dst: true, src_port: true, dst_port: true, others: false } => {
            Some(Fields::FourTuple)
        }
        _ => None,
    }
}

/// Ethtool's bits for fields.
#[must_use]
pub const fn bits_of(fields: Fields) -> u64 {
    match fields {
        Fields::TwoTuple => 0x30,
        Fields::FourTuple => 0xf0,
    }
}

/// What to do where a card shows too little.
const INSTEAD: &str = "give --key, --table and --fields";

impl State {
    /// The key of its hash, and what is done to the fields before.
    ///
    /// # Errors
    /// [`CardError::Unknown`] if the hash is not Toeplitz's, or the driver does not show its key.
    pub fn key_and_symmetry(&self, interface: &str) -> Result<(Key, Symmetry), CardError> {
        let unknown = |why: String| CardError::Unknown { interface: interface.to_owned(), why };
        match self.function {
            None | Some(HashFunction::Toeplitz) => {}
            Some(other) => {
                return Err(unknown(format!(
                    "hashes by {other:?}, which weir cannot compute: \
                     `ethtool -X {interface} hfunc toeplitz` changes that where the driver can"
                )));
            }
        }
        if self.key.is_empty() {
            return Err(unknown(format!("does not show its key: {INSTEAD}")));
        }
        let symmetry = match self.input {
            HashInput::AsIs => Symmetry::None,
            HashInput::SymmetricXor => Symmetry::Xor,
            HashInput::SymmetricOrXor => Symmetry::OrXor,
            HashInput::Other(number) => {
                return Err(unknown(format!(
                    "transforms the input of its hash in a way that weir does not know ({number})"
                )));
            }
        };
        let key = Key::new(&self.key).map_err(|error| unknown(error.to_string()))?;
        Ok((key, symmetry))
    }

    /// Takes the kernel's key where the driver shows none, as those do that are given it; whether
    /// it was taken. A probe shows if it is the right one.
    pub fn assume_kernel_key(&mut self) -> bool {
        let Some(key) = kernel_key().filter(|_| self.key.is_empty()) else { return false };
        self.key = key.bytes().to_vec();
        true
    }

    /// What can be computed with: the settings of an interface of that name.
    ///
    /// # Errors
    /// [`CardError::Unknown`] if the hash is not Toeplitz's, or the driver shows not all of it.
    /// A kind of flow whose fields are not shown, or odd, is only an error if it is the one that
    /// is asked for.
    pub fn settings(&self, interface: &str, kind: FlowKind) -> Result<Settings, CardError> {
        let unknown = |why: String| CardError::Unknown { interface: interface.to_owned(), why };
        let (key, symmetry) = self.key_and_symmetry(interface)?;
        if self.table.is_empty() {
            return Err(unknown(format!("has no indirection table: {INSTEAD}")));
        }
        let Some(bits) = self.fields[kind as usize] else {
            return Err(unknown(format!("does not say which fields it hashes: {INSTEAD}")));
        };
        if fields_of(bits).is_none() {
            return Err(unknown(format!(
                "hashes neither the addresses alone nor addresses and ports of {kind} ({:?}): set \
                 it with `ethtool -N {interface} rx-flow-hash {kind} sdfn`",
                HashFields::of(bits)
            )));
        }
        let fields = self.fields.map(|bits| bits.and_then(fields_of).unwrap_or(Fields::TwoTuple));
        Ok(Settings { key, table: table_of(&self.table).map_err(unknown)?, symmetry, fields })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_not_drawn_yet_is_none() {
        let text = |byte: &str| vec![byte; 52].join(":") + "\n";
        assert_eq!(key_of(&text("6d")).map(|key| key.bytes().len()), Some(52));
        assert_eq!(key_of(&text("00")), None);
        assert_eq!(key_of(""), None);
    }
}
