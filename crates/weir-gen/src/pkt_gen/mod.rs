//! The front end for pkt-gen's users: netmap's command line and output lines.
//!
//! [`parse`] reads pkt-gen's options into a [`Plan`]; [`mod@print`] and [`rtt`] make its lines.
//! Nothing here sends, receives, reads a clock or prints. What every option became is in one table,
//! [`options`]; where pkt-gen has a fault, the plan does what was meant, and has a [`Plan::notes`]
//! line that says so.
//!
//! The reference is netmap's `apps/pkt-gen/pkt-gen.c` and its manual page; the formats are those of
//! its current version, whose reports have bits per second as their eighth field.

mod ends;
mod error;
mod given;
mod interface;
pub mod lines;
pub mod options;
mod plan;
pub mod print;
pub mod rtt;
mod settings;
mod usage;

pub use error::PktGenError;
pub use interface::Interface;
pub use plan::{Host, Packets, Parsed, Placement, Plan, parse};
pub use usage::{options_table, usage};

use std::fmt;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Function {
    /// Count what arrives.
    #[default]
    Rx,
    /// Send.
    Tx,
    /// Send, and measure how long replies take.
    Ping,
    /// Reply.
    Pong,
}

impl Function {
    /// All functions.
    pub const ALL: [Self; 4] = [Self::Rx, Self::Tx, Self::Ping, Self::Pong];

    /// Whether it makes packets.
    #[must_use]
    pub const fn sends(self) -> bool {
        matches!(self, Self::Tx | Self::Ping)
    }
}

/// As on the command line.
impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rx => "rx",
            Self::Tx => "tx",
            Self::Ping => "ping",
            Self::Pong => "pong",
        })
    }
}
