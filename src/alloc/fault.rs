//! What can be wrong with an allocator's table, each fault with its place.
//!
//! Read by an operator who restores a catalog snapshot and by the programmer of a failed check. A
//! fault never damages anything: the table is refused, and [`super::rebuild()`] can place the live
//! ranges anew.

/// A fault of a saved table, of the handles that claim its nodes, or of the requested range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocatorFault {
    /// The segment itself is impossible.
    #[error("segment of {capacity} bytes at {base:#x} is empty or passes the end of addresses")]
    BadRange {
        /// Address of the segment.
        base: u64,
        /// Bytes of the segment.
        capacity: u64,
    },
    /// A number of the head of the table contradicts the capacity or the limits.
    #[error("allocator table: {field} is {found}, expected {expected}")]
    BadField {
        /// Name of the field.
        field: &'static str,
        /// Value in the table.
        found: u64,
        /// Value, or greatest value, that it may have.
        expected: u64,
    },
    /// The stack of free slots names a slot twice or one that does not exist.
    #[error("allocator table: stack of free slots holds {slot} at {at}, which is {why}")]
    BadStack {
        /// Position in the stack.
        at: u32,
        /// Slot found there.
        slot: u32,
        /// `"taken"`, `"listed twice"` or `"out of range"`.
        why: &'static str,
    },
    /// A node contradicts itself, its neighbours or its list.
    #[error("allocator node {node}: {what}")]
    BadNode {
        /// Number of the node.
        node: u32,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Used and free ranges leave a hole or overlap.
    #[error("allocator ranges do not tile the segment: expected a range at unit {unit}")]
    NotTiled {
        /// First unit that is not covered, or covered twice.
        unit: u64,
    },
    /// A free list or its mask bit is wrong.
    #[error("allocator free list {bin}: {what}")]
    BadList {
        /// Size class of the list.
        bin: u32,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A sum kept beside the nodes differs from the nodes.
    #[error("allocator sum {sum}: kept {kept}, nodes say {counted}")]
    BadSum {
        /// Name of the sum.
        sum: &'static str,
        /// Value that was kept.
        kept: u64,
        /// Value that the nodes add up to.
        counted: u64,
    },
    /// A handle names a node that is not used at that offset.
    #[error("handle of owner {owner}: node {node} is not a used node at that offset")]
    StrayHandle {
        /// Node that the handle names.
        node: u32,
        /// Owner of the handle.
        owner: u32,
    },
    /// Two handles name one node.
    #[error("node {node} is claimed by two handles, owners {first} and {second}")]
    TwoHandles {
        /// Node that both name.
        node: u32,
        /// Owner of the handle read first.
        first: u32,
        /// Owner of the other.
        second: u32,
    },
    /// The bytes of a handle do not round to the size of its node.
    #[error("handle of owner {owner}: {bytes} bytes do not fit node {node}")]
    WrongSize {
        /// Node that the handle names.
        node: u32,
        /// Owner of the handle.
        owner: u32,
        /// Bytes that the handle says.
        bytes: u64,
    },
    /// A used node that no handle names.
    #[error("node {node} is used, but no object owns it")]
    NoHandle {
        /// Number of the node.
        node: u32,
    },
}
