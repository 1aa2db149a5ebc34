//! What the evictor may take, must take, and takes first (7).
//!
//! The model does not predict the victims: it sees which copies are gone and judges.

use std::collections::BTreeMap;

use super::super::perform::Heard;
use super::{Copy, Followed, Model, Phase, Shortage, Thing, fail};

/// The evictor's order is that fine.
const SLACK: u64 = 100;

const MILLION: u64 = 1_000_000;

/// How many a pass is to take (7.1, 7.2).
struct Goal {
    ideal: u64,
    lower: u64,
    /// Whether there must be a pass.
    is_due: bool,
}

fn is_evictable(thing: &Thing, copy: &Copy) -> bool {
    let source = thing.transfer.as_ref().map(|transfer| transfer.source);
    copy.is_done && Some(copy.id) != source
}

/// Whether it has memory that could be taken some time.
fn has_evictable(thing: &Thing) -> bool {
    !thing.is_hard && thing.copies.iter().any(|copy| is_evictable(thing, copy))
}

impl Model {
    fn goal(&self) -> Option<Goal> {
        let rooms = self.rooms.values().filter(|room| room.phase != Phase::Ending);
        let capacity: u64 = rooms.map(|room| room.size).sum();
        let used: u64 = self.used().map(|(.., size)| size).sum();
        let is_high = used * MILLION > self.rules.high_ppm * capacity;
        if !is_high && self.shortage == Shortage::No {
            return None;
        }
        let base = self.things.values().filter(|thing| has_evictable(thing)).count() as u64;
        let share = (used * MILLION).checked_div(capacity).unwrap_or(0);
        let over = share.saturating_sub(self.rules.high_ppm);
        let target = over + self.rules.evict_ppm;
        let lower = over.max(target / 2);
        let count = |ppm: u64| (base * ppm).div_ceil(MILLION).min(base);
        let is_due = is_high || self.shortage == Shortage::Yes;
        Some(Goal { ideal: count(target), lower: count(lower), is_due })
    }

    /// Could have gone in the first pass, for long enough that the evictor must have seen it.
    fn could_go(&self, thing: &Thing) -> bool {
        let until = thing.lease.max(thing.deadline.unwrap_or(0));
        let promised = if self.is_promised(thing) { self.promised_until() } else { 0 };
        let is_plain = thing.group.is_empty() && !thing.is_odd;
        is_plain && has_evictable(thing) && until.max(promised) + SLACK <= self.now
    }

    pub(super) fn evict(&mut self, heard: &Heard) -> Followed {
        let Heard::Left(left) = heard else { return fail("an answer of another kind") };
        let goal = self.goal();
        let victims = self.victims(left);
        if !victims.is_empty() && goal.is_none() {
            return fail(format!("{:?} went for no reason", victims.keys()));
        }
        for (key, gone) in &victims {
            self.judge(key, &self.things[key], gone)?;
        }
        self.judge_groups(&victims)?;
        if let Some(goal) = goal {
            self.judge_amounts(&victims, &goal)?;
        }
        self.judge_order(&victims)?;
        let things: Vec<&Thing> = victims.keys().map(|key| &self.things[key]).collect();
        let has_pinned = things.iter().any(|thing| thing.is_pinned(self.now));
        let has_group = things.iter().any(|thing| !thing.group.is_empty());
        let has_several = things.iter().any(|thing| {
            let members = things.iter().filter(|other| other.is_of(thing.tenant, &thing.group));
            members.count() > 1
        });
        let has_both = [0, 1].iter().all(|tenant| things.iter().any(|t| t.tenant == *tenant));
        self.mark_if(!victims.is_empty(), "evicted");
        self.mark_if(has_pinned, "evicted with a pin");
        self.mark_if(has_group, "evicted with a group");
        self.mark_if(has_several, "members evicted together");
        self.mark_if(has_both, "evicted of both tenants");
        let gone: Vec<u64> = victims.into_values().flatten().collect();
        self.note_pass(!gone.is_empty());
        for thing in self.things.values_mut() {
            thing.copies.retain(|copy| !gone.contains(&copy.id));
            thing.settle();
        }
        self.drop_empty();
        Ok(())
    }

    /// Eviction is asked for until it has freed something, or there is nothing to free (7.4).
    fn note_pass(&mut self, has_freed: bool) {
        let is_idle = !self.things.values().any(has_evictable);
        let is_cleaning = self.rooms.values().any(|room| room.phase == Phase::Ending);
        if has_freed || (is_idle && !is_cleaning) {
            self.shortage = Shortage::No;
        } else if is_idle && self.shortage == Shortage::Yes {
            self.shortage = Shortage::Perhaps;
        }
    }

