//! Requests of 0.3.12 as today's, today's answers as 0.3.12 reads them.
//!
//! What the older form cannot say has one meaning: a soft pin asked for is one of the default length,
//! none asked for leaves the pin as it is, an End gives no checksum.

use super::types as older;
use crate::wire::pack::Map;
use crate::wire::requests;
use crate::wire::types::{self, ObjectMeta, SoftPinAction};

/// A request of today that an older one stands for.
pub trait FromOlder<O> {
    /// What it stands for.
    fn from_older(older: O) -> Self;
}

/// An answer that an older client reads otherwise.
pub trait ToOlder {
    /// How it reads it.
    type Older;

    /// The same answer for it.
    fn to_older(self) -> Self::Older;
}

impl<S> FromOlder<older::ReplicateConfig<S>> for types::ReplicateConfig<S> {
    fn from_older(older: older::ReplicateConfig<S>) -> Self {
        let soft_pin_action = match older.with_soft_pin {
            true => SoftPinAction::ENABLE,
            false => SoftPinAction::PRESERVE,
        };
        types::ReplicateConfig {
            replica_num: older.replica_num,
            nof_replica_num: older.nof_replica_num,
            dfs_replica_num: 0,
            soft_pin_action,
            soft_pin_ttl_ms: None,
            with_hard_pin: older.with_hard_pin,
            preferred_segments: older.preferred_segments,
            preferred_segment: older.preferred_segment,
            preferred_nof_segments: older.preferred_nof_segments,
            prefer_alloc_in_same_node: older.prefer_alloc_in_same_node,
            data_type: older.data_type,
            host_id: older.host_id,
            group_ids: older.group_ids,
        }
    }
}

impl<S> FromOlder<older::PutStartRequest<S>> for requests::PutStartRequest<S> {
    fn from_older(older: older::PutStartRequest<S>) -> Self {
        requests::PutStartRequest {
            client_id: older.client_id,
            key: older.key,
            slice_length: older.slice_length,
            config: FromOlder::from_older(older.config),
            tenant_id: older.tenant_id,
        }
    }
}

impl<S> FromOlder<older::BatchPutStartRequest<S>> for requests::BatchPutStartRequest<S> {
    fn from_older(older: older::BatchPutStartRequest<S>) -> Self {
        requests::BatchPutStartRequest {
            client_id: older.client_id,
            keys: older.keys,
            slice_lengths: older.slice_lengths,
            config: FromOlder::from_older(older.config),
            tenant_id: older.tenant_id,
        }
    }
}

fn meta<S>(key: S) -> ObjectMeta<S> {
    ObjectMeta { key, object_checksum: None }
}

impl<S> FromOlder<requests::PutRevokeRequest<S>> for requests::PutEndRequest<S> {
    fn from_older(older: requests::PutRevokeRequest<S>) -> Self {
        requests::PutEndRequest {
            client_id: older.client_id,
            object_meta: meta(older.key),
            replica_type: older.replica_type,
            tenant_id: older.tenant_id,
        }
    }
}

impl<S> FromOlder<requests::BatchPutRevokeRequest<S>> for requests::BatchPutEndRequest<S> {
    fn from_older(older: requests::BatchPutRevokeRequest<S>) -> Self {
        requests::BatchPutEndRequest {
            client_id: older.client_id,
            object_metas: older.keys.into_iter().map(meta).collect(),
            replica_type: older.replica_type,
            tenant_id: older.tenant_id,
        }
    }
}

impl<S> FromOlder<requests::BatchUpsertRevokeRequest<S>> for requests::BatchUpsertEndRequest<S> {
    fn from_older(older: requests::BatchUpsertRevokeRequest<S>) -> Self {
        requests::BatchUpsertEndRequest {
            client_id: older.client_id,
            object_metas: older.keys.into_iter().map(meta).collect(),
            tenant_id: older.tenant_id,
        }
    }
}

macro_rules! same_request {
    ($($name:ident),+) => { $(
        impl<S> FromOlder<requests::$name<S>> for requests::$name<S> {
            fn from_older(older: Self) -> Self {
                older
            }
        }
    )+ };
}

same_request!(
    KeyRequest,
    KeysRequest,
    RegexRequest,
    CopyStartRequest,
    MoveStartRequest,
    PromotionAllocStartRequest
);

impl ToOlder for () {
    type Older = ();

    fn to_older(self) {}
}

impl<T: ToOlder, E> ToOlder for Result<T, E> {
    type Older = Result<T::Older, E>;

    fn to_older(self) -> Self::Older {
        self.map(ToOlder::to_older)
    }
}

impl<T: ToOlder> ToOlder for Vec<T> {
    type Older = Vec<T::Older>;

    fn to_older(self) -> Self::Older {
        self.into_iter().map(ToOlder::to_older).collect()
    }
}

impl<K, V: ToOlder> ToOlder for Map<K, V> {
    type Older = Map<K, V::Older>;

    fn to_older(self) -> Self::Older {
        Map(self.0.into_iter().map(|(key, value)| (key, value.to_older())).collect())
    }
}

impl<S> ToOlder for types::ReplicaDescriptor<S> {
    type Older = older::ReplicaDescriptor<S>;

    fn to_older(self) -> Self::Older {
        older::ReplicaDescriptor(self)
    }
}

impl<S> ToOlder for types::GetReplicaListResponse<S> {
    type Older = older::GetReplicaListResponse<S>;

    fn to_older(self) -> Self::Older {
        let (replicas, lease_ttl_ms) = (self.replicas.to_older(), self.lease_ttl_ms);
        older::GetReplicaListResponse { replicas, lease_ttl_ms }
    }
}

impl<S> ToOlder for types::CopyStartResponse<S> {
    type Older = older::CopyStartResponse<S>;

    fn to_older(self) -> Self::Older {
        let (source, targets) = (self.source.to_older(), self.targets.to_older());
        older::CopyStartResponse { source, targets }
    }
}

impl<S> ToOlder for types::MoveStartResponse<S> {
    type Older = older::MoveStartResponse<S>;

    fn to_older(self) -> Self::Older {
        let (source, target) = (self.source.to_older(), self.target.map(ToOlder::to_older));
        older::MoveStartResponse { source, target }
    }
}

impl<S> ToOlder for types::PromotionAllocStartResponse<S> {
    type Older = older::PromotionAllocStartResponse<S>;

    fn to_older(self) -> Self::Older {
        let memory_descriptor = self.memory_descriptor.to_older();
        older::PromotionAllocStartResponse { memory_descriptor }
    }
}
