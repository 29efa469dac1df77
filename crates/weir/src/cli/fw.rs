//! The arguments of `weir fw`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use weir_rules::Dialect;

use super::JsonFlag;
use super::ruleset::{DialectName, LanguageArgs, parse_macro};

pub(crate) const EXAMPLES: &str = "\
pf.conf of FreeBSD and of OpenBSD is read on Linux, and run: run, status, stats, table, sync and
stop act on the firewall of this network namespace and need root; everything else works on files and
needs no privilege. docs/fw.md is the guide.

Examples:
  sudo weir fw run -f /etc/pf.conf         filter by it
  weir fw check /etc/pf.conf               what is wrong with it, all at once
  weir fw print /etc/pf.conf               what pfctl -nvf prints
  weir fw convert --to openbsd pf.conf     nat and rdr lines as nat-to and rdr-to
  weir fw explain pf.conf --packet 'in on em0 tcp 10.0.0.5:51234 > 1.2.3.4:443 S'";

const CHECK_HELP: &str = "\
Every error of a file is reported in one run, with file, line and column. On a terminal it is drawn;
elsewhere each is a line FILE:LINE:COLUMN: SEVERITY: MESSAGE. What this version of weir does not run
is an error, at the same places and in the same words as of weir fw run; --for freebsd and --for
openbsd check a file for those systems, whose pf has none of weir's own words. What depends on the
machine (an interface or a host name that does not exist, a table file that cannot be read) is a
warning; so is what is valid but pointless: rules that no packet reaches, that never match or never
decide, redirections that overlap, unused tables and macros. Host names are only looked up in
/etc/hosts unless --resolve is given. Exit codes: 0 without errors; 1 with errors, or with warnings
under --deny warnings; 2 if a file cannot be read.

Examples:
  weir fw check /etc/pf.conf
  weir fw check --deny warnings -D ext_if=eth0 pf.conf
  weir fw check --for openbsd pf.conf
  weir fw check --facts router.facts --json pf.conf | jq '.files[].diagnostics[].message'
  sed s/em0/eth0/ pf.conf | weir fw check -";

const PRINT_HELP: &str = "\
Macros, options, tables and rules as pfctl -nvf prints them, lists multiplied out, in the dialect
they are written in. With --expanded only the rules, one per line, each with its number (as pfctl
-vv) and, as a comment, the line of the file that it comes from.

With -o basic, redundant filter rules are left out, six or more addresses become a table, and rules
are ordered for skip steps, as pfctl does without -o; -o profile orders quick rules by the packets
that they matched, which a file must say. What becomes of a packet stays the same.

Examples:
  weir fw print /etc/pf.conf
  weir fw print --expanded pf.conf | grep 'pf.conf:12$'
  weir fw print -o profile --profile counters.txt pf.conf
  weir fw print --json pf.conf | jq -r '.rules[].text'";

const CONVERT_HELP: &str = "\
Comments, macros and lists stay; only statements that the other system writes differently change:
nat, rdr, binat and scrub become match with nat-to, rdr-to, binat-to and scrub (...), rdr pass
becomes pass in quick with rdr-to, and back. What cannot be expressed in the other dialect with the
same meaning is refused with its line, and nothing is printed. docs/fw.md has the rules.

Examples:
  weir fw convert --to openbsd pf.conf > pf.conf.openbsd
  weir fw convert --to freebsd --facts router.facts pf.conf
  weir fw convert --to openbsd pf.conf --json | jq '.changes'";

const EXPLAIN_HELP: &str = "\
Every rule that is evaluated, why it does not match (with the packet's value and the rule's), which
rule decides, and what it does: translation, state, answer, log.

