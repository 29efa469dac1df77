//! What beds of benchmarks write down before they make namespaces, so that the next lab cleans up
//! what they leave.

use weir_net::registry::{Record, Registry, RegistryError};

/// A record of namespaces, closed when dropped. It is to go behind them: if one is still there, the
/// record stays.
#[derive(Debug)]
pub(crate) struct Closing(pub(crate) Option<Record>);

impl Closing {
    /// Writes names of namespaces down.
    pub(crate) fn record(names: &[String]) -> Result<Self, RegistryError> {
        Ok(Self(Some(Registry::default().record(names)?)))
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(record) = self.0.take() {
            let _ = record.close();
        }
    }
}
