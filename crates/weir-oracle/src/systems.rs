//! Fingerprints of operating systems for tests, which every ruleset here has: of SYNs that packet
//! tests and random traffic have. They never leave tests.

use weir_rules::fingerprint::DEFAULT_FILE;
use weir_rules::source::MemorySources;

/// In the format of pf.os(5). That of several options is Linux's order.
pub const FINGERPRINTS: &str = "\
65535:64:0:40:.:Bare:1::no options
8192:64:0:40:.:Bare:2::no options, a smaller window
1000:64:0:40:.:Bare:3.0-3.2::no options, a small window
8192:64:0:48:M*,N,W%3:Scaled:3::the scale is a multiple
65535:64:0:48:M1460,N,W7:Scaled:7:large:the scale is 7
*:64:1:48:M*,N,W*:Scaled:any:df:not to be fragmented
*:64:0:*:M*,N,W0:Scaled:0::the scale is 0
*:64:0:%3:M*,S,T,N,W*:Full:1:zero:of 60 bytes
S8:64:1:60:M%16,S,T,N,W%7:Full:2:eight:eight segments
S2:64:1:60:M500,S,T,N,W*:Full:2:pair:two segments
T2:64:1:60:M*,S,T,N,W*:Full:2:two:two packets
*:64:1:60:M*,S,T,N,W*:Full:3::any window
*:64:1:60:M*,S,T0,N,W*:Full:4:stopped:a clock that stands still
%8192:64:0:*:M*,S,T0,N,W*:Full:4:even:the same, of even windows
";

/// The files that rulesets name, or that they have without that.
#[must_use]
pub fn files() -> MemorySources {
    MemorySources::default().with(DEFAULT_FILE, FINGERPRINTS)
}
