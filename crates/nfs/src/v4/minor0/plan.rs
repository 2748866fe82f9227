//! Which COMPOUNDs of version 4.0 are kept in the reply cache of RPC: those that change something (RFC 7530 §3.1.1). Later
//! versions have their slots instead.

use proto::nfs4::{CompoundHead, OPS_MAX, decode_op_args, op};
use rpc::Plan;
use xdr::Reader;

/// Plans a COMPOUND of version 4.0 by its undecoded operations; one that cannot be decoded ends it.
pub(in super::super) fn plan(args: &[u8]) -> Plan {
    if changes(args).unwrap_or(false) { Plan::NON_IDEMPOTENT } else { Plan::IDEMPOTENT }
}

fn changes(args: &[u8]) -> Option<bool> {
    let mut args = Reader::new(args);
    let head: CompoundHead<'_> = args.get().ok()?;
    for _ in 0..head.count.min(OPS_MAX) {
        let number = args.u32().ok()?;
        if is_change(number) {
            return Some(true);
        }
        decode_op_args(number, &mut args)?.ok()?;
    }
    Some(false)
}

/// Whether an operation must not run twice (it is not idempotent). WRITE and COMMIT may.
const fn is_change(number: u32) -> bool {
    matches!(
        number,
        op::CLOSE
            | op::CREATE
            | op::DELEGRETURN
            | op::LINK
            | op::LOCK
            | op::LOCKU
            | op::OPEN
            | op::OPEN_CONFIRM
            | op::OPEN_DOWNGRADE
            | op::RELEASE_LOCKOWNER
            | op::REMOVE
            | op::RENAME
            | op::SETATTR
            | op::SETCLIENTID
            | op::SETCLIENTID_CONFIRM
    )
}

#[cfg(test)]
mod tests {
    use super::plan;
    use proto::layout::Bytes;
    use proto::nfs4::{Bitmap4, CompoundHead, op};
    use rpc::{Plan, Transport};
    use xdr::Writer;

    fn planned(operations: &[&dyn Fn(&mut Writer)]) -> Plan {
        let mut w = Writer::new();
        let count = u32::try_from(operations.len()).unwrap();
        w.put(&CompoundHead { tag: b"t", minor: 0, count });
        operations.iter().for_each(|put| put(&mut w));
        plan(w.bytes())
    }

    #[test]
    fn what_changes_something_is_kept_wherever_it_stands() {
        let handle = |w: &mut Writer| {
            w.u32(op::PUTFH);
            w.put(&Bytes::<128>(b"handle"));
        };
        let getattr = |w: &mut Writer| {
            w.u32(op::GETATTR);
            w.put(&Bitmap4::of(&[1, 3]));
        };
        let remove = |w: &mut Writer| {
            w.u32(op::REMOVE);
            w.put(&Bytes::<128>(b"name"));
        };
        let illegal = |w: &mut Writer| w.u32(99);
        let kept = |plan: Plan| plan.keeps_reply(Transport::Tcp);
        assert!(!kept(planned(&[])));
        assert!(!kept(planned(&[&handle, &getattr])));
        assert!(kept(planned(&[&handle, &remove])));
        assert!(kept(planned(&[&handle, &getattr, &getattr, &remove])));
        assert!(!kept(planned(&[&handle, &illegal, &remove])), "it does not come to the last one");
        assert!(!kept(plan(b"\xff\xff")));
    }
}
