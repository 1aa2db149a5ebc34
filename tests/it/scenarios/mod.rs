//! RPC-level scenarios over the real wire, named by their number in the scenario list: A put, D removal, E
//! segments and clients, K batches, and what a restart keeps. Scenarios C are in `soft_pin`.

mod batches;
mod clients;
mod older;
mod puts;
mod removal;
mod restarts;
