//! What can happen in a random history, in small numbers.
//!
//! Few keys, clients and segments, so that what happens meets: writes are preempted, segments vanish under
//! copies, leases run into removals, memory runs out. Two tenants have the same keys.

use proptest::prelude::*;

use super::model::Rules;

pub const CLIENTS: u8 = 3;
pub const SEGMENTS: u8 = 5;
/// Number of a further segment that only makes quotas large enough: it is closed to writers and never ends.
pub const DORMANT: u8 = 200;
/// Its owner, which is always heard.
pub const KEEPER: u8 = 9;
/// Its bytes.
pub const DORMANT_BYTES: u64 = 1 << 20;
/// Bytes of a segment.
pub const ROOM: u64 = 64 << 10;
pub const TENANTS: u8 = 2;
/// Keys of each tenant; the second one's numbers follow the first one's.
pub const KEYS_EACH: u8 = 5;
const KEYS: u8 = TENANTS * KEYS_EACH;
/// Number of the key that is empty, which no call accepts.
pub const EMPTY_KEY: u8 = KEYS;
/// From here on a number means one of those that suit the act: see `Model::aim`.
pub const AIMED: u8 = 100;
const SIZES: [u64; 5] = [1, 100, 5_000, 12_000, 40_000];

/// What a write asks for.
#[derive(Clone, Debug)]
pub struct How {
    pub copies: u64,
    pub action: u8,
    pub ttl: Option<u64>,
    pub is_hard: bool,
    /// Names of segments.
    pub preferred: Vec<u8>,
    /// A group for each key; 0 for "no group".
    pub group: Option<u8>,
    /// One group too many.
    pub has_bad_groups: bool,
}

impl How {
    /// Copies, and nothing else that could be asked for.
    pub fn plain(copies: u64) -> Self {
        How {
            copies,
            action: 0,
            ttl: None,
            is_hard: false,
            preferred: Vec::new(),
            group: None,
            has_bad_groups: false,
        }
    }
}

/// One step. `by: None` stands for whoever may do it.
#[derive(Clone, Debug)]
pub enum Act {
    Pass(u64),
    /// The wall clock is set, relative to what it shows.
    SetWall(i64),
    Mount {
        by: u8,
        n: u8,
        form: u8,
    },
    Remount {
        by: u8,
        ns: Vec<u8>,
    },
    Unmount {
        by: Option<u8>,
        n: u8,
    },
    Graceful {
        by: Option<u8>,
        n: u8,
        grace: u64,
    },
    Ping {
        by: u8,
    },
    Start {
        by: u8,
        keys: Vec<u8>,
        size: u64,
        how: How,
        is_upsert: bool,
        is_batch: bool,
    },
    End {
        by: Option<u8>,
        keys: Vec<u8>,
        kind: i32,
        checksum: Option<u64>,
        is_upsert: bool,
        is_batch: bool,
    },
    Revoke {
        by: Option<u8>,
        keys: Vec<u8>,
        kind: i32,
        is_upsert: bool,
        is_batch: bool,
    },
    Read {
        keys: Vec<u8>,
        is_batch: bool,
    },
    Exists {
        keys: Vec<u8>,
        is_batch: bool,
    },
    ReadMatching {
        tenant: u8,
        pattern: u8,
    },
    Remove {
        keys: Vec<u8>,
        force: bool,
        is_batch: bool,
    },
    /// Of one tenant, or of all.
    RemoveAll {
        tenant: Option<u8>,
        force: bool,
    },
    RemoveMatching {
        tenant: u8,
        pattern: u8,
        force: bool,
    },
    Clear {
        by: Option<u8>,
        keys: Vec<u8>,
        name: Option<u8>,
    },
    Transfer {
        by: u8,
        key: u8,
        is_move: bool,
        from: Option<u8>,
        to: Vec<u8>,
    },
    EndTransfer {
        by: Option<u8>,
        key: u8,
        is_move: Option<bool>,
        is_revoke: bool,
    },
    MakeTask {
        key: u8,
        is_move: bool,
        from: u8,
        to: Vec<u8>,
    },
    Fetch {
        by: u8,
        count: u64,
    },
    /// Of the task with that place among those ever made.
    Complete {
        by: Option<u8>,
        task: u8,
        status: i32,
    },
    QueryTask {
        task: u8,
    },
    Status {
        name: u8,
    },
    StatusById {
        n: u8,
    },
    Hosts {
        clients: Vec<u8>,
    },
    /// The loops' work.
    Sweep,
    Expire,
    FinishUnmounts,
    Evict,
    /// Two calls at once, the first begun first.
    Race(Box<Act>, Box<Act>),
    /// The node stops and starts on what it has on disk.
    Restart,
}

