//! Tenants: who may write, how much, and what each is charged (behaviour 9).
//!
//! Policies are replicated. What a tenant is charged is derived: the bytes of the memory replicas of its objects,
//! unfinished ones included, so nothing can be charged or refunded twice; `settle.rs` keeps the sums. The one thing
//! that objects do not show is replicated beside them: content that a write of another size replaces stays charged
//! until that write has ended. Memory that is set aside is charged to nobody.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::State;
use super::settle::Charge;
use crate::model::ids::TENANT_POLICIES_MAX;
use crate::model::{ErrorCode, ObjectRef, Tenant, TenantIdx};

/// The quota of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantPolicy {
    /// Which tenant.
    pub tenant: Tenant,
    /// Bytes asked for; not 0.
    pub quota_bytes: u64,
}

/// The policy file of a node as it was last taken in or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyFile {
    /// The node that has it.
    pub node_id: u64,
    /// Hash of its text.
    pub digest: u64,
}

/// Changes what tenants may do. Variants and fields are only appended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TenantChange {
    /// A leader says whether its deployment keeps tenants apart, and what its policy file says if that is new.
    Setup {
        /// Whether only tenants with a policy may write.
        is_enforced: bool,
        /// The leader's file.
        file: Option<PolicyFile>,
        /// All policies, if the file was changed.
        policies: Option<Vec<TenantPolicy>>,
    },
    /// Gives a tenant a policy.
    Set {
        /// The policy.
        policy: TenantPolicy,
        /// The leader's file, which says so already.
        file: Option<PolicyFile>,
    },
    /// Takes the policy of a tenant without objects away.
    Delete {
        /// The tenant.
        tenant: Tenant,
        /// The leader's file, which says so already.
        file: Option<PolicyFile>,
    },
}

/// Who may use how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Replicated. Whether only tenants with a policy may write.
    pub(super) is_enforced: bool,
    /// Replicated. Bytes asked for. Invariant: none is 0.
    policies: BTreeMap<Tenant, u64>,
    /// Replicated. Digests of policy files, by node.
    pub(super) files: BTreeMap<u64, u64>,
    /// Replicated. The digest of the file that says what the policies are, if one does.
    pub(super) current: Option<u64>,
    /// Derived. What each policy amounts to with so much memory.
    effective: BTreeMap<Tenant, u64>,
    /// Derived. Bytes of all mounted segments.
    capacity: u64,
}

impl Quotas {
    /// Whether only tenants with a policy may write.
    pub fn is_enforced(&self) -> bool {
        self.is_enforced
    }

    /// Bytes asked for, by tenant.
    pub fn policies(&self) -> &BTreeMap<Tenant, u64> {
        &self.policies
    }

    /// The digest of a node's policy file as it was last taken in or written.
    pub fn file(&self, node_id: u64) -> Option<u64> {
        self.files.get(&node_id).copied()
    }

    /// The digest of the file that says what the policies are, if one does.
    pub fn current_file(&self) -> Option<u64> {
        self.current
    }

    /// Bytes of all mounted segments, whatever their status.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes that a tenant may be charged; 0 without a policy.
    pub fn effective(&self, tenant: &Tenant) -> u64 {
        self.effective.get(tenant).copied().unwrap_or(0)
    }

    fn note_file(&mut self, file: Option<PolicyFile>) {
        self.current = file.map(|file| file.digest);
        self.files.extend(file.map(|file| (file.node_id, file.digest)));
    }
}

