//! Stories of unmodified Mooncake clients against a master, all in real processes.

mod clients;
mod disks;
mod eviction;
mod groups;
mod kill_storm;
mod leases;
mod metadata;
mod older;
mod outage;
mod read_write;
mod removal;
mod snapshots;
mod soft_pin;
mod tasks;
mod tenants;
mod upsert;