/// The name of segment `n`; two segments share one.
pub fn name_of(n: u8) -> u8 {
    if n == DORMANT { 5 } else { [0, 1, 2, 0, 3][usize::from(n % SEGMENTS)] }
}

/// A segment's name as text; some names are nobody's.
pub fn name_text(name: u8) -> &'static str {
    ["a", "b", "c", "d", "nobody", "dormant"][usize::from(name)]
}

/// Whose key it is. The keys of one act are one tenant's.
pub fn tenant_of(key: u8) -> u8 {
    if key == EMPTY_KEY { 0 } else { key / KEYS_EACH }
}

pub fn tenant_text(tenant: u8) -> &'static str {
    ["default", "other"][usize::from(tenant)]
}

/// The key as its tenant calls it.
pub fn key_text(key: u8) -> String {
    if key == EMPTY_KEY { String::new() } else { format!("k{}", key % KEYS_EACH) }
}

/// A key of a tenant, by the name that it has in this test.
pub fn scoped(tenant: u8, key: &str) -> String {
    format!("{}/{key}", tenant_text(tenant))
}

/// The name of a key in this test.
pub fn name_of_key(key: u8) -> String {
    scoped(tenant_of(key), &key_text(key))
}

pub fn group_text(group: u8) -> String {
    if group == 0 { String::new() } else { format!("g{group}") }
}

/// Patterns with the numbers of the first tenant's keys that each is found in, or `None` where it is no pattern.
pub const PATTERNS: [(&str, Option<&[u8]>); 6] = [
    ("^k[0-3]$", Some(&[0, 1, 2, 3])),
    ("k", Some(&[0, 1, 2, 3, 4])),
    ("(?=k4)k", Some(&[4])),
    ("[24]", Some(&[2, 4])),
    ("other", Some(&[])),
    ("(", None),
];

fn key() -> impl Strategy<Value = u8> {
    prop_oneof![60 => 0..KEYS, 1 => Just(EMPTY_KEY)]
}

/// Mostly a key that the act can work on.
fn aimed_key() -> impl Strategy<Value = u8> {
    prop_oneof![5 => (0..KEYS).prop_map(|n| AIMED + n), 1 => key()]
}

fn several(key: impl Strategy<Value = u8> + Clone + 'static) -> impl Strategy<Value = Vec<u8>> {
    let one = key.clone().prop_map(|key| vec![key]);
    prop_oneof![3 => one, 1 => prop::collection::vec(key, 2..4)]
}

fn name() -> impl Strategy<Value = u8> {
    prop_oneof![20 => 0..4_u8, 1 => Just(4)]
}

/// Mostly a name that can take a copy.
fn aimed_name() -> impl Strategy<Value = u8> {
    prop_oneof![4 => (0..4_u8).prop_map(|n| AIMED + n), 1 => name()]
}

fn tenant() -> impl Strategy<Value = u8> {
    0..TENANTS
}

fn client() -> impl Strategy<Value = u8> {
    1..=CLIENTS
}

/// Mostly the one who may.
fn anybody() -> impl Strategy<Value = Option<u8>> {
    prop_oneof![6 => Just(None), 1 => client().prop_map(Some)]
}

