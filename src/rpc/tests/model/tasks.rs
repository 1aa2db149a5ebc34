//! Copy and move tasks (8.4).

use super::super::act::{Act, name_of, name_of_key};
use super::super::perform::{Heard, TaskSeen, Told};
use super::{Followed, Model, code, equal, fail};

const PENDING: i32 = 0;
const RUNNING: i32 = 1;
const FAILED: i32 = 2;
const SUCCESS: i32 = 3;

/// A task; those that were forgotten keep their place in the list.
#[derive(Clone, Debug)]
pub struct Task {
    pub client: u8,
    id: (u64, u64),
    status: i32,
    message: String,
    created: u64,
    updated: u64,
    is_forgotten: bool,
}

impl Task {
    pub fn is_waiting(&self) -> bool {
        self.status == PENDING
    }

    pub fn is_over(&self) -> bool {
        matches!(self.status, FAILED | SUCCESS)
    }

    fn end(&mut self, status: i32, message: &str, now: u64) {
        (self.status, self.updated) = (status, now);
        self.message = message.to_owned();
    }
}

impl Model {
    pub(super) fn task(&mut self, act: &Act, heard: &Heard) -> Followed {
        match (act, heard) {
            (Act::MakeTask { key, is_move, from, to }, Heard::Task(told)) => {
                let owners = self.check_task(&name_of_key(*key), *is_move, *from, to);
                match (owners, told) {
                    (Ok(owners), Ok(seen)) => self.make_task(&owners, seen),
                    (Err(code), told) => equal("a task", told, &Err(code)),
                    (Ok(_), Err(code)) => fail(format!("a task was refused with {code}")),
                }
            }
            (Act::Fetch { by, count }, Heard::Fetched(told)) => {
                equal("fetched tasks", told, &self.fetch(*by, *count))
            }
            (Act::Complete { by, task, status }, Heard::Done(told)) => {
                let answer = self.complete(by.unwrap_or(1), *task, *status);
                equal("the end of a task", told, &vec![answer])
            }
            (Act::QueryTask { task }, Heard::Task(told)) => {
                let expected = self.known(*task).map(|at| {
                    let task = &self.tasks[at];
                    let (status, client) = (task.status, u64::from(task.client));
                    TaskSeen { id: task.id, status, client, message: task.message.clone() }
                });
                equal("a task", told, &expected)
            }
            _ => fail("an answer of another kind"),
        }
    }

    fn known(&self, task: u8) -> Told<usize> {
        let at = usize::from(task);
        let found = self.tasks.get(at).filter(|task| !task.is_forgotten);
        found.map(|_| at).ok_or(code::TASK_NOT_FOUND)
    }

    fn count(&self, status: i32) -> usize {
        self.tasks.iter().filter(|task| task.status == status).count()
    }

    /// Who may be given the task.
    fn check_task(&self, key: &str, is_move: bool, from: u8, to: &[u8]) -> Told<Vec<u8>> {
        if to.is_empty() {
            return Err(code::PARAMS);
        }
        let thing = self.things.get(key).ok_or(code::NOT_FOUND)?;
        if is_move && to.contains(&from) {
            return Err(code::PARAMS);
        }
        for name in to {
            self.check_target(*name).map_err(|code| match code {
                code::SEGMENT_NOT_FOUND => code::PARAMS,
                code => code,
            })?;
        }
        let sources = thing.copies.iter().filter(|copy| !is_move || name_of(copy.room) == from);
        let owners = sources.filter_map(|copy| self.rooms.get(&copy.room)).map(|room| room.owner);
        let owners: Vec<u8> = owners.collect();
        if owners.is_empty() {
            return Err(if is_move { code::PARAMS } else { code::INTERNAL });
        }
        if self.count(PENDING) >= self.rules.tasks_pending {
            return Err(code::TASK_LIMIT);
        }
        Ok(owners)
    }

    fn make_task(&mut self, owners: &[u8], seen: &TaskSeen) -> Followed {
        let client = u8::try_from(seen.client).unwrap_or(0);
        if !owners.contains(&client) {
            return fail(format!("the task went to client {client}, not to one of {owners:?}"));
        }
        equal("status of a new task", &seen.status, &PENDING)?;
        let (created, updated) = (self.now, self.now);
        let (id, status, message) = (seen.id, PENDING, String::new());
        let is_forgotten = false;
        let task = Task { client, id, status, message, created, updated, is_forgotten };
        self.tasks.push(task);
        self.mark("task made");
        Ok(())
    }

    fn fetch(&mut self, by: u8, count: u64) -> Vec<(u64, u64)> {
        let mut fetched = Vec::new();
        let mut running = self.count(RUNNING);
        for task in &mut self.tasks {
            let is_theirs = task.client == by && task.status == PENDING;
            if is_theirs && (fetched.len() as u64) < count && running < self.rules.tasks_running {
                (task.status, task.updated) = (RUNNING, self.now);
                running += 1;
                fetched.push(task.id);
            }
        }
        self.mark_if(!fetched.is_empty(), "task fetched");
        fetched
    }

    fn complete(&mut self, by: u8, task: u8, status: i32) -> Told<()> {
        if !matches!(status, FAILED | SUCCESS) {
            return Err(code::PARAMS);
        }
        let now = self.now;
        let at = self.known(task)?;
        let task = &mut self.tasks[at];
        if task.client != by {
            return Err(code::CLIENT);
        }
        if !task.is_over() {
            task.end(status, "done", now);
            self.mark("task ended");
        }
        Ok(())
    }

    /// Tasks that took too long fail; of those that are over only the newest are remembered.
    pub(super) fn sweep_tasks(&mut self) {
        let (now, rules) = (self.now, self.rules.clone());
        let before = self.count(FAILED);
        for task in &mut self.tasks {
            if task.status == PENDING && task.created + rules.task_pending_timeout < now {
                task.end(FAILED, "pending timeout", now);
            }
            if task.status == RUNNING && task.updated + rules.task_running_timeout < now {
                task.end(FAILED, "processing timeout", now);
            }
        }
        self.mark_if(self.count(FAILED) > before, "task failed in time");
        let is_kept = |task: &Task| task.is_over() && !task.is_forgotten;
        let mut over: Vec<usize> =
            (0..self.tasks.len()).filter(|at| is_kept(&self.tasks[*at])).collect();
        over.sort_by_key(|at| self.tasks[*at].updated);
        let forgotten = over.len().saturating_sub(rules.tasks_finished);
        for at in over.into_iter().take(forgotten) {
            self.tasks[at].is_forgotten = true;
        }
    }
}
