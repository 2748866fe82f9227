//! The fuzz targets: one file each, whose `run` checks one input. The fuzz program and the test that replays the
//! committed inputs both take them from [`each_target`].

pub mod auth_sys;
pub mod dispatch;
pub mod exports_file;
pub mod gss_token;
pub mod handle_open;
pub mod lock_sequence;
pub mod mount_args;
pub mod nfs2_args;
pub mod nfs3_args;
pub mod nfs4_args;
pub mod nfsacl_args;
pub mod nlm_args;
pub mod nsm_args;
pub mod portmap_args;
pub mod record;
pub mod reply;
pub mod rpc_call;
pub mod rquota_args;
pub mod sealed;

/// Calls the macro with the names of all targets.
macro_rules! each_target {
    ($call:ident) => {
        $call! {
            auth_sys
            dispatch
            exports_file
            gss_token
            handle_open
            lock_sequence
            mount_args
            nfs2_args
            nfs3_args
            nfs4_args
            nfsacl_args
            nlm_args
            nsm_args
            portmap_args
            record
            reply
            rpc_call
            rquota_args
            sealed
        }
    };
}
pub(crate) use each_target;