fn how() -> impl Strategy<Value = How> {
    let copies = prop_oneof![30 => Just(1_u64), 15 => Just(2), 4 => Just(3), 1 => Just(0)];
    let pin = prop_oneof![
        8 => Just((0_u8, None)),
        3 => Just((1, None)),
        8 => (100..30_000_u64).prop_map(|ttl| (1, Some(ttl))),
        1 => Just((1, Some(0))),
        1 => Just((1, Some(100_001))),
        4 => Just((2, None)),
        1 => (0..4_u8).prop_map(|action| (action, Some(7))),
        1 => Just((3, None)),
    ];
    let group = prop_oneof![5 => Just(None), 1 => Just(Some(0)), 3 => (1..3_u8).prop_map(Some)];
    let preferred = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(name(), 1..3)];
    let rare = (prop::bool::weighted(0.15), prop::bool::weighted(0.02));
    (copies, pin, group, preferred, rare).prop_map(
        |(copies, (action, ttl), group, preferred, (is_hard, has_bad_groups))| How {
            copies,
            action,
            ttl,
            is_hard,
            preferred,
            group,
            has_bad_groups,
        },
    )
}

/// Replica types: all, memory, and some that match nothing or are none.
fn kind() -> impl Strategy<Value = i32> {
    prop_oneof![12 => Just(4), 6 => Just(0), 1 => Just(1), 1 => Just(3), 1 => Just(9)]
}

fn write() -> impl Strategy<Value = Act> {
    let size = || prop_oneof![60 => prop::sample::select(SIZES.to_vec()), 1 => Just(0)];
    let flags = || (any::<bool>(), any::<bool>());
    let start_keys = prop_oneof![3 => several(key().boxed()), 1 => several(aimed_key().boxed())];
    let start = (client(), start_keys, size(), how(), flags()).prop_map(
        |(by, keys, size, how, (is_upsert, is_batch))| {
            let is_batch = is_batch || keys.len() > 1;
            Act::Start { by, keys, size, how, is_upsert, is_batch }
        },
    );
    let checksum = prop::option::of(any::<u64>());
    let end = (anybody(), several(aimed_key().boxed()), kind(), checksum, flags()).prop_map(
        |(by, keys, kind, checksum, (is_upsert, is_batch))| {
            let is_batch = is_batch || keys.len() > 1;
            // The batch form of UpsertEnd has no type.
            let kind = if is_upsert && is_batch { 4 } else { kind };
            Act::End { by, keys, kind, checksum, is_upsert, is_batch }
        },
    );
    let revoke = (anybody(), several(aimed_key().boxed()), kind(), flags()).prop_map(
        |(by, keys, kind, (is_upsert, is_batch))| {
            let is_batch = is_batch || keys.len() > 1;
            let kind = if is_upsert && is_batch { 4 } else { kind };
            Act::Revoke { by, keys, kind, is_upsert, is_batch }
        },
    );
    prop_oneof![12 => start, 12 => end, 2 => revoke]
}

fn read_or_remove() -> impl Strategy<Value = Act> {
    let force = || prop::bool::weighted(0.3);
    let several = || {
        let keys = several(aimed_key().boxed());
        (keys, any::<bool>()).prop_map(|(keys, b)| (b || keys.len() > 1, keys))
    };
    let pattern = || 0..PATTERNS.len() as u8;
    prop_oneof![
        6 => several().prop_map(|(is_batch, keys)| Act::Read { keys, is_batch }),
        3 => several().prop_map(|(is_batch, keys)| Act::Exists { keys, is_batch }),
        1 => (tenant(), pattern())
            .prop_map(|(tenant, pattern)| Act::ReadMatching { tenant, pattern }),
        5 => (several(), force())
            .prop_map(|((is_batch, keys), force)| Act::Remove { keys, force, is_batch }),
        1 => (prop::option::of(tenant()), prop::bool::weighted(0.1))
            .prop_map(|(tenant, force)| Act::RemoveAll { tenant, force }),
        1 => (tenant(), pattern(), force()).prop_map(
            |(tenant, pattern, force)| Act::RemoveMatching { tenant, pattern, force }
        ),
        2 => (anybody(), prop::collection::vec(aimed_key(), 0..3), prop::option::of(name()))
            .prop_map(|(by, keys, name)| Act::Clear { by, keys, name }),
    ]
}

