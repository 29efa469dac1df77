//! A tap whose queues are those of a card with receive side scaling: for programs that read frames
//! themselves, and for tests of them, without such a card.
//!
//! What the kernel sends by the tap is read here, each packet from the queue that its hash has in
//! the table. It is gone when its last queue is closed. Nothing is configured: the device is down,
//! and has no address.

use std::fs::File;

use weir_bpf::steer::{SteerError, TapSteering};
use weir_wire::rss::Settings;

/// Most queues of a tap (`MAX_TAP_QUEUES` of the kernel).
const QUEUE_COUNT_MAX: usize = 256;

/// Why there is no tap.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The kernel refuses.
    #[error(transparent)]
    Steer(#[from] SteerError),
    /// The settings cannot be written.
    #[error(transparent)]
    Map(#[from] weir_bpf::map::MapError),
    /// The table names queues that there are not, or would need too many.
    #[error("a table over {asked} queues, and the tap `{name}` has {has}")]
    Queues { name: String, asked: usize, has: usize },
}

/// A tap: its queues, and what spreads packets over them.
#[derive(Debug)]
pub struct Tap {
    name: String,
    queues: Vec<File>,
    steering: TapSteering,
}

impl Tap {
    /// Opens a tap of the calling thread's network namespace with as many queues as the table of
    /// `settings` names. A read takes a whole frame, and does not wait.
    ///
    /// # Errors
    /// [`TapError`] without `CAP_NET_ADMIN` and `CAP_BPF`, if something else has the name, or with
    /// more than 256 queues, the kernel's limit.
    pub fn open(name: &str, settings: &Settings) -> Result<Self, TapError> {
        let count = settings.table.queue_count();
        if count > QUEUE_COUNT_MAX {
            let name = name.to_owned();
            return Err(TapError::Queues { name, asked: count, has: QUEUE_COUNT_MAX });
        }
        let mut queues = vec![TapSteering::open_queue(name)?];
        let steering = TapSteering::attach(name, &queues[0], settings)?;
        for _ in 1..count {
            queues.push(TapSteering::open_queue(name)?);
        }
        Ok(Self { name: name.to_owned(), queues, steering })
    }

    /// Its queues, in their order.
    #[must_use]
    pub fn queues(&self) -> &[File] {
        &self.queues
    }

    /// Changes key, fields and table; packets that are on their way may go by parts of either.
    ///
    /// # Errors
    /// [`TapError`] if the table names queues that it does not have, or the kernel refuses.
    pub fn set(&self, settings: &Settings) -> Result<(), TapError> {
        let (asked, has) = (settings.table.queue_count(), self.queues.len());
        if asked > has {
            return Err(TapError::Queues { name: self.name.clone(), asked, has });
        }
        Ok(self.steering.set(settings)?)
    }
}
