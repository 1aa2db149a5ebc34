//! Clients that are told where to look for the master, not where it is.
//!
//! The stock client brings the Go library of etcd with it, so what it accepts is what counts.

mod etcdctl;
mod node;
mod ports;
mod stock_client;