/// What each policy amounts to: itself while all of them fit, else a share in proportion. Bytes that are left over
/// go one each to the largest remainders, among equal ones by name.
pub(super) fn shares(policies: &BTreeMap<Tenant, u64>, capacity: u64) -> BTreeMap<Tenant, u64> {
    let total: u128 = policies.values().map(|quota| u128::from(*quota)).sum();
    if total <= u128::from(capacity) {
        return policies.clone();
    }
    let product = |quota: u64| u128::from(capacity) * u128::from(quota);
    let share = |quota: u64| u64::try_from(product(quota) / total).unwrap_or(u64::MAX);
    let mut shares: BTreeMap<Tenant, u64> =
        policies.iter().map(|(tenant, quota)| (tenant.clone(), share(*quota))).collect();
    let mut left = capacity.saturating_sub(shares.values().sum());
    let remainder = |(tenant, quota): (&Tenant, &u64)| (product(*quota) % total, tenant.clone());
    let mut by_remainder: Vec<(u128, Tenant)> = policies.iter().map(remainder).collect();
    by_remainder.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    for (_, tenant) in by_remainder {
        if left == 0 {
            break;
        }
        if let Some(share) = shares.get_mut(&tenant) {
            *share += 1;
            left -= 1;
        }
    }
    shares
}

/// What a tenant has. Derived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Objects, readable or not.
    pub objects: u64,
    /// Bytes charged.
    pub charged: u64,
}

/// Usage by tenant, and what is charged for replaced content.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// Derived. By number.
    usage: Vec<Usage>,
    /// Replicated. Bytes of replaced content. Invariant: each is of an object whose write is in progress.
    replaced: BTreeMap<ObjectRef, u64>,
}

impl Ledger {
    pub fn of(&self, tenant: TenantIdx) -> Usage {
        self.usage.get(tenant.0 as usize).copied().unwrap_or_default()
    }

    fn change(&mut self, tenant: TenantIdx, change: impl FnOnce(&mut Usage)) {
        let at = tenant.0 as usize;
        if self.usage.len() <= at {
            self.usage.resize(at + 1, Usage::default());
        }
        if let Some(usage) = self.usage.get_mut(at) {
            change(usage);
        }
    }

    /// An object was changed; `is_write_over` if its write ended by it, or it has gone.
    pub fn settle(
        &mut self,
        object: ObjectRef,
        before: Charge,
        after: Charge,
        is_write_over: bool,
    ) {
        let replaced = match is_write_over && !self.replaced.is_empty() {
            true => self.replaced.remove(&object).unwrap_or(0),
            false => 0,
        };
        if before == after && replaced == 0 {
            return;
        }
        let tenant = if after.objects > 0 { after.tenant } else { before.tenant };
        self.change(tenant, |usage| {
            // Unsigned wrap-around cancels out, as in the totals.
            usage.objects = usage.objects.wrapping_sub(before.objects).wrapping_add(after.objects);
            let charged = usage.charged.wrapping_sub(before.bytes).wrapping_add(after.bytes);
            usage.charged = charged.wrapping_sub(replaced);
        });
    }

    /// Keeps charging for content that the write in progress on an object replaces.
    pub fn keep_replaced(&mut self, object: ObjectRef, tenant: TenantIdx, bytes: u64) {
        if bytes > 0 {
            let earlier = self.replaced.insert(object, bytes).unwrap_or(0);
            self.change(tenant, |usage| {
                usage.charged = usage.charged.wrapping_sub(earlier).wrapping_add(bytes);
            });
        }
    }

    pub fn replaced_of(&self, object: ObjectRef) -> u64 {
        self.replaced.get(&object).copied().unwrap_or(0)
    }

    pub fn replaced(&self) -> impl Iterator<Item = (ObjectRef, u64)> {
        self.replaced.iter().map(|(object, bytes)| (*object, *bytes))
    }
}

/// A tenant as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub tenant: Tenant,
    /// Bytes asked for; 0 without a policy.
    pub requested: u64,
    /// Bytes that it may be charged.
    pub effective: u64,
    /// What it has.
    pub usage: Usage,
    /// Whether it has a policy.
    pub has_policy: bool,
}

impl Account {
    /// Whether it is charged more than it may be.
    pub fn is_over_quota(&self) -> bool {
        self.usage.charged > self.effective
    }
}

