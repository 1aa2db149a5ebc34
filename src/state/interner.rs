//! Small numbers for things that many objects share: writers, groups, tenants.
//!
//! An object holds four bytes instead of a name. Numbers are counted by use and handed out again when
//! nobody uses them; they are derived state, so no decision and no image may depend on one.

use std::collections::BTreeMap;

/// Names with use counts.
#[derive(Clone, Debug)]
pub struct Interner<T> {
    numbers: BTreeMap<T, u32>,
    /// Invariant: `entries[n]` is filled exactly if some name maps to `n`; its count is greater than 0.
    entries: Vec<Option<(T, u64)>>,
    free: Vec<u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Interner { numbers: BTreeMap::new(), entries: Vec::new(), free: Vec::new() }
    }
}

impl<T: Ord + Clone> Interner<T> {
    /// An interner that knows `name` as number 0 for ever.
    pub fn with_first(name: T) -> Self {
        let mut interner = Self::default();
        interner.acquire(&name);
        interner
    }

    /// The number of `name`, counted as one more use.
    pub fn acquire(&mut self, name: &T) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            if let Some(Some((_, uses))) = self.entries.get_mut(number as usize) {
                *uses += 1;
            }
            return number;
        }
        let entry = Some((name.clone(), 1));
        let number = match self.free.pop() {
            Some(number) => {
                if let Some(place) = self.entries.get_mut(number as usize) {
                    *place = entry;
                }
                number
            }
            None => {
                self.entries.push(entry);
                // More names than objects fit in memory would be needed to overflow.
                u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.numbers.insert(name.clone(), number);
        number
    }

    /// Gives one use back.
    pub fn release(&mut self, number: u32) {
        if self.retire(number).is_some() {
            self.free.push(number);
        }
    }

    /// Gives one use back; the number is not handed out again. Answers the name if that was its last use.
    pub fn retire(&mut self, number: u32) -> Option<T> {
        let place = self.entries.get_mut(number as usize)?;
        if let Some((_, uses)) = place {
            *uses -= 1;
            if *uses > 0 {
                return None;
            }
        }
        let (name, _) = place.take()?;
        self.numbers.remove(&name);
        Some(name)
    }

    /// The number of a name in use.
    pub fn number(&self, name: &T) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// The name of a number in use.
    pub fn name(&self, number: u32) -> Option<&T> {
        self.entries.get(number as usize)?.as_ref().map(|(name, _)| name)
    }

    /// Names in use, ascending, with the number of uses.
    pub fn uses(&self) -> impl Iterator<Item = (&T, u64)> {
        self.numbers.iter().filter_map(|(name, &number)| {
            let uses = self.entries.get(number as usize)?.as_ref()?.1;
            Some((name, uses))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_lives_as_long_as_its_uses() {
        let mut interner = Interner::with_first("default");
        let a = interner.acquire(&"a");
        assert_eq!(interner.acquire(&"a"), a);
        interner.release(a);
        assert_eq!(interner.name(a), Some(&"a"));
        interner.release(a);
        assert_eq!(interner.name(a), None);
        assert_eq!(interner.number(&"a"), None);
        assert_eq!(interner.acquire(&"b"), a);
        assert_eq!(interner.number(&"default"), Some(0));
    }
}
