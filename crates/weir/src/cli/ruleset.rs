//! How a pf.conf is read: its dialect, macros and facts, which several commands take.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use weir_rules::Dialect;

use super::JsonFlag;

/// How a file is read.
#[derive(Debug, Clone, Args)]
pub(crate) struct LanguageArgs {
    /// The dialect of the file [default: recognised from its words].
    #[arg(long, value_name = "DIALECT", value_enum)]
    pub(crate) dialect: Option<DialectName>,
    /// Define a macro; a definition in the file does not override it.
    #[arg(short = 'D', value_name = "NAME=VALUE", value_parser = parse_macro)]
    pub(crate) macros: Vec<(String, String)>,
    /// Interfaces, groups, addresses, hosts, services and users, instead of this machine's.
    #[arg(long, value_name = "FILE")]
    pub(crate) facts: Option<PathBuf>,
    /// Ask the system's resolver for host names that are not known otherwise.
    #[arg(long)]
    pub(crate) resolve: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DialectName {
    /// FreeBSD's, with nat, rdr, scrub and altq.
    Freebsd,
    /// OpenBSD's, with nat-to, rdr-to and queues.
    Openbsd,
}

impl From<DialectName> for Dialect {
    fn from(name: DialectName) -> Self {
        match name {
            DialectName::Freebsd => Self::FreeBsd,
            DialectName::Openbsd => Self::OpenBsd,
        }
    }
}

/// `NAME=VALUE`, with a name as pf.conf has them.
pub(crate) fn parse_macro(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        return Err(format!(
            "`{name}` is not a macro name: letters, digits and underscores, not starting with a \
             digit"
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}