impl State {
    /// Who may use how much.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// A tenant that has a policy or objects.
    pub fn account(&self, tenant: &Tenant) -> Option<Account> {
        let index = self.tenant_idx(Some(tenant));
        let usage = index.map(|index| self.ledger.of(index)).unwrap_or_default();
        let requested = self.quotas.policies.get(tenant).copied();
        (requested.is_some() || usage.objects > 0).then(|| Account {
            tenant: tenant.clone(),
            requested: requested.unwrap_or(0),
            effective: self.quotas.effective(tenant),
            usage,
            has_policy: requested.is_some(),
        })
    }

    /// Every tenant that has a policy or objects, by name.
    pub fn accounts(&self) -> Vec<Account> {
        // A tenant with a policy has a number, and so has one with an object.
        self.tenants.uses().filter_map(|(tenant, _)| self.account(tenant)).collect()
    }

    /// Every tenant that has a number, with it, by name.
    pub fn tenants(&self) -> impl Iterator<Item = (&Tenant, TenantIdx)> {
        let numbered = |(tenant, _)| Some((tenant, TenantIdx(self.tenants.number(tenant)?)));
        self.tenants.uses().filter_map(numbered)
    }

    /// The number of a tenant, counted as one more use.
    pub(super) fn acquire_tenant(&mut self, tenant: &Tenant) -> TenantIdx {
        let is_new = self.tenants.number(tenant).is_none();
        let index = TenantIdx(self.tenants.acquire(tenant));
        if is_new {
            self.view.publish_tenant(tenant, index);
        }
        index
    }

    /// Gives one use of a tenant's number back. A number is not used again: a reader may still look for it.
    pub(super) fn release_tenant(&mut self, tenant: TenantIdx) {
        if let Some(gone) = self.tenants.retire(tenant.0) {
            self.view.forget_tenant(&gone);
        }
    }

    /// Refused unless the tenant may write. Errors: `TenantNotRegistered`.
    pub(super) fn admit(&self, tenant: &Tenant) -> Result<(), ErrorCode> {
        match self.quotas.is_enforced && !self.quotas.policies.contains_key(tenant) {
            true => Err(ErrorCode::TenantNotRegistered),
            false => Ok(()),
        }
    }

    /// Refused if a tenant may not be charged so many bytes more, once `refund` bytes are taken off. To charge
    /// nothing is never refused. Errors: `TenantQuotaExceeded`.
    pub(super) fn check_quota(
        &self,
        tenant: &Tenant,
        bytes: u64,
        refund: u64,
    ) -> Result<(), ErrorCode> {
        match self.quotas.is_enforced && self.quota_deficit(tenant, bytes, refund) > 0 {
            true => Err(ErrorCode::TenantQuotaExceeded),
            false => Ok(()),
        }
    }

    /// Bytes that a tenant must give up before it may be charged `bytes` more, with `refund` taken off.
    pub fn quota_deficit(&self, tenant: &Tenant, bytes: u64, refund: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let index = self.tenant_idx(Some(tenant));
        let charged = index.map_or(0, |index| self.ledger.of(index).charged);
        let wanted = charged.saturating_sub(refund).saturating_add(bytes);
        wanted.saturating_sub(self.quotas.effective(tenant))
    }

    /// Errors of `Set`: `InvalidParams` for a quota of 0 or one tenant too many. Of `Delete`: `ObjectNotFound`
    /// without a policy; `TenantNotEmpty` while it has objects.
    pub(super) fn change_tenants(&mut self, change: &TenantChange) -> Result<(), ErrorCode> {
        match change {
            TenantChange::Setup { is_enforced, file, policies } => {
                self.quotas.is_enforced = *is_enforced;
                self.view.publish_enforced(*is_enforced);
                let Some(policies) = policies else {
                    self.quotas.files.extend(file.map(|file| (file.node_id, file.digest)));
                    return Ok(());
                };
                let named = policies.iter().filter(|policy| policy.quota_bytes > 0);
                let named = named.map(|policy| (policy.tenant.clone(), policy.quota_bytes));
                self.set_policies(named.take(TENANT_POLICIES_MAX).collect());
                self.quotas.note_file(*file);
            }
            TenantChange::Set { policy, file } => {
                let mut policies = self.quotas.policies.clone();
                policies.insert(policy.tenant.clone(), policy.quota_bytes);
                if policy.quota_bytes == 0 || policies.len() > TENANT_POLICIES_MAX {
                    return Err(ErrorCode::InvalidParams);
                }
                self.set_policies(policies);
                self.quotas.note_file(*file);
            }
            TenantChange::Delete { tenant, file } => {
                let account = self.account(tenant).filter(|account| account.has_policy);
                let account = account.ok_or(ErrorCode::ObjectNotFound)?;
                if account.usage != Usage::default() {
                    return Err(ErrorCode::TenantNotEmpty);
                }
                let mut policies = self.quotas.policies.clone();
                policies.remove(tenant);
                self.set_policies(policies);
                self.quotas.note_file(*file);
            }
        }
        Ok(())
    }

