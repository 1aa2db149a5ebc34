//! The 64 functions of the protocol: name, id, type hashes (wire protocol 4).
//!
//! Ids and hashes are constants, so that nothing is hashed while serving; a test recomputes each
//! from the name and from the types in `wire/calls.rs`. What a function takes and returns stands
//! there.

/// Placeholder in the table for the hash of a request that has no body.
const NO_BODY: u32 = 0;

macro_rules! functions {
    ($($name:ident = $id:literal, $request:expr, $response:literal;)+) => {
        /// A function that clients can call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "the names are the protocol's; calls.rs explains each")]
        pub enum Function { $($name,)+ }

        impl Function {
            /// Every function, in the order of the protocol's table.
            pub const ALL: &'static [Function] = &[$(Function::$name,)+];

            /// The function with this id.
            pub fn from_id(id: u32) -> Option<Function> {
                match id { $($id => Some(Function::$name),)+ _ => None }
            }

            /// The id on the wire: the start of the MD5 of the qualified name.
            pub const fn id(self) -> u32 {
                match self { $(Function::$name => $id,)+ }
            }

            /// The name without the peer's class in front.
            pub const fn name(self) -> &'static str {
                match self { $(Function::$name => stringify!($name),)+ }
            }

            /// The type hash of the arguments; 0 if the request has no body.
            pub const fn request_hash(self) -> u32 {
                match self { $(Function::$name => $request,)+ }
            }

            /// The type hash of the result.
            pub const fn response_hash(self) -> u32 {
                match self { $(Function::$name => $response,)+ }
            }
        }
    };
}

