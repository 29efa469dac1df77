//! The arguments of what weir has other machines do.

use std::path::PathBuf;

use clap::Args;

/// How other machines are reached, and weir there.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RemoteArgs {
    /// Configuration file for ssh(1) [default: your own].
    #[arg(long, value_name = "FILE")]
    pub(crate) ssh_config: Option<PathBuf>,
    /// weir on other machines [default: weir].
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<String>,
}

impl RemoteArgs {
    /// Whether anything of it was given, which makes sense only with another machine.
    pub(crate) fn is_given(&self) -> bool {
        self.ssh_config.is_some() || self.program.is_some()
    }
}
