//! End-to-end tests of the binary: real packets in network namespaces that the tests make.

mod adaptive;
mod archive;
mod bad_input;
mod bench_lab;
mod bisect;
mod campaign;
mod common;
mod figures;
mod firewall;
mod fw;
mod fw_explain;
mod fw_input;
mod fw_lsp;
mod fw_optimise;
mod generator;
mod interrupt;
mod ministat;
mod pkt_gen;
mod queues;
mod rates;
mod receive;
mod replay;
mod search;
