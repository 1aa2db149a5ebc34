//! Policies of tenants between the log, the operator and the policy file (behaviour 9.4).
//!
//! The log holds the truth. A node that leads tells it whether its deployment keeps tenants apart, and takes its
//! policy file in when the file has changed since this node last took it in or wrote it; so a new leader with an old
//! file undoes nothing. An operator's change is written to the leader's file first, then goes to the log.

use std::io::Write;
use std::path::Path;

use parking_lot::Mutex;

use super::MasterNode;
use super::error::NodeError;
use crate::config::{
    POLICY_FILE_BYTES_MAX, Policies, QUOTA_BYTES_MAX, parse_policies, render_policies,
};
use crate::model::ids::{TENANT_POLICIES_MAX, key_hash};
use crate::model::{ErrorCode, Tenant};
use crate::state::Reply;
use crate::state::command::Command;
use crate::state::tenants::{Account, PolicyFile, TenantChange, TenantPolicy};

/// What this node remembers of its policy file.
#[derive(Debug, Default)]
pub(super) struct PolicyDesk {
    /// One change at a time, so that file and log agree.
    turn: tokio::sync::Mutex<()>,
    /// The digest of a file that was complained about, so that it is said once.
    bad: Mutex<Option<u64>>,
}

/// Why a policy was not changed.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Refused by a rule.
    #[error("{}", .0.name())]
    Refused(ErrorCode),
    /// The policy file could not be written; nothing was changed.
    #[error("the policy file cannot be written: {0}")]
    File(String),
    /// The node cannot serve.
    #[error(transparent)]
    Node(#[from] NodeError),
}

fn digest_of(text: &str) -> u64 {
    key_hash(text.as_bytes())
}

/// Replaces a file in one step: whoever reads it, also after a power cut, finds the old text or the new one.
fn replace_file(path: &Path, text: &str) -> std::io::Result<()> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = dir.join(name);
    let mut file = std::fs::File::create(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    std::fs::File::open(dir)?.sync_all()
}

/// What a policy file says now.
enum Seen {
    /// The node has none, or it cannot be read.
    Nothing,
    /// It is this file, and it says this if it is a policy file.
    File(u64, Option<Policies>),
}

impl MasterNode {
    /// Tells the log what this leader's deployment says of tenants, if that is new to it.
    ///
    /// Errors: see [`NodeError`].
    pub(crate) async fn follow_policy_file(&self) -> Result<(), NodeError> {
        let _turn = self.inner.policies.turn.lock().await;
        let node_id = self.settings().node_id;
        let is_enforced = self.settings().tenants.is_enabled;
        let (was_enforced, known, current) = self.look(|state| {
            let quotas = state.quotas();
            (quotas.is_enforced(), quotas.file(node_id), quotas.current_file())
        });
        let (file, policies) = match self.look_at_file(known).await {
            Seen::File(digest, Some(policies)) if known != Some(digest) => {
                let policies = policies.into_iter();
                let policy = |(tenant, quota_bytes)| TenantPolicy { tenant, quota_bytes };
                let is_new = current != Some(digest);
                let policies = is_new.then(|| policies.map(policy).collect());
                (Some(PolicyFile { node_id, digest }), policies)
            }
            Seen::File(..) | Seen::Nothing => (None, None),
        };
        if was_enforced == is_enforced && file.is_none() {
            return Ok(());
        }
        if policies.is_some() {
            tracing::info!("the policy file of tenants is taken in");
        }
        let setup = TenantChange::Setup { is_enforced, file, policies };
        self.propose(&Command::Tenants(setup)).await.map(|_| ())
    }

    /// Reads the policy file; one that is `known` is not parsed.
    async fn look_at_file(&self, known: Option<u64>) -> Seen {
        let Some(path) = self.settings().tenants.policy_file.clone() else { return Seen::Nothing };
        let shown = path.display().to_string();
        let read = move || -> Result<(u64, Result<Policies, String>), String> {
            let bytes = std::fs::metadata(&path).map_err(|error| error.to_string())?.len();
            if bytes > POLICY_FILE_BYTES_MAX {
                return Err(format!("it is larger than {POLICY_FILE_BYTES_MAX} bytes"));
            }
            let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
            let digest = digest_of(&text);
            match known == Some(digest) {
                true => Ok((digest, Ok(Policies::new()))),
                false => Ok((digest, parse_policies(&text))),
            }
        };
        let read = tokio::task::spawn_blocking(read).await;
        let (digest, problem, policies) = match read {
            Ok(Ok((digest, Ok(policies)))) => (digest, None, Some(policies)),
            Ok(Ok((digest, Err(problem)))) => (digest, Some(problem), None),
            Ok(Err(problem)) => (0, Some(problem), None),
            Err(error) => (0, Some(error.to_string()), None),
        };
        let mut bad = self.inner.policies.bad.lock();
        if let Some(problem) = problem
            && bad.replace(digest) != Some(digest)
        {
            tracing::warn!("policy file {shown} is not taken in: {problem}");
        }
        if policies.is_some() {
            *bad = None;
        }
        Seen::File(digest, policies)
    }