functions! {
    ExistKey = 0x8938_5f09, 0x7cf9_1ed8, 0x90e8_00d2;
    BatchQueryIp = 0x7ce4_54a9, 0xa1ee_a206, 0xf594_fb3c;
    BatchReplicaClear = 0x137b_01fc, 0x472b_2fa2, 0xe108_bdea;
    GetReplicaListByRegex = 0xfe6a_f93c, 0x7cf9_1ed8, 0x7343_c040;
    GetReplicaList = 0x1f7e_f174, 0x7cf9_1ed8, 0x88c6_276c;
    BatchGetReplicaList = 0x1b0d_20ff, 0x00f7_8d62, 0x20c5_453a;
    PutStart = 0x65ea_9ac1, 0xe385_bd0e, 0xc439_27a6;
    PutEnd = 0x8e8b_2099, 0xd181_9222, 0xaf28_68cc;
    PutRevoke = 0xa076_7c44, 0x1b7a_228a, 0xaf28_68cc;
    BatchPutStart = 0x56be_1822, 0x5870_c0a4, 0xad00_6d02;
    BatchPutEnd = 0x80e0_20ab, 0xf57e_a7c8, 0x39fc_52ce;
    BatchPutRevoke = 0xb825_67aa, 0x94ee_5d44, 0x39fc_52ce;
    UpsertStart = 0xa133_5e41, 0xe385_bd0e, 0xc439_27a6;
    UpsertEnd = 0x2e20_e258, 0xd181_9222, 0xaf28_68cc;
    UpsertRevoke = 0x610b_042e, 0x1b7a_228a, 0xaf28_68cc;
    BatchUpsertStart = 0xd564_b423, 0x5870_c0a4, 0xad00_6d02;
    BatchUpsertEnd = 0xb1bc_d72f, 0xdce9_3710, 0x39fc_52ce;
    BatchUpsertRevoke = 0x9093_ae79, 0xd609_1496, 0x39fc_52ce;
    Remove = 0xf1b0_9774, 0x18e8_9fee, 0xaf28_68cc;
    RemoveByRegex = 0xfccc_1fd3, 0x18e8_9fee, 0xb833_81fe;
    RemoveAll = 0xd978_ceb0, 0x48a6_c274, 0x8666_6834;
    BatchRemove = 0x5902_407d, 0x197a_9ca0, 0x39fc_52ce;
    MountSegment = 0x3e7e_c4bb, 0x9ef7_0dae, 0xaf28_68cc;
    MountNoFSegment = 0x14d3_f74c, 0x70fc_b3da, 0xaf28_68cc;
    ReMountSegment = 0x0b05_3b72, 0xc6c6_6b88, 0xaf28_68cc;
    ReMountNoFSegment = 0xc15a_1a37, 0xc3dd_cd16, 0xaf28_68cc;
    UnmountSegment = 0x6f10_b465, 0xd4c5_12e0, 0xaf28_68cc;
    GracefulUnmountSegment = 0xa4ec_3175, 0x8e09_2e9c, 0xaf28_68cc;
    UnmountNoFSegment = 0xbb26_3e21, 0xd4c5_12e0, 0xaf28_68cc;
    GetAllNoFSegments = 0x04eb_3c85, NO_BODY, 0x8c27_4b46;
    GetNoFSegmentsByName = 0x6b19_4364, 0x9dcf_fa76, 0xaab0_7daa;
    Ping = 0xd6c2_dae5, 0x3c6d_83e0, 0x742a_8f52;
    GetFsdir = 0x3e58_5123, NO_BODY, 0x1cb3_cc34;
    QuerySegmentStatus = 0x79b8_af8c, 0x9dcf_fa76, 0x9851_e9a8;
    QuerySegmentStatusById = 0x573f_d453, 0x3c6d_83e0, 0x9851_e9a8;
    GetStorageConfig = 0x8da9_b0a6, NO_BODY, 0x9cb5_68ea;
    BatchExistKey = 0xb89f_a6b0, 0x00f7_8d62, 0x2a5f_8c5c;
    ServiceReady = 0x7b81_bb56, NO_BODY, 0x1cb3_cc34;
    MountLocalDiskSegment = 0x281f_c089, 0xbfd5_0c0e, 0xaf28_68cc;
    UnmountLocalDiskSegment = 0x59fe_76e4, 0x3c6d_83e0, 0xaf28_68cc;
    OffloadObjectHeartbeat = 0x2a9b_08f8, 0xbfd5_0c0e, 0x7246_74e6;
    ReportSsdCapacity = 0x7e10_9a9c, 0x70a8_41e4, 0xaf28_68cc;
    NotifyOffloadSuccess = 0x2df8_5842, 0xd4e7_9a92, 0xaf28_68cc;
    PromotionObjectHeartbeat = 0x0a19_072a, 0x3c6d_83e0, 0x7246_74e6;
    PromotionAllocStart = 0x3643_0f70, 0xc6e7_29cc, 0x5c03_2896;
    NotifyPromotionSuccess = 0xfe6e_3d25, 0x6a21_01f4, 0xaf28_68cc;
    NotifyPromotionFailure = 0xcbec_f2b4, 0x6a21_01f4, 0xaf28_68cc;
    CopyStart = 0x2983_6d38, 0xb5bd_dd1a, 0x7c16_68cc;
    DynamicReplicaCopyStart = 0x2111_8d62, 0x4e78_be0e, 0x7c16_68cc;
    CopyEnd = 0xf696_f1d9, 0x6a21_01f4, 0xaf28_68cc;
    DynamicReplicaCopyEnd = 0x4f22_bba4, 0xa1da_4cba, 0xaf28_68cc;
    CopyRevoke = 0x1f55_8b5c, 0x6a21_01f4, 0xaf28_68cc;
    DynamicReplicaCopyRevoke = 0x9976_8752, 0xa1da_4cba, 0xaf28_68cc;
    MoveStart = 0x458e_4ce0, 0xef2e_e70c, 0x3e9e_d4b8;
    MoveEnd = 0x636a_8b47, 0x6a21_01f4, 0xaf28_68cc;
    MoveRevoke = 0x919b_315f, 0x6a21_01f4, 0xaf28_68cc;
    EvictDiskReplica = 0xd00a_c42b, 0xf47f_2e6a, 0xaf28_68cc;
    BatchEvictDiskReplica = 0x74d1_e980, 0xd125_1872, 0x39fc_52ce;
    PollRemoveAll = 0x05b2_1025, 0x3c6d_83e0, 0x90e8_00d2;
    CreateCopyTask = 0x7801_dba0, 0x5e43_cb12, 0x8f9b_ae8a;
    CreateMoveTask = 0x9720_0d2c, 0x311d_ab7a, 0x8f9b_ae8a;
    QueryTask = 0x0781_6a74, 0x3c6d_83e0, 0x02d5_7de6;
    FetchTasks = 0xdf14_1844, 0x759a_9b84, 0x59e1_4526;
    MarkTaskToComplete = 0xa706_0015, 0x2206_9e02, 0xaf28_68cc;
}

impl std::fmt::Display for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
