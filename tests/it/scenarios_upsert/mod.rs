//! RPC-level scenarios over the real wire: B upserts, C soft pins over upserts, G groups, L patterns, D14 to
//! D16 replica clear, E10 to E14 and E20 graceful unmount and hosts. Named by their number in the scenario list.

mod bulk;
mod calls;
mod groups;
mod pins;
mod segments;
mod upserts;