A packet in words is DIRECTION on INTERFACE PROTOCOL SOURCE > DESTINATION and more, such as
  in on em0 tcp 10.0.0.5:51234 > 1.2.3.4:443 S
  out on em1 received-on em0 udp [2001:db8::5]:5353 > [2001:db8::1]:domain tos 0x10
  in on em0 icmp 10.0.0.5 > 1.2.3.4 echoreq id 7
  in on em0 icmp6 2001:db8::5 > 2001:db8::1 unreach/port-unr
  in on em0 icmp 10.0.0.5 > 1.2.3.4 timex about udp 1.2.3.4:5353 > 10.0.9.9:53
  in on em0 fragment udp 10.0.0.5 > 1.2.3.4
  in on vlan20 esp 10.0.0.5 > 1.2.3.4 prio 5 tag LAN
TCP flags are letters of FSRPAUEW, or none (a SYN without them); an ICMP type is a name or a number,
its code after a slash (an echo request without them). Words after the addresses are tos, prio,
tag, received-on, user, group, os, id, rdomain with a value, fragment, options, routing-header, and
about with the packet that an ICMP error is about. A VLAN is a separate interface.

Each packet is judged on its own, as the first of its connection, unless --states is given: then it
may belong to a state that one before it made (which does not expire, and whose TCP window is not
checked). Every address is taken to have a route, a rule with probability matches, and rate limits
are never reached. Anchors that load anchor names are read; others that are filled at run time are
empty.

Examples:
  weir fw explain pf.conf --packet 'in on em0 tcp 10.0.0.5:51234 > 1.2.3.4:443 S'
  weir fw explain pf.conf --brief --pcap trace.pcap --on em0
  weir fw explain pf.conf --states --pcap trace.pcap --on em0 --mac 02:00:00:00:00:01
  weir fw explain pf.conf --packet 'out on em0 udp 10.0.0.5:53 > 9.9.9.9:53' --json";

const LSP_HELP: &str = "\
A server of the Language Server Protocol on standard input and output, for an editor to start:
diagnostics as you type, the expanded rules of a statement (or the value of a macro or a table)
under the cursor, and jumps to the definition of macros, tables, anchors and included files.
docs/fw.md has the set-up of Neovim, Emacs and VS Code.

Examples:
  weir fw lsp
  weir fw lsp --dialect openbsd --facts router.facts -D ext_if=eth0";

/// The commands of the packet filter.
#[derive(Debug, Subcommand)]
pub(crate) enum FwCommand {
    /// Say what is wrong with pf.conf files.
    #[command(after_help = CHECK_HELP)]
    Check(CheckArgs),
    /// Print a pf.conf as pfctl -nvf does, macros and lists expanded.
    #[command(after_help = PRINT_HELP)]
    Print(PrintArgs),
    /// Rewrite a pf.conf for the other system.
    #[command(after_help = CONVERT_HELP)]
    Convert(ConvertArgs),
    /// Say what becomes of a packet, and why, rule by rule.
    #[command(after_help = EXPLAIN_HELP)]
    Explain(ExplainArgs),
    /// Serve an editor: diagnostics, expanded rules, definitions (LSP).
    #[command(after_help = LSP_HELP)]
    Lsp(LspArgs),
    /// Route and filter packets by a pf.conf, in XDP.
    #[command(after_help = super::fw_run::RUN_HELP)]
    Run(super::fw_run::RunArgs),
    /// Show the state of the firewall: rules, states, memory, interfaces.
    #[command(after_help = super::fw_run::STATUS_HELP)]
    Status(JsonFlag),
    /// Show what the firewall has counted: packets, states, drops by reason.
    #[command(after_help = super::fw_run::STATS_HELP)]
    Stats(super::fw_run::StatsArgs),
    /// Make, fill and ask typed tables: keys with values, for rules and by hand.
    #[command(after_help = super::fw_table::TABLE_HELP)]
    Table(super::fw_table::TableArgs),
    /// Keep the states of two firewalls in step, over TLS: what pfsync does.
    #[command(after_help = super::fw_sync::SYNC_HELP)]
    Sync(super::fw_sync::SyncArgs),
    /// Stop the firewall: programs, states and counters go.
    #[command(after_help = super::fw_run::STOP_HELP)]
    Stop(JsonFlag),
}