fn segment() -> impl Strategy<Value = Act> {
    let n = || 0..SEGMENTS;
    let form = prop_oneof![12 => Just(0_u8), 1 => 1..4_u8];
    let ns = prop::collection::vec(n(), 0..3);
    prop_oneof![
        5 => (client(), n(), form).prop_map(|(by, n, form)| Act::Mount { by, n, form }),
        3 => (client(), ns).prop_map(|(by, ns)| Act::Remount { by, ns }),
        2 => (anybody(), n()).prop_map(|(by, n)| Act::Unmount { by, n }),
        2 => (anybody(), n(), 0..9_000_u64)
            .prop_map(|(by, n, grace)| Act::Graceful { by, n, grace }),
        8 => client().prop_map(|by| Act::Ping { by }),
        1 => name().prop_map(|name| Act::Status { name }),
        1 => n().prop_map(|n| Act::StatusById { n }),
        1 => prop::collection::vec(client(), 0..3).prop_map(|clients| Act::Hosts { clients }),
    ]
}

fn copying() -> impl Strategy<Value = Act> {
    let to = || prop::collection::vec(aimed_name(), 0..3);
    let kind = prop_oneof![8 => Just(None), 1 => any::<bool>().prop_map(Some)];
    // Mostly from where the key lies.
    let from = prop_oneof![4 => Just(None), 1 => name().prop_map(Some)];
    let status = prop_oneof![4 => Just(3), 2 => Just(2), 1 => Just(1)];
    prop_oneof![
        8 => (client(), aimed_key(), any::<bool>(), from, to()).prop_map(
            |(by, key, is_move, from, mut to)| {
                if is_move {
                    to.resize(1, AIMED);
                }
                Act::Transfer { by, key, is_move, from, to }
            }
        ),
        7 => (anybody(), aimed_key(), kind, prop::bool::weighted(0.25)).prop_map(
            |(by, key, is_move, is_revoke)| Act::EndTransfer { by, key, is_move, is_revoke }
        ),
        3 => (aimed_key(), any::<bool>(), name(), to()).prop_map(|(key, is_move, from, mut to)| {
            if is_move {
                to.resize(1, AIMED);
            }
            Act::MakeTask { key, is_move, from, to }
        }),
        2 => (prop_oneof![client(), Just(AIMED)], 0..3_u64)
            .prop_map(|(by, count)| Act::Fetch { by, count }),
        2 => (anybody(), prop_oneof![0..8_u8, Just(AIMED)], status)
            .prop_map(|(by, task, status)| Act::Complete { by, task, status }),
        1 => (0..8_u8).prop_map(|task| Act::QueryTask { task }),
    ]
}

fn work() -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => Just(Act::Sweep),
        2 => Just(Act::Expire),
        2 => Just(Act::FinishUnmounts),
        6 => Just(Act::Evict),
    ]
}

