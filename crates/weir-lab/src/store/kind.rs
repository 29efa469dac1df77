//! What a store was made for, by the file that says what is asked.

use std::path::Path;

use super::StoreError;

/// The file that made a directory a store of searches before all stores had one layout.
const EARLIER_SEARCH: &str = "search.toml";

/// What a store was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The whole matrix.
    Campaign,
    /// The first bad one of a list.
    Bisection,
    /// The rates that are still forwarded.
    Search,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Campaign, Self::Bisection, Self::Search];

    /// The file that says what is asked; a campaign's specification says it all.
    #[must_use]
    pub const fn file(self) -> Option<&'static str> {
        match self {
            Self::Campaign => None,
            Self::Bisection => Some("bisect.json"),
            Self::Search => Some("search.json"),
        }
    }

    /// With its article, for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Campaign => "a campaign",
            Self::Bisection => "a bisection",
            Self::Search => "a rate search",
        }
    }

    /// That of the store in a directory.
    pub(super) fn of(root: &Path) -> Self {
        let is_its = |kind: &Self| kind.file().is_some_and(|file| root.join(file).exists());
        Self::ALL.into_iter().find(is_its).unwrap_or(Self::Campaign)
    }
}

/// Refuses what an earlier version wrote in a layout of its own.
pub(super) fn refuse_earlier(root: &Path) -> Result<(), StoreError> {
    match root.join(EARLIER_SEARCH).is_file() {
        true => Err(StoreError::EarlierSearch { path: root.to_owned() }),
        false => Ok(()),
    }
}
