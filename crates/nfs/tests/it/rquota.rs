//! rquota over a back end whose quotas are known; those of a file system are in vfs-local's tests.

use crate::support::fixed::Fixed;
use crate::support::{TestServer, exports, wire};
use bowline_nfs::Nfs;
use bowline_nfs::rquota::rquota_program;
use export::{Options, Squash};
use proto::rquota::{
    GetQuotaArgs, Quota as WireQuota, QuotaResult, SetLimits, SetQuotaArgs, kind, procedure as p,
};
use rpc::{Fault, Service};
use std::sync::Arc;
use xdr::{Encode, Writer};

fn serve(rows: &[exports::Row<'_>]) -> (TestServer, Service<Nfs>) {
    let server = TestServer::new(exports::of(rows));
    let program = rquota_program(Arc::clone(&server.program.state));
    (server, program)
}

fn with_quotas() -> Arc<dyn vfs::Backend> {
    Arc::new(Fixed { long: false })
}

/// Arguments that depend on the version.
struct Args<T>(T, u32);

impl Encode for Args<GetQuotaArgs<'_>> {
    fn encode(&self, w: &mut Writer) {
        self.0.encode(w, self.1);
    }
}

impl Encode for Args<SetQuotaArgs<'_>> {
    fn encode(&self, w: &mut Writer) {
        self.0.encode(w, self.1);
    }
}

fn ask(
    (server, program): &(TestServer, Service<Nfs>),
    version: u32,
    path: &str,
    (kind, id): (u32, u32),
) -> QuotaResult {
    let args = GetQuotaArgs { path: path.as_bytes(), kind, id };
    let [first, again] = [p::GETQUOTA, p::GETACTIVEQUOTA]
        .map(|procedure| server.of(program, (version, procedure), &Args(args, version)));
    assert_eq!(first, again);
    first
}

fn quota(id: u32) -> QuotaResult {
    QuotaResult::Ok(WireQuota {
        block_size: 1024,
        active: true,
        block_hard_limit: id << 10,
        block_soft_limit: 0,
        blocks: 2,
        file_hard_limit: 0,
        file_soft_limit: 0,
        files: 3,
        block_seconds_left: 0,
        file_seconds_left: 0,
    })
}

#[test]
fn the_innermost_export_of_a_path_answers() {
    let inner: exports::Row<'_> = ("/e/in", exports::mem(), exports::RW);
    let served = serve(&[("/e", with_quotas(), exports::RW), inner]);
    for version in [1, 2] {
        for path in ["/e", "/e/", "//e/./below/that", "/e/inner", "/e/in/.."] {
            assert_eq!(ask(&served, version, path, (kind::USER, 7)), quota(7), "{path}");
        }
        for path in ["/e/in", "/e/in/x", "/", "e", "", "/other"] {
            let answer = ask(&served, version, path, (kind::USER, 7));
            assert_eq!(answer, QuotaResult::NoQuota, "{path}");
        }
    }
}

#[test]
fn version_2_has_group_and_project_quotas() {
    let served = serve(&[("/e", with_quotas(), exports::RW)]);
    assert_eq!(ask(&served, 2, "/e", (kind::GROUP, 9)), quota(9));
    assert_eq!(ask(&served, 2, "/e", (kind::PROJECT, 9)), QuotaResult::NoQuota);
    assert_eq!(ask(&served, 2, "/e", (3, 9)), QuotaResult::NoQuota);
    assert_eq!(ask(&served, 1, "/e", (kind::GROUP, 9)), quota(9), "a user of version 1");
}

#[test]
fn users_can_query_their_own_quota_and_unsquashed_root_any() {
    let mut served = serve(&[("/e", with_quotas(), exports::RW)]);
    served.0.uid = 1000;
    assert_eq!(ask(&served, 2, "/e", (kind::USER, 1000)), quota(1000));
    for other in [0, 1001] {
        assert_eq!(ask(&served, 2, "/e", (kind::USER, other)), QuotaResult::Perm);
    }
    let squashed = Options { squash: Squash::Root, ..exports::RW };
    let mut served = serve(&[("/e", with_quotas(), squashed)]);
    assert_eq!(ask(&served, 2, "/e", (kind::USER, 1000)), QuotaResult::Perm);
    assert_eq!(ask(&served, 2, "/e", (kind::USER, 0)), QuotaResult::Perm);
    served.0.uid = 1000;
    assert_eq!(ask(&served, 2, "/e", (kind::USER, 1000)), quota(1000));
    served.0.client = "127.0.0.2:700";
    assert_eq!(ask(&served, 2, "/e", (kind::USER, 1000)), QuotaResult::Perm, "not a client");
}

#[test]
fn only_root_needs_a_reserved_port() {
    let mut served = serve(&[("/e", with_quotas(), exports::RW)]);
    served.0.client = "127.0.0.1:7000";
    assert_eq!(ask(&served, 1, "/e", (kind::USER, 1000)), QuotaResult::Perm);
    served.0.uid = 1000;
    assert_eq!(ask(&served, 1, "/e", (kind::USER, 1000)), quota(1000));
    served.0.client = "127.0.0.2:7000";
    assert_eq!(ask(&served, 1, "/e", (kind::USER, 1000)), QuotaResult::Perm);
}

#[test]
fn setquota_is_refused() {
    let (server, program) = serve(&[("/e", with_quotas(), exports::RW)]);
    let limits = SetLimits {
        block_hard_limit: 1,
        block_soft_limit: 1,
        blocks: 0,
        file_hard_limit: 0,
        file_soft_limit: 0,
        files: 0,
        block_seconds_left: 0,
        file_seconds_left: 0,
    };
    for version in [1, 2] {
        for procedure in [p::SETQUOTA, p::SETACTIVEQUOTA] {
            let args = SetQuotaArgs { command: 0, path: b"/e", id: 7, kind: kind::USER, limits };
            let args = Args(args, version);
            let answer: QuotaResult = server.of(&program, (version, procedure), &args);
            assert_eq!(answer, QuotaResult::Perm);
            let more = [wire(&args), vec![0; 4]].concat();
            let fault = server.run_of(&program, (version, procedure), &more, &mut Writer::new());
            assert!(matches!(fault, Err(Fault::GarbageArgs(_))));
        }
    }
}
