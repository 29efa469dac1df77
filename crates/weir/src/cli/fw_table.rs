//! The arguments of `weir fw table`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(crate) const TABLE_HELP: &str = "\
A typed table has keys of one type, and values beside them:

  addr     addresses and networks; the longest network that covers an address is its entry
  iface    names of interfaces
  number   numbers of 32 bits
  flow     source address, protocol, source port, destination address and port, between commas;
           flow:src-ip,dst-port is a flow of these parts alone

  tag NAME          a tag for packets, which rules give by `tag value`
  nexthop ADDRESS   the router to send packets to, or ADDRESS%IF; `route-to <table>` uses it
  skipto LABEL, mark NUMBER, dscp 0-63
                    are kept and looked up; no rule uses them

An entry is KEY and then values, such as 10.0.0.0/8 tag office nexthop 192.0.2.1. A file has one on
each line; # begins a comment. Whatever a command changes, it changes as a whole, in one step for
packets, or, if anything is wrong with it, not at all. Tables stay over weir pfctl -f and a restart
of the daemon, until they are destroyed or the firewall is stopped. Exit code 1 if a key that is
looked up has no entry. docs/fw-tables.md is the guide.

Examples:
  sudo weir fw table create hops --type addr --values nexthop,tag --limit 1000000
  sudo weir fw table add hops 10.0.0.0/8 nexthop 192.0.2.1 tag office
  sudo weir fw table add hops -f hops.txt
  sudo weir fw table lookup hops 10.1.2.3
  sudo weir fw table list hops --json | jq '.entries[].key'
  sudo weir fw table swap hops hops-new";

/// `weir fw table`.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// The set of tables, 0 to 31; rules name those of set 0.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, global = true)]
    pub(crate) set: u8,
    /// Print the result as JSON on standard output; text for people goes to standard error.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: TableCommand,
}

/// What is done.
#[derive(Debug, Subcommand)]
pub(crate) enum TableCommand {
    /// Make tables.
    #[command(after_help = "Example: sudo weir fw table create hops --values nexthop --limit 1000")]
    Create {
        /// Their names, of at most 63 bytes.
        #[arg(value_name = "NAME", required_unless_present = "file")]
        names: Vec<String>,
        /// The type of the keys: addr, iface, number, flow or flow:PART,…
        #[arg(long = "type", value_name = "TYPE", default_value = "addr")]
        key: String,
        /// Which values entries may have, between commas: tag, skipto, mark, dscp, nexthop.
        #[arg(long, value_name = "VALUES", default_value = "")]
        values: String,
        /// How many entries each may have [default: as many as `set limit table-entries` leaves].
        #[arg(long, value_name = "COUNT")]
        limit: Option<u64>,
        /// A file with more names, one on each line; `-` is standard input.
        #[arg(short = 'f', long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Remove tables that no rule uses.
    #[command(after_help = "Example: sudo weir fw table destroy hops spare")]
    Destroy {
        /// Their names.
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
    /// Add an entry, or those of a file; an entry that is there gets the other values.
    #[command(after_help = "Example: sudo weir fw table add hops 10.0.0.0/8 nexthop 192.0.2.1")]
    Add(EntryArgs),
    /// Remove the entry of a key, or those of a file, all of which must be there.
    #[command(after_help = "Example: sudo weir fw table delete hops 10.0.0.0/8")]
    Delete(EntryArgs),
    /// Give a table the entries of a file, and no others.
    #[command(after_help = "Example: sudo weir fw table replace hops -f hops.txt")]
    Replace {
        /// The table.
        #[arg(value_name = "NAME")]
        name: String,
        /// The file; `-` is standard input.
        #[arg(short = 'f', long, value_name = "FILE", required = true)]
        file: PathBuf,
    },
    /// Look keys up: of networks the longest that covers the key.
    #[command(after_help = "Example: sudo weir fw table lookup hops 10.1.2.3")]
    Lookup {
        /// The table.
        #[arg(value_name = "NAME")]
        name: String,
        /// What is looked for; of a table of networks an address, too.
        #[arg(value_name = "KEY", required = true)]
        keys: Vec<String>,
    },
    /// Print all entries, as a file for `add -f` has them.
    #[command(after_help = "Example: sudo weir fw table list hops > hops.txt")]
    List {
        /// The table.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Say what tables are, and what they take; without a name all of the set.
    #[command(after_help = "Example: sudo weir fw table info hops")]
    Info {
        /// Their names.
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Remove all entries.
    #[command(after_help = "Example: sudo weir fw table flush hops")]
    Flush {
        /// The table.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Exchange the entries of two tables of the same type and values, in one step.
    #[command(after_help = "Example: sudo weir fw table swap hops spare")]
    Swap {
        /// One table.
        #[arg(value_name = "NAME")]
        name: String,
        /// The other one.
        #[arg(value_name = "OTHER")]
        other: String,
    },
    /// Exchange all tables of --set with those of another set, in one step.
    #[command(after_help = "Example: sudo weir fw table swap-sets 1")]
    SwapSets {
        /// The other set.
        #[arg(value_name = "OTHER")]
        other: u8,
    },
    /// Refuse changes of a table from now on.
    #[command(after_help = "Example: sudo weir fw table lock hops")]
    Lock {
        /// The table.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Let a table change again.
    #[command(after_help = "Example: sudo weir fw table unlock hops")]
    Unlock {
        /// The table.
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// Which entries are meant.
#[derive(Debug, Args)]
pub(crate) struct EntryArgs {
    /// The table.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// One entry: a key, and words for its values.
    #[arg(value_name = "WORD", required_unless_present = "file", conflicts_with = "file")]
    pub(crate) words: Vec<String>,
    /// A file with an entry on each line; `-` is standard input.
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}