    /// The copies that are gone, by key.
    fn victims(&self, left: &BTreeMap<String, Vec<u64>>) -> BTreeMap<String, Vec<u64>> {
        let mut victims = BTreeMap::new();
        for (key, thing) in &self.things {
            let left = left.get(key).map(Vec::as_slice).unwrap_or_default();
            let ids = thing.copies.iter().map(|copy| copy.id);
            let gone: Vec<u64> = ids.filter(|id| !left.contains(id)).collect();
            if !gone.is_empty() {
                victims.insert(key.clone(), gone);
            }
        }
        victims
    }

    /// Whether one victim might go, and went wholly (7.3).
    fn judge(&self, key: &str, thing: &Thing, gone: &[u64]) -> Followed {
        if thing.is_hard {
            return fail(format!("{key} is hard-pinned and was evicted"));
        }
        if self.is_leased(thing) {
            return fail(format!("{key} is leased and was evicted"));
        }
        if thing.is_pinned(self.now) && !self.rules.allows_pinned {
            return fail(format!("{key} is soft-pinned and was evicted against the rules"));
        }
        for copy in &thing.copies {
            let (is_gone, may_go) = (gone.contains(&copy.id), is_evictable(thing, copy));
            if is_gone != may_go {
                return fail(format!("{copy:?} of {key}: gone {is_gone}, evictable {may_go}"));
            }
        }
        Ok(())
    }

    /// A group goes together: whoever stays of a victim's group could not go, and nobody of it was leased (7.5).
    fn judge_groups(&self, victims: &BTreeMap<String, Vec<u64>>) -> Followed {
        for key in victims.keys().filter(|key| !self.things[*key].group.is_empty()) {
            let (tenant, group) = (self.things[key].tenant, &self.things[key].group);
            let members = self.things.iter().filter(|(_, thing)| thing.is_of(tenant, group));
            for (other, member) in members {
                if self.is_leased(member) {
                    return fail(format!("{key} went while {other} of its group is leased"));
                }
                let may_stay = !has_evictable(member) || member.is_pinned(self.now);
                if !victims.contains_key(other) && !may_stay {
                    return fail(format!("{key} went and {other} of its group stayed"));
                }
            }
        }
        Ok(())
    }

    /// As many as wanted, no more; soft-pinned ones last and only up to what is needed.
    fn judge_amounts(&self, victims: &BTreeMap<String, Vec<u64>>, goal: &Goal) -> Followed {
        // Objects on memory that is being cleaned up still count towards the goal.
        if self.rooms.values().any(|room| room.phase == Phase::Ending) {
            return Ok(());
        }
        let things = || victims.keys().map(|key| &self.things[key]);
        let has_groups = things().any(|thing| !thing.group.is_empty());
        let pinned = things().filter(|thing| thing.is_pinned(self.now)).count() as u64;
        let all = victims.len() as u64;
        let is_left =
            |(key, thing): &(&String, &Thing)| !victims.contains_key(*key) && self.could_go(thing);
        let left = self.things.iter().filter(is_left).count() as u64;
        if !has_groups && all > goal.ideal {
            return fail(format!("{all} went where {} were wanted", goal.ideal));
        }
        if pinned > 0 && left > 0 {
            return fail(format!("{pinned} soft-pinned went, {left} ordinary stayed"));
        }
        if !has_groups && pinned > 0 && all > goal.lower {
            return fail(format!("{all} went with soft-pinned ones, {} needed", goal.lower));
        }
        if goal.is_due && all < goal.ideal && left > 0 {
            return fail(format!("only {all} of {} went, {left} could have", goal.ideal));
        }
        Ok(())
    }

    /// The oldest first (7.2).
    fn judge_order(&self, victims: &BTreeMap<String, Vec<u64>>) -> Followed {
        let rank = |thing: &Thing| thing.lease.max(thing.began);
        let is_ranked = |thing: &Thing| self.could_go(thing) && thing.began > self.led_since;
        for went in victims.keys().map(|key| &self.things[key]).filter(|thing| is_ranked(thing)) {
            let stayed = self.things.iter().filter(|(key, _)| !victims.contains_key(*key));
            for (key, thing) in stayed.filter(|(_, thing)| is_ranked(thing)) {
                if rank(thing) < rank(went) {
                    return fail(format!("{key} is older than a victim and stayed"));
                }
            }
        }
        Ok(())
    }
}