    /// Replaces all policies. A tenant with a policy keeps its number while it has no object.
    pub(super) fn set_policies(&mut self, policies: BTreeMap<Tenant, u64>) {
        let gone: Vec<Tenant> = self.quotas.policies.keys().cloned().collect();
        for tenant in policies.keys() {
            self.acquire_tenant(tenant);
        }
        for tenant in gone {
            if let Some(index) = self.tenant_idx(Some(&tenant)) {
                self.release_tenant(index);
            }
        }
        self.quotas.policies = policies;
        self.quotas.effective = shares(&self.quotas.policies, self.quotas.capacity);
    }

    /// Works out anew what policies amount to if memory has come or gone.
    pub(super) fn refresh_quotas(&mut self) {
        let sizes = self.segments.iter().map(|(_, mounted)| mounted.segment.size);
        let capacity = sizes.fold(0, u64::saturating_add);
        if capacity != self.quotas.capacity {
            self.quotas.capacity = capacity;
            self.quotas.effective = shares(&self.quotas.policies, capacity);
        }
    }

    /// What a restore keeps of the state that it replaces: whether tenants are kept apart, and the policies if
    /// there are any; those of a snapshot are for a cluster that has none.
    pub(super) fn keep_quotas(&mut self, old: &Quotas) {
        if !old.policies.is_empty() || !old.files.is_empty() {
            self.set_policies(old.policies.clone());
        }
        self.quotas.is_enforced = old.is_enforced;
        self.quotas.files = old.files.clone();
        self.quotas.current = old.current;
    }

    /// Compares usage and quotas with what objects and policies say.
    pub(super) fn check_tenants(&self, counted: &BTreeMap<TenantIdx, Usage>) -> Vec<String> {
        let mut findings = Vec::new();
        let known = self.ledger.usage.iter().zip(0_u32..);
        let kept = known.filter(|(usage, _)| **usage != Usage::default());
        let kept: BTreeMap<_, _> = kept.map(|(usage, at)| (TenantIdx(at), *usage)).collect();
        let mut counted = counted.clone();
        for (object, bytes) in self.ledger.replaced() {
            let of = self.view.table.peek(object, |o| (o.tenant, o.is_processing));
            match of {
                Some((tenant, true)) => counted.entry(tenant).or_default().charged += bytes,
                other => {
                    findings.push(format!("{bytes} bytes are replaced by no write: {other:?}"))
                }
            }
        }
        if kept != counted {
            findings.push(format!("tenants use {kept:?}, counted {counted:?}"));
        }
        let sizes = self.segments.iter().map(|(_, mounted)| mounted.segment.size);
        let capacity = sizes.fold(0, u64::saturating_add);
        let quotas = &self.quotas;
        if quotas.capacity != capacity || quotas.effective != shares(&quotas.policies, capacity) {
            findings.push(format!("quotas are {quotas:?}, memory is {capacity}"));
        }
        let numbers: BTreeMap<_, _> = self.tenants().map(|(t, at)| (t.clone(), at)).collect();
        let mut shown = self.view.tenants();
        shown.insert(Tenant::default(), TenantIdx(0));
        if shown != numbers || self.view.is_enforced() != quotas.is_enforced {
            findings.push(format!("readers see tenants {shown:?}, numbered {numbers:?}"));
        }
        findings
    }
}
