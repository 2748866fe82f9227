//! The committed inputs of the fuzz targets, replayed through the targets' own entries.

#[path = "../../../../fuzz/entry/auth_sys.rs"]
mod auth_sys;
#[path = "../../../../fuzz/entry/dispatch.rs"]
mod dispatch;
#[path = "../../../../fuzz/entry/exports_file.rs"]
mod exports_file;
#[path = "../../../../fuzz/entry/handle_open.rs"]
mod handle_open;
#[path = "../../../../fuzz/entry/lock_sequence.rs"]
mod lock_sequence;
#[path = "../../../../fuzz/entry/mount_args.rs"]
mod mount_args;
#[path = "../../../../fuzz/entry/nfs2_args.rs"]
mod nfs2_args;
#[path = "../../../../fuzz/entry/nfs3_args.rs"]
mod nfs3_args;
#[path = "../../../../fuzz/entry/nfs4_args.rs"]
mod nfs4_args;
#[path = "../../../../fuzz/entry/nfsacl_args.rs"]
mod nfsacl_args;
#[path = "../../../../fuzz/entry/nlm_args.rs"]
mod nlm_args;
#[path = "../../../../fuzz/entry/nsm_args.rs"]
mod nsm_args;
#[path = "../../../../fuzz/entry/portmap_args.rs"]
mod portmap_args;
#[path = "../../../../fuzz/entry/record.rs"]
mod record;
#[path = "../../../../fuzz/entry/reply.rs"]
mod reply;
#[path = "../../../../fuzz/entry/rpc_call.rs"]
mod rpc_call;
#[path = "../../../../fuzz/entry/rquota_args.rs"]
mod rquota_args;
#[path = "../../../../fuzz/entry/sealed.rs"]
mod sealed;

/// Runs every committed input of a target, and every cut of it.
fn replay(target: &str, run: fn(&[u8])) {
    let dir = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut seeds = 0;
    for file in std::fs::read_dir(dir).unwrap() {
        let seed = std::fs::read(file.unwrap().path()).unwrap();
        for len in 0..=seed.len() {
            run(&seed[..len]);
        }
        seeds += 1;
    }
    assert!(seeds > 0, "no inputs for {target}");
}

/// A test for each target, and their names.
macro_rules! replayed {
    ($($target:ident $test:ident,)*) => {
        const TARGETS: &[&str] = &[$(stringify!($target)),*];

        $(
            #[test]
            fn $test() {
                replay(stringify!($target), $target::run);
            }
        )*
    };
}

replayed! {
    auth_sys auth_sys_inputs,
    dispatch dispatch_inputs,
    exports_file exports_file_inputs,
    handle_open handle_open_inputs,
    lock_sequence lock_sequence_inputs,
    mount_args mount_args_inputs,
    nfs2_args nfs2_args_inputs,
    nfs3_args nfs3_args_inputs,
    nfs4_args nfs4_args_inputs,
    nfsacl_args nfsacl_args_inputs,
    nlm_args nlm_args_inputs,
    nsm_args nsm_args_inputs,
    portmap_args portmap_args_inputs,
    record record_inputs,
    reply reply_inputs,
    rpc_call rpc_call_inputs,
    rquota_args rquota_args_inputs,
    sealed sealed_inputs,
}

#[test]
fn every_target_is_replayed() {
    let targets = format!("{}/../../fuzz/targets", env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for file in std::fs::read_dir(targets).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        found.push(name.trim_end_matches(".rs").to_owned());
    }
    found.sort();
    assert_eq!(found, TARGETS);
}
