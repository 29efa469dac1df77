//! The arguments of `weir http`.

use clap::Subcommand;

use super::http_serve::{SERVE_HELP, ServeArgs};

pub(crate) const EXAMPLES: &str = "\
Examples:
  weir http serve --listen 10.0.0.1:80
  curl http://10.0.0.1/b/1M?delay=10ms -o /dev/null";

/// What `weir http` does.
#[derive(Debug, Subcommand)]
pub(crate) enum HttpCommand {
    /// Answer requests with bodies of any size, by what the URL says, and count them.
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
}
