//! The log's writer as a task whose writes take simulated time.
//!
//! Guards: it is the writer of `writer.rs`, fed the same groups; a node that dies while a group is
//! on its way leaves the group written and not synced. Leaves to `memory.rs` what then survives.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

use crate::log::writer::{Op, Writer, collect};
use crate::world::Surroundings;

struct Paced {
    writer: Writer,
    simulation: Arc<dyn Surroundings>,
    /// On its way to the disk.
    group: Vec<Op>,
}

/// Starts the task.
pub(crate) fn spawn(mut writer: Writer, simulation: Arc<dyn Surroundings>) -> UnboundedSender<Op> {
    let (queue, asked) = unbounded_channel();
    writer.begin();
    tokio::spawn(Paced { writer, simulation, group: Vec::new() }.run(asked));
    queue
}

impl Paced {
    async fn run(mut self, mut asked: UnboundedReceiver<Op>) {
        loop {
            match timeout(self.writer.pause(), asked.recv()).await {
                Ok(None) => return,
                Ok(Some(first)) => {
                    self.group = collect(first, || asked.try_recv().ok());
                    sleep(self.simulation.log_write_time()).await;
                }
                Err(_) => {}
            }
            let group = std::mem::take(&mut self.group);
            if self.writer.turn(group) {
                return;
            }
        }
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        let group = std::mem::take(&mut self.group);
        if !group.is_empty() {
            self.simulation.log().fail_next_sync();
            self.writer.turn(group);
        }
    }
}
