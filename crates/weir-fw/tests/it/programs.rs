//! Loaded programs that tests take turns with: the verifier looks at them for tenths of a second,
//! and what a test needs is memory that nobody has used.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_bpf::firewall::layout::Sizes;
use weir_bpf::firewall::{Firewall, FirewallError, Options};

/// Programs that no test is using, with what was decided when they were loaded.
static IDLE: Mutex<Vec<(Options, Firewall)>> = Mutex::new(Vec::new());

fn idle() -> MutexGuard<'static, Vec<(Options, Firewall)>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Programs, and memory as after a load. Others get them when this is dropped.
pub(crate) struct Lent(Option<(Options, Firewall)>);

impl Lent {
    /// Takes programs that are idle, or loads some. `None` without privileges.
    pub(crate) fn new(options: Options, sizes: Sizes) -> Result<Option<Self>, FirewallError> {
        let found = {
            let mut idle = idle();
            let at = idle.iter().position(|(theirs, _)| *theirs == options);
            at.map(|at| idle.swap_remove(at).1)
        };
        let firewall = match found {
            Some(mut firewall) => firewall.renew(sizes, sizes.slots()).map(|()| firewall),
            None => Firewall::load(&options, sizes, sizes.slots()),
        };
        match firewall {
            Ok(firewall) => Ok(Some(Self(Some((options, firewall))))),
            Err(FirewallError::Load(error)) if error.is_permission() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Deref for Lent {
    type Target = Firewall;

    fn deref(&self) -> &Firewall {
        let (_, firewall) = self.0.as_ref().expect("it goes back only when it is dropped");
        firewall
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        idle().extend(self.0.take());
    }
}

/// Number of CPUs that the kernel has room for.
pub(crate) fn possible_cpu_count() -> u32 {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<u32>().ok());
    last.map_or(1, |last| last + 1)
}
