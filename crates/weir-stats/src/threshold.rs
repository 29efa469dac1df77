//! Numbers that decide, with a name for each, so that code, reports and documents share one list.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A number that decides about a verdict or a warning, also as an earlier version stored it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    pub name: Cow<'static, str>,
    /// Value, as a share: 0.001 is 0.1 %.
    pub value: f64,
    /// Of what it is a share.
    pub unit: Cow<'static, str>,
    /// What happens at it.
    pub meaning: Cow<'static, str>,
}

impl Threshold {
    /// One of this version.
    #[must_use]
    pub const fn new(
        name: &'static str,
        value: f64,
        unit: &'static str,
        meaning: &'static str,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            value,
            unit: Cow::Borrowed(unit),
            meaning: Cow::Borrowed(meaning),
        }
    }
}
