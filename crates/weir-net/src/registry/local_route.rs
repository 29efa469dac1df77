//! A network that a run makes local in a namespace, as it is on record.
//!
//! The namespace is named by its inode, as it may have no name. One that is gone has no routes.

use std::io;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::address::Prefix;
use crate::netlink::{Netlink, NetlinkError};
use crate::netns;

/// A network, and where it is local.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LocalRoute {
    netns_inode: u64,
    #[serde(with = "as_text")]
    network: Prefix,
}

impl LocalRoute {
    /// A network in the calling thread's namespace.
    pub(super) fn here(network: Prefix) -> io::Result<Self> {
        Ok(Self { netns_inode: netns::current_inode()?, network: network.network() })
    }

    /// Makes it local, in the calling thread's namespace; whether it was not so before.
    pub(super) fn add(&self) -> Result<bool, NetlinkError> {
        Netlink::open()?.add_local_route(self.network)
    }

    /// Takes that back, wherever it is.
    pub(super) fn remove(&self) -> Result<(), NetlinkError> {
        let is_here = || netns::current_inode().is_ok_and(|inode| inode == self.netns_inode);
        let remove = || Netlink::open()?.delete_local_route(self.network).map(drop);
        if is_here() {
            return remove();
        }
        let removed = Mutex::new(Ok(()));
        let visit = || {
            if is_here() {
                *removed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = remove();
            }
        };
        netns::for_all_others(visit).map_err(|source| NetlinkError::Open { source })?;
        removed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A prefix as `ADDRESS/LENGTH`.
mod as_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use super::Prefix;

    pub(super) fn serialize<S: Serializer>(
        network: &Prefix,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(network)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Prefix, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
