//! Every limit of the language, in one place. What meets one is refused with an error that names
//! it; nothing here is silently cut.

/// Limits of one compilation. [`Limits::default`] is what the command line uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rules after expansion, over all rulesets and anchors.
    pub rule_count_max: usize,
    /// Depth of nested lists, parentheses and anchors together.
    pub nesting_depth_max: usize,
    /// Depth of `include` below the first file.
    pub include_depth_max: usize,
    /// Files read by one compilation, table files not counted.
    pub file_count_max: usize,
    /// Bytes of all files read, table files included.
    pub source_size_bytes_max: usize,
    /// Bytes of one quoted string or word, as in pf's lexer.
    pub word_size_bytes_max: usize,
    /// Bytes that macros may expand to, over the whole file: definitions that double each other
    /// would grow without end.
    pub macro_size_bytes_max: usize,
    /// Entries of all tables.
    pub table_entry_count_max: usize,
    /// Diagnostics kept; what comes after is counted, not kept.
    pub diagnostic_count_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            rule_count_max: 1_000_000,
            nesting_depth_max: 64,
            include_depth_max: 16,
            file_count_max: 1024,
            source_size_bytes_max: 1 << 30,
            word_size_bytes_max: 8096,
            macro_size_bytes_max: 64 << 20,
            table_entry_count_max: 16_000_000,
            diagnostic_count_max: 1000,
        }
    }
}

/// Longest name of an interface, without the terminating zero (IFNAMSIZ is 16).
pub(crate) const INTERFACE_NAME_SIZE_MAX: usize = 15;
/// Longest name of a table (PF_TABLE_NAME_SIZE is 32).
pub(crate) const TABLE_NAME_SIZE_MAX: usize = 31;
/// Longest label (PF_RULE_LABEL_SIZE is 64).
pub(crate) const LABEL_SIZE_MAX: usize = 63;
/// Labels of one rule (PF_RULE_MAX_LABEL_COUNT).
pub(crate) const LABEL_COUNT_MAX: usize = 5;
/// Longest tag (PF_TAG_NAME_SIZE is 64).
pub(crate) const TAG_SIZE_MAX: usize = 63;
/// Longest path of an anchor (MAXPATHLEN is 1024).
pub const ANCHOR_SIZE_MAX: usize = 1023;
/// Highest limit of a rate (PF_THRESHOLD_MAX): pf counts in thousandths.
pub(crate) const RATE_MAX: u32 = u32::MAX / 1000;