fn race() -> impl Strategy<Value = Act> {
    let call = |key: u8| {
        let (keys, is_batch) = (vec![key], false);
        let read = Act::Read { keys: keys.clone(), is_batch };
        let exists = Act::Exists { keys: keys.clone(), is_batch };
        let remove = |force| Act::Remove { keys: vec![key], force, is_batch };
        let clear = Act::Clear { by: None, keys, name: None };
        prop_oneof![
            4 => Just(read),
            2 => Just(exists),
            4 => Just(remove(false)),
            1 => Just(remove(true)),
            1 => Just(clear),
        ]
    };
    let among_calls = aimed_key().prop_flat_map(move |key| (call(key), call(key)));
    let reads = aimed_key().prop_map(|key| Act::Read { keys: vec![key], is_batch: false });
    let with_evictor = (reads, any::<bool>()).prop_map(|(read, is_first)| match is_first {
        true => (read, Act::Evict),
        false => (Act::Evict, read),
    });
    let upsert = (client(), aimed_key(), prop::sample::select(SIZES.to_vec()), how())
        .prop_flat_map(|(by, key, size, how)| {
            let keys = vec![key];
            let start = Act::Start { by, keys, size, how, is_upsert: true, is_batch: false };
            let remove = Act::Remove { keys: vec![key], force: false, is_batch: false };
            prop_oneof![Just((start.clone(), remove.clone())), Just((remove, start))]
        });
    prop_oneof![3 => among_calls, 2 => with_evictor, 1 => upsert]
        .prop_map(|(one, other)| Act::Race(Box::new(one), Box::new(other)))
}

fn act() -> impl Strategy<Value = Act> {
    let pass = prop_oneof![
        1 => Just(0),
        8 => 1..1_500_u64,
        3 => 1_500..12_000_u64,
        1 => 12_000..70_000_u64,
    ];
    prop_oneof![
        18 => pass.prop_map(Act::Pass),
        1 => (-90_000..90_000_i64).prop_map(Act::SetWall),
        30 => write(),
        18 => read_or_remove(),
        9 => segment(),
        13 => copying(),
        14 => work(),
        5 => race(),
        1 => Just(Act::Restart),
    ]
}

/// A group under pressure: its members are the oldest objects when memory must be freed, and more than are to go.
fn crowd() -> impl Strategy<Value = Vec<Act>> {
    (tenant(), client(), 1..3_u8).prop_map(|(tenant, by, group)| {
        let key = |n: u8| tenant * KEYS_EACH + n;
        let plain = How::plain(1);
        let write = |keys: Vec<u8>, size, how: How| {
            let (is_upsert, is_batch) = (false, true);
            let start = Act::Start { by, keys: keys.clone(), size, how, is_upsert, is_batch };
            let (by, kind, checksum) = (Some(by), 4, None);
            [start, Act::End { by, keys, kind, checksum, is_upsert, is_batch }, Act::Pass(150)]
        };
        let members = How { group: Some(group), ..plain.clone() };
        let others = How { copies: 3, ..plain };
        let empty = Act::RemoveAll { tenant: None, force: true };
        let mount = |n: u8| Act::Remount { by: 1 + n % CLIENTS, ns: vec![n] };
        let mut acts = vec![Act::FinishUnmounts, Act::Sweep, empty];
        acts.extend((0..3).map(mount));
        acts.extend(write(vec![key(0), key(1), key(2)], 5_000, members));
        acts.extend(write(vec![key(3)], 40_000, others));
        acts.extend([Act::Pass(3_500), Act::Evict]);
        acts
    })
}

/// The rules of a deployment, and a history that begins with memory to write to.
pub fn history() -> impl Strategy<Value = (Rules, Vec<Act>)> {
    let rules = (any::<bool>(), 0..3_u8).prop_map(|(allows_pinned, strategy)| Rules {
        allows_pinned,
        strategy,
        ..Rules::default()
    });
    // In boxes: the trees of all acts by value are more than a test's stack holds twice.
    let one = act().boxed().prop_map(|act| vec![act]);
    let step = prop_oneof![100 => one.boxed(), 1 => crowd().boxed()];
    let steps = prop::collection::vec(step, 20..160);
    (rules, steps).prop_map(|(rules, steps)| {
        let mount = |n: u8| Act::Remount { by: 1 + n % CLIENTS, ns: vec![n] };
        let mut history: Vec<Act> = (0..3).map(mount).collect();
        history.extend(steps.into_iter().flatten());
        (rules, history)
    })
}