    /// Gives a tenant a quota; answers its account.
    ///
    /// Errors: `InvalidParams` for a quota out of bounds or one tenant too many; see [`PolicyError`].
    pub async fn set_policy(
        &self,
        tenant: &Tenant,
        quota_bytes: u64,
    ) -> Result<Option<Account>, PolicyError> {
        let _turn = self.inner.policies.turn.lock().await;
        let before = self.look(|state| state.quotas().policies().clone());
        let mut after = before.clone();
        after.insert(tenant.clone(), quota_bytes);
        let is_allowed = (1..=QUOTA_BYTES_MAX).contains(&quota_bytes);
        if !is_allowed || after.len() > TENANT_POLICIES_MAX {
            return Err(PolicyError::Refused(ErrorCode::InvalidParams));
        }
        let policy = TenantPolicy { tenant: tenant.clone(), quota_bytes };
        self.change_policies(before, after, |file| TenantChange::Set { policy, file }).await?;
        Ok(self.look(|state| state.account(tenant)))
    }

    /// Takes the quota of a tenant without objects away.
    ///
    /// Errors: `ObjectNotFound` without a quota, `TenantNotEmpty`; see [`PolicyError`].
    pub async fn delete_policy(&self, tenant: &Tenant) -> Result<(), PolicyError> {
        let _turn = self.inner.policies.turn.lock().await;
        let account = self.look(|state| state.account(tenant));
        let account = account.filter(|account| account.has_policy);
        let account = account.ok_or(PolicyError::Refused(ErrorCode::ObjectNotFound))?;
        if account.usage.objects > 0 {
            return Err(PolicyError::Refused(ErrorCode::TenantNotEmpty));
        }
        let before = self.look(|state| state.quotas().policies().clone());
        let mut after = before.clone();
        after.remove(tenant);
        let tenant = tenant.clone();
        self.change_policies(before, after, |file| TenantChange::Delete { tenant, file }).await
    }

    /// Writes the file, then the log; if the log refuses, the file says again what it said.
    async fn change_policies(
        &self,
        before: Policies,
        after: Policies,
        change: impl FnOnce(Option<PolicyFile>) -> TenantChange,
    ) -> Result<(), PolicyError> {
        let file = self.write_file(&after).await?;
        let refused = match self.propose(&Command::Tenants(change(file))).await {
            Ok(Reply::Outcome(Ok(()))) => return Ok(()),
            Ok(Reply::Outcome(Err(code))) => PolicyError::Refused(code),
            Ok(_) => PolicyError::Refused(ErrorCode::InternalError),
            // What is unknown may have been done, and the file says it already.
            Err(error @ NodeError::OutcomeUnknown(_)) => return Err(error.into()),
            Err(error) => error.into(),
        };
        if let Err(error) = self.write_file(&before).await {
            tracing::warn!(%error, "the policy file says what was refused; correct it");
        }
        Err(refused)
    }

    async fn write_file(&self, policies: &Policies) -> Result<Option<PolicyFile>, PolicyError> {
        let Some(path) = self.settings().tenants.policy_file.clone() else { return Ok(None) };
        let text = render_policies(policies);
        let file = PolicyFile { node_id: self.settings().node_id, digest: digest_of(&text) };
        let shown = path.display().to_string();
        let written = tokio::task::spawn_blocking(move || replace_file(&path, &text)).await;
        let failed = |why: String| PolicyError::File(format!("{shown}: {why}"));
        match written {
            Ok(Ok(())) => Ok(Some(file)),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_policies;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policies.yaml");
        let policies = [(Tenant::parse("t").unwrap(), 5)].into_iter().collect();
        for policies in [Policies::new(), policies] {
            replace_file(&path, &render_policies(&policies)).unwrap();
            assert_eq!(read_policies(&path).unwrap().0, policies);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(replace_file(&dir.path().join("no/such"), "").is_err());
    }
}
