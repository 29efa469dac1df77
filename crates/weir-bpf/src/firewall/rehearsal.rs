//! Both stages on one frame, by a test run: the kernel runs programs of a device's kind for frames
//! that are sent alone. For tests; never attached anywhere.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use super::{AdoptError, Firewall, REHEARSAL, Verdict};

/// The program that does it, over the memory of a firewall.
#[derive(Debug)]
pub struct Rehearsal(OwnedFd);

impl Firewall {
    /// Loads that program.
    ///
    /// # Errors
    /// [`AdoptError`] if the kernel refuses it, or does not tell which memory the others use.
    pub fn rehearsal(&self) -> Result<Rehearsal, AdoptError> {
        self.load_late(REHEARSAL).map(Rehearsal)
    }
}

impl Rehearsal {
    /// As [`Firewall::run_ingress`]. What the second stage lets pass, and all that is sent at once,
    /// is a redirection; in one stage there is no difference.
    ///
    /// # Errors
    /// As [`Firewall::run_ingress`].
    pub fn run(&self, ifindex: u32, frame: &[u8]) -> io::Result<Verdict> {
        Verdict::of_run(self.0.as_fd(), ifindex, frame, 1)
    }
}
