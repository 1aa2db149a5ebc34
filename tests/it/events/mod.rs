//! KV events as a real ZeroMQ subscriber hears them, from masters in real processes.

mod failover;
mod hostile;
mod store;
mod subscriber;
mod ways;
