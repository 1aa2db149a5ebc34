//! The bench on which real-process tests stand: masters, stock clients, ports, waiting, HTTP.
//!
//! Nothing here knows what a test wants to show. A test takes a [`Bench`], asks it for clients, and
//! says what must be true; everything that was started dies with the bench, and its logs are
//! printed if the test failed.

mod bench;
mod config;
mod eventually;
mod http;
mod load;
mod master;
pub mod node;
mod node_process;
mod peer;
mod ports;
mod process;
mod stock_client;
pub mod venv;

pub use bench::{Bench, Feature};
pub use config::WriteConfig;
pub use eventually::{eventually, eventually_within, holds_for, wall_ms};
pub use http::Http;
pub use load::{LoadOptions, LoadReport};
pub use master::{Kind, Master};
pub use node_process::{NodeProcess, last_words};
pub use peer::peer_at_root;
pub use ports::free_port;
pub use process::Process;
pub use stock_client::{Got, Placed, StockClient, Value};
