//! What the headers of this crate's programs define: the build script makes it.

include!(concat!(env!("OUT_DIR"), "/types.rs"));
