//! Calls, failures and batch items by function (behaviour 13.2).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::wire::Function;

/// Counts of one function.
#[derive(Debug, Default)]
pub struct FunctionCounters {
    /// Calls.
    pub requests: AtomicU64,
    /// Calls in which everything failed.
    pub failures: AtomicU64,
    /// Batch calls in which something failed.
    pub partial_successes: AtomicU64,
    /// Items of batch calls.
    pub items: AtomicU64,
    /// Failed items of batch calls.
    pub failed_items: AtomicU64,
}

/// Counts of every function.
#[derive(Debug)]
pub struct RpcCounters {
    functions: Vec<FunctionCounters>,
}

impl Default for RpcCounters {
    fn default() -> Self {
        RpcCounters { functions: Function::ALL.iter().map(|_| Default::default()).collect() }
    }
}

impl RpcCounters {
    /// The counts of a function.
    pub fn of(&self, function: Function) -> Option<&FunctionCounters> {
        self.functions.get(function as usize)
    }

    /// Counts one call with its items and how many of them failed. An empty batch is no failure (the peer
    /// counts it as one).
    pub fn record(&self, function: Function, items: u64, failed: u64) {
        let Some(counters) = self.of(function) else { return };
        let add = |counter: &AtomicU64, value: u64| {
            counter.fetch_add(value, Ordering::Relaxed);
        };
        add(&counters.requests, 1);
        add(&counters.items, items);
        if failed > 0 {
            add(&counters.failed_items, failed);
            let is_total = failed == items;
            add(if is_total { &counters.failures } else { &counters.partial_successes }, 1);
        }
    }
}
