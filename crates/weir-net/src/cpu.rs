//! CPU lists as the kernel writes them (`0-1,3`), and the pinning of threads to CPUs.
//!
//! It never pins anything that it was not told to.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// CPU numbers go up to this (the size of the C library's `cpu_set_t`).
pub const CPU_MAX: usize = CpuSet::count() - 1;

/// A set of CPU numbers, not empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuList(BTreeSet<usize>);

/// Why a text is no [`CpuList`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// Nothing between two commas, or nothing at all.
    #[error("CPU list `{text}` has an empty part; write it like 0-1,3")]
    Empty {
        /// The whole text.
        text: String,
    },
    /// A part is neither a number nor a range.
    #[error("`{part}` in CPU list `{text}` is neither a CPU number nor a range; write 0-1,3")]
    Syntax {
        /// The part between two commas.
        part: String,
        /// The whole text.
        text: String,
    },
    /// A range runs backwards.
    #[error("range `{part}` in CPU list `{text}` runs backwards")]
    Backwards {
        /// The part between two commas.
        part: String,
        /// The whole text.
        text: String,
    },
    /// A number is too large.
    #[error("CPU {cpu} in CPU list `{text}` is too large: at most {CPU_MAX}")]
    TooLarge {
        /// The number.
        cpu: u64,
        /// The whole text.
        text: String,
    },
}

/// Why the CPUs could not be asked for, or a thread not be pinned.
#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    /// The kernel's list could not be read.
    #[error("cannot read the list of CPUs that are online: {source}")]
    Online {
        /// The operating system's answer.
        source: io::Error,
    },
    /// No CPU is left, or the kernel's list was not understood.
    #[error("cannot understand which CPUs are online: {reason}")]
    NotUnderstood {
        /// What was found.
        reason: String,
    },
    /// The kernel refused to pin.
    #[error("cannot pin {what} to CPU {cpus}: {source}{}", pin_advice(source))]
    Pin {
        /// The thread.
        what: String,
        /// Where to.
        cpus: CpuList,
        /// The operating system's answer.
        source: io::Error,
    },
}

fn pin_advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(code) if code == nix::Error::EINVAL as i32 => {
            "; none of these CPUs is online and allowed for this process"
        }
        Some(code) if code == nix::Error::EPERM as i32 => "; run as root",
        _ => "",
    }
}

impl CpuList {
    /// A list of these CPUs; `None` if there are none, or one is above [`CPU_MAX`].
    #[must_use]
    pub fn new(cpus: impl IntoIterator<Item = usize>) -> Option<Self> {
        let cpus: BTreeSet<usize> = cpus.into_iter().collect();
        let last = *cpus.last()?;
        (last <= CPU_MAX).then_some(Self(cpus))
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        self.0.iter().copied()
    }

    /// How many CPUs; at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The lowest CPU.
    #[must_use]
    pub fn first(&self) -> usize {
        self.0.first().copied().unwrap_or_default()
    }

    /// Whether the CPU is in the list.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.contains(&cpu)
    }

    /// Whether the two lists share a CPU.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    /// The CPUs in both lists; `None` if there are none.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        Self::new(self.0.intersection(&other.0).copied())
    }

    /// The CPUs in this list that are not in the other; `None` if there are none.
    #[must_use]
    pub fn without(&self, other: &Self) -> Option<Self> {
        Self::new(self.0.difference(&other.0).copied())
    }

    fn to_set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        for cpu in self.iter() {
            // Cannot fail: no number is above CPU_MAX.
            let _ = set.set(cpu);
        }
        set
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let mut cpus = BTreeSet::new();
        for part in text.split(',').map(str::trim) {
            let whole = || text.to_owned();
            if part.is_empty() {
                return Err(CpuListError::Empty { text: whole() });
            }
            let syntax = || CpuListError::Syntax { part: part.to_owned(), text: whole() };
            let number = |digits: &str| {
                if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(syntax());
                }
                let cpu: u64 = digits.parse().map_err(|_| syntax())?;
                usize::try_from(cpu)
                    .ok()
                    .filter(|cpu| *cpu <= CPU_MAX)
                    .ok_or(CpuListError::TooLarge { cpu, text: whole() })
            };
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(CpuListError::Backwards { part: part.to_owned(), text: whole() });
            }
            cpus.extend(first..=last);
        }
        Self::new(cpus).ok_or(CpuListError::Empty { text: text.to_owned() })
    }
}

/// The CPUs that are online and that this thread may run on.
///
/// # Errors
///
/// If the kernel does not say, or none is left.
pub fn online() -> Result<CpuList, CpuError> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")
        .map_err(|source| CpuError::Online { source })?;
    let online: CpuList = text
        .trim()
        .parse()
        .map_err(|error: CpuListError| CpuError::NotUnderstood { reason: error.to_string() })?;
    let allowed = affinity(0).map_err(|source| CpuError::Online { source })?;
    let both = allowed.and_then(|allowed| online.intersection(&allowed));
    both.ok_or_else(|| CpuError::NotUnderstood {
        reason: format!("this process may use none of CPU {online}"),
    })
}

/// The first two of [`online`], or the only one twice.
///
/// # Errors
///
/// As [`online`].
pub fn first_two() -> Result<[usize; 2], CpuError> {
    let online = online()?;
    let first = online.first();
    Ok([first, online.iter().nth(1).unwrap_or(first)])
}

/// The CPUs that share a physical core with this one, itself among them (hardware threads, SMT);
/// `None` where the kernel does not say.
#[must_use]
pub fn thread_siblings(cpu: usize) -> Option<CpuList> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Pins the calling thread, and what it starts afterwards, to these CPUs.
///
/// # Errors
///
/// If none of the CPUs is online and allowed.
pub fn pin_current_thread(cpus: &CpuList) -> Result<(), CpuError> {
    pin_pid(0, "this thread", cpus)
}

/// Pins one thread of the system, by its thread id.
pub(crate) fn pin_pid(pid: i32, what: &str, cpus: &CpuList) -> Result<(), CpuError> {
    sched_setaffinity(Pid::from_raw(pid), &cpus.to_set()).map_err(|error| CpuError::Pin {
        what: what.to_owned(),
        cpus: cpus.clone(),
        source: error.into(),
    })
}

/// The CPUs a thread may run on; 0 stands for the calling thread.
///
/// # Errors
///
/// If there is no such thread.
pub fn affinity(pid: i32) -> io::Result<Option<CpuList>> {
    let set = sched_getaffinity(Pid::from_raw(pid))?;
    Ok(CpuList::new((0..=CPU_MAX).filter(|cpu| set.is_set(*cpu).unwrap_or(false))))
}

#[cfg(test)]
mod tests;
