//! The tenant argument of a call: which name space its keys are in (behaviour 1.1, 9.1).
//!
//! Unless tenants are kept apart the argument is ignored, whatever it is. Reads, Ends and removals of a tenant
//! without a quota are allowed: it may have objects from before. Whether a tenant has a quota is decided when the
//! command is applied.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::Service;
use crate::model::{ErrorCode, Tenant};
use crate::node::error::NodeError;

static DEFAULT: LazyLock<Tenant> = LazyLock::new(Tenant::default);

/// A tenant, mostly the default one.
pub type Named = Cow<'static, Tenant>;

impl Service {
    fn keeps_tenants_apart(&self) -> bool {
        self.node.settings().tenants.is_enabled
    }

    /// The tenant of a read, an End, a Revoke or a removal. Errors: `InvalidParams` for a name that no tenant can
    /// have.
    pub fn reader(&self, name: &[u8]) -> Result<Named, ErrorCode> {
        if !self.keeps_tenants_apart() || name.is_empty() || name == Tenant::DEFAULT_NAME.as_bytes()
        {
            return Ok(Cow::Borrowed(&*DEFAULT));
        }
        parse(name).map(Cow::Owned).ok_or(ErrorCode::InvalidParams)
    }

    /// The tenant of a call that uses quota. Inner errors: `TenantNotRegistered` for no name, or one that no tenant
    /// can have.
    ///
    /// Errors: the log does not know yet whether tenants are kept apart, which is so for a moment after a start.
    pub fn writer(&self, name: &[u8]) -> Result<Result<Named, ErrorCode>, NodeError> {
        let is_apart = self.keeps_tenants_apart();
        if self.node.machine().view().is_enforced() != is_apart {
            let why = "this leader has not told the log yet whether tenants are kept apart";
            return Err(NodeError::Unavailable(why.into()));
        }
        if !is_apart {
            return Ok(Ok(Cow::Borrowed(&*DEFAULT)));
        }
        let tenant = Some(name).filter(|name| !name.is_empty()).and_then(parse);
        Ok(tenant.map(Cow::Owned).ok_or(ErrorCode::TenantNotRegistered))
    }

    /// The tenant whose objects are all to go; `None` for those of every tenant. Errors: `InvalidParams` for a name
    /// that no tenant can have.
    pub fn all_of(&self, name: &[u8]) -> Result<Option<Named>, ErrorCode> {
        if name.is_empty() { Ok(None) } else { self.reader(name).map(Some) }
    }
}

fn parse(name: &[u8]) -> Option<Tenant> {
    Tenant::parse(std::str::from_utf8(name).ok()?)
}
