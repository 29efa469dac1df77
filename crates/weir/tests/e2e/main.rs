//! End-to-end tests of the binary: real packets in network namespaces that the tests make.

mod adaptive;
mod archive;
mod bad_input;
mod bench;
mod bench_lab;
mod bisect;
mod campaign;
#[path = "../../benches/support/chrt.rs"]
mod chrt;
#[path = "../../benches/support/closing.rs"]
mod closing;
mod common;
mod connect;
mod directions;
mod disturbance;
mod echo;
mod figures;
mod firewall;
mod fw;
mod fw_explain;
mod fw_input;
mod fw_lsp;
mod fw_optimise;
mod generator;
mod http_client;
mod http_serve;
mod install;
mod interrupt;
#[path = "../../benches/support/keepalived.rs"]
mod keepalived;
mod labs;
#[path = "../../benches/support/limits.rs"]
mod limits;
mod ministat;
#[path = "../../benches/support/near.rs"]
mod near;
mod pkt_gen;
mod queues;
mod rates;
mod receive;
mod replay;
mod rerss;
mod rss;
#[path = "../../benches/support/schedstat.rs"]
mod schedstat;
mod search;
mod stores;
#[path = "../../benches/support/mod.rs"]
mod support;
mod turns;
