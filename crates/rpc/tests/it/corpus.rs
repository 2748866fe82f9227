//! The seeds of the fuzz targets for this crate, replayed through the targets' own entries.

#[path = "../../../../fuzz/entry/auth_sys.rs"]
mod auth_sys;
#[path = "../../../../fuzz/entry/dispatch.rs"]
mod dispatch;
#[path = "../../../../fuzz/entry/record.rs"]
mod record;
#[path = "../../../../fuzz/entry/reply.rs"]
mod reply;
#[path = "../../../../fuzz/entry/rpc_call.rs"]
mod rpc_call;
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
    assert!(seeds > 0, "no seeds for {target}");
}

#[test]
fn record_seeds() {
    replay("record", record::run);
}

#[test]
fn rpc_call_seeds() {
    replay("rpc_call", rpc_call::run);
}

#[test]
fn dispatch_seeds() {
    replay("dispatch", dispatch::run);
}

#[test]
fn auth_sys_seeds() {
    replay("auth_sys", auth_sys::run);
}

#[test]
fn reply_seeds() {
    replay("reply", reply::run);
}

#[test]
fn sealed_seeds() {
    replay("sealed", sealed::run);
}