/// `weir fw check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The files; `-` is standard input.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// What else makes the exit code 1.
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) deny: Option<Deny>,
    /// What is to run the files.
    #[arg(long = "for", value_name = "SYSTEM", value_enum, default_value_t = Target::Weir)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) language: LanguageArgs,
}

/// What runs a ruleset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// This version of weir: what it does not run is an error, as for `weir fw run`.
    Weir,
    /// FreeBSD's pf, in its dialect.
    Freebsd,
    /// OpenBSD's pf, in its dialect.
    Openbsd,
}

impl Target {
    /// The language that it reads; `None`: either.
    pub(crate) fn dialect(self) -> Option<Dialect> {
        match self {
            Self::Weir => None,
            Self::Freebsd => Some(Dialect::FreeBsd),
            Self::Openbsd => Some(Dialect::OpenBsd),
        }
    }
}

/// `weir fw print`.
#[derive(Debug, Args)]
pub(crate) struct PrintArgs {
    /// The file; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Only the rules, numbered, each with the line that it comes from.
    #[arg(long)]
    pub(crate) expanded: bool,
    /// How far rules are optimised.
    #[arg(short = 'o', value_name = "LEVEL", value_enum, default_value_t = Level::None)]
    pub(crate) optimise: Level,
    /// Counters of the rules for -o profile, as pfctl -vsr prints them.
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) language: LanguageArgs,
}

/// `weir fw convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// The file; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The dialect to write.
    #[arg(long, value_name = "DIALECT", value_enum)]
    pub(crate) to: DialectName,
    #[command(flatten)]
    pub(crate) language: LanguageArgs,
}

/// `weir fw explain`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["packets", "pcap"]))]
pub(crate) struct ExplainArgs {
    /// The file; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// A packet in words; may be given more than once.
    #[arg(long = "packet", value_name = "WORDS")]
    pub(crate) packets: Vec<String>,
    /// The packets of a capture file.
    #[arg(long, value_name = "FILE", requires = "on")]
    pub(crate) pcap: Option<PathBuf>,
    /// The interface that the packets of --pcap cross.
    #[arg(long, value_name = "IF", requires = "pcap")]
    pub(crate) on: Option<String>,
    /// They leave through it, instead of coming in.
    #[arg(long, requires = "pcap")]
    pub(crate) out: bool,
    /// The interface's own MAC address: frames of --pcap that it sent leave, the others come in.
    #[arg(long, value_name = "MAC", requires = "pcap", conflicts_with = "out")]
    pub(crate) mac: Option<weir_wire::MacAddr>,
    /// Packets belong to the states that packets before them made.
    #[arg(long)]
    pub(crate) states: bool,
    /// A line for each packet, without the trace.
    #[arg(long)]
    pub(crate) brief: bool,
    #[command(flatten)]
    pub(crate) language: LanguageArgs,
}

/// `weir fw lsp`.
#[derive(Debug, Args)]
pub(crate) struct LspArgs {
    /// The dialect of the file [default: recognised from its words].
    #[arg(long, value_name = "DIALECT", value_enum)]
    pub(crate) dialect: Option<DialectName>,
    /// Define a macro; a definition in the file does not override it.
    #[arg(short = 'D', value_name = "NAME=VALUE", value_parser = parse_macro)]
    pub(crate) macros: Vec<(String, String)>,
    /// Interfaces, groups, addresses, hosts, services and users, instead of this machine's.
    #[arg(long, value_name = "FILE")]
    pub(crate) facts: Option<PathBuf>,
    /// Does nothing: this is the default, and some editors add it.
    #[arg(long = "stdio")]
    pub(crate) _stdio: bool,
}

/// What `--deny` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deny {
    /// Warnings, as if they were errors.
    Warnings,
}

/// Levels of optimisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// The rules as written.
    None,
    /// Duplicates and subsets removed, tables made from lists.
    Basic,
    /// The same, and `quick` rules ordered by how often they matched.
    Profile,
}
