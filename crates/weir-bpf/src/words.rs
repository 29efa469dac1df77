//! Sizes of map values and places in them, in 64-bit words, and what stands there: the build script
//! makes them of the structures and enumerations in `bpf/include/weir`.

include!(concat!(env!("OUT_DIR"), "/words.rs"));
