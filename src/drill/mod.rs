//! Failure drills: real nodes are broken on purpose while clients work, and what they saw is judged.
//!
//! A drill is nodes (`cluster`, `process`, `link`, or somebody's running ones), clients (`load`), a scenario
//! (`scenarios` on a `stage`), eyes (`watch`), and a verdict (`checks` on `history`, told by `report`). Nodes are
//! processes of the program itself and are reached by its own ports only, so a drill sees what an operator and a
//! client see. See `docs/drills.md`.

pub mod admin;
pub mod checks;
pub mod cluster;
pub mod disk;
pub mod finding;
pub mod history;
mod images;
pub mod link;
pub mod live;
pub mod load;
pub mod moment;
pub mod ports;
pub mod process;
pub mod report;
mod run;
pub mod scenarios;
pub mod stage;
pub mod usage;
pub mod watch;

pub use run::{Settings, Target, allowed, run};
