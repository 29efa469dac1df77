//! Settings that a DUT needs and that no namespace has for itself: the size of the connection
//! tracker's table (nf_conntrack-sysctl.rst in the kernel's tree).
//!
//! They are changed for as long as the testbed lives. Their values of before are on record, so that
//! a later start puts back what a killed process has left.

use weir_net::registry::{Record, Registry};

use crate::model::NetnsSpec;
use crate::testbed::TestbedError;

/// The setting for the number of connections, and for that of the hash's buckets.
const CONNTRACK_MAX: &str = "net.netfilter.nf_conntrack_max";
const CONNTRACK_BUCKETS: &str = "net.netfilter.nf_conntrack_buckets";

/// What was changed, until it is dropped.
#[derive(Debug)]
pub(super) struct HostWide(Option<Record>);

impl HostWide {
    /// Changes what the specification asks for. The hash gets at least as many buckets as there
    /// may be connections, each of which is in it twice, once for each direction.
    pub(super) fn set(spec: &NetnsSpec) -> Result<Self, TestbedError> {
        let Some(connections) = spec.conntrack_max else { return Ok(Self(None)) };
        let record = Registry::default().record::<&str>(&[]).map_err(TestbedError::new)?;
        let mut changed = Self(Some(record));
        changed.change(CONNTRACK_BUCKETS, connections.next_power_of_two())?;
        changed.change(CONNTRACK_MAX, connections)?;
        Ok(changed)
    }

    fn change(&mut self, setting: &str, value: u64) -> Result<(), TestbedError> {
        let result = self.0.as_mut().map(|record| record.change_host(setting, &value.to_string()));
        result.unwrap_or(Ok(())).map_err(|e| TestbedError::new(format!("conntrack_max: {e}")))
    }
}

impl Drop for HostWide {
    fn drop(&mut self) {
        // What cannot be put back stays on record, for the next start.
        drop(self.0.take().map(Record::close));
    }
}
