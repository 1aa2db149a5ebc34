//! A table that costs memory only where it was written, and shares it between copies.
//!
//! Rows live in chunks behind `Arc`. A chunk appears with its first row that is not blank, goes
//! with the last one, and is copied when a clone (a frozen state) still holds it, so that cloning
//! costs pointers. Guards: `in_use` of a chunk is the number of its rows that are not blank. Leaves
//! every bound on the index to its owner; an index never written reads as blank.

use std::sync::Arc;

/// A row type with a value that need not be stored.
pub(super) trait Row: Copy {
    /// What an untouched row of that index reads as.
    fn blank(index: u32) -> Self;
    /// Whether this is [`Row::blank`] of that index.
    fn is_blank(&self, index: u32) -> bool;
}

/// A slot number: untouched, the stack of free slots holds each number at its own place.
impl Row for u32 {
    fn blank(index: u32) -> Self {
        index
    }

    fn is_blank(&self, index: u32) -> bool {
        *self == index
    }
}

#[derive(Clone, Debug)]
struct Chunk<T, const ROWS: usize> {
    in_use: u32,
    rows: [T; ROWS],
}

/// Rows by index; see the file's head. `ROWS` is the number of rows a chunk: choose it so that a
/// chunk, with its 24 bytes of head, just fills a size class of the memory allocator (3,584 or 7,168
/// two).
#[derive(Clone, Debug)]
pub(super) struct LazyTable<T, const ROWS: usize> {
    chunks: Vec<Option<Arc<Chunk<T, ROWS>>>>,
}

fn split<const ROWS: usize>(index: u32) -> (usize, usize) {
    let index = index as usize;
    (index / ROWS, index % ROWS)
}

fn join<const ROWS: usize>(chunk: usize, row: usize) -> u32 {
    (chunk * ROWS + row) as u32
}

impl<T: Row, const ROWS: usize> LazyTable<T, ROWS> {
    pub(super) fn new() -> Self {
        LazyTable { chunks: Vec::new() }
    }

    pub(super) fn get(&self, index: u32) -> T {
        let (chunk, row) = split::<ROWS>(index);
        let found = self.chunks.get(chunk).and_then(Option::as_ref);
        match found.and_then(|chunk| chunk.rows.get(row)) {
            Some(row) => *row,
            None => T::blank(index),
        }
    }

    pub(super) fn set(&mut self, index: u32, value: T) {
        self.update(index, |row| *row = value);
    }

    pub(super) fn update(&mut self, index: u32, change: impl FnOnce(&mut T)) {
        let (chunk_number, row_number) = split::<ROWS>(index);
        if chunk_number >= self.chunks.len() {
            self.chunks.resize_with(chunk_number + 1, || None);
        }
        let Some(place) = self.chunks.get_mut(chunk_number) else {
            return;
        };
        let shared = place.get_or_insert_with(|| {
            Arc::new(Chunk {
                in_use: 0,
                rows: std::array::from_fn(|row| T::blank(join::<ROWS>(chunk_number, row))),
            })
        });
        let chunk = Arc::make_mut(shared);
        let Some(row) = chunk.rows.get_mut(row_number) else {
            return;
        };
        let was_blank = row.is_blank(index);
        change(row);
        match (was_blank, row.is_blank(index)) {
            (true, false) => chunk.in_use += 1,
            (false, true) => chunk.in_use -= 1,
            _ => {}
        }
        if chunk.in_use == 0 {
            *place = None;
        }
    }

    /// The rows that are not blank, by ascending index.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> + '_ {
        let chunks = self.chunks.iter().enumerate();
        chunks.flat_map(|(number, chunk)| {
            let rows = chunk.iter().flat_map(|chunk| chunk.rows.iter().enumerate());
            rows.map(move |(row, value)| (join::<ROWS>(number, row), value))
                .filter(|(index, value)| !value.is_blank(*index))
        })
    }

    /// Number of chunks that hold memory.
    #[cfg(test)]
    pub(super) fn chunks_held(&self) -> usize {
        self.chunks.iter().flatten().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_that_differ_from_blank_cost_memory() {
        let mut table: LazyTable<u32, 255> = LazyTable::new();
        assert_eq!(table.get(1_000_000), 1_000_000);
        table.set(700, 5);
        table.set(701, 701);
        assert_eq!(table.iter().collect::<Vec<_>>(), [(700, &5)]);
        assert_eq!(table.chunks_held(), 1);
        table.set(700, 700);
        assert_eq!(table.chunks_held(), 0);
    }

    #[test]
    fn a_clone_does_not_see_later_writes() {
        let mut table: LazyTable<u32, 255> = LazyTable::new();
        table.set(3, 9);
        let frozen = table.clone();
        table.set(3, 8);
        table.set(4, 7);
        assert_eq!((frozen.get(3), frozen.get(4)), (9, 4));
        assert_eq!((table.get(3), table.get(4)), (8, 7));
    }
}
