//! Which series of a collection are meant.

/// A pattern for the names of series; `*` matches slashes as well, which an archive's names have.
#[derive(Debug, Clone)]
pub struct SeriesPattern(globset::GlobMatcher);

/// A pattern that is none.
#[derive(Debug, thiserror::Error)]
#[error("--series `{pattern}` is not a pattern: {reason}")]
pub struct BadPattern {
    pattern: String,
    reason: String,
}

impl SeriesPattern {
    /// Reads a pattern: `*`, `?`, `[a-z]`, `{a,b}`.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(pattern: &str) -> Result<Self, BadPattern> {
        let glob = globset::Glob::new(pattern).map_err(|error| BadPattern {
            pattern: pattern.to_owned(),
            reason: error.kind().to_string(),
        })?;
        Ok(Self(glob.compile_matcher()))
    }

    /// Whether a series of that name is meant.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

#[cfg(test)]
mod tests {
    use super::SeriesPattern;

    #[test]
    fn a_star_reaches_over_slashes() {
        let pattern = SeriesPattern::new("*pf*").unwrap();
        assert!(pattern.matches("pf-sessions/results/pf-stateful.64"));
        assert!(!pattern.matches("forwarding.inet4"));
        let error = SeriesPattern::new("[").unwrap_err().to_string();
        assert!(error.starts_with("--series `[` is not a pattern: "), "{error}");
    }
}
