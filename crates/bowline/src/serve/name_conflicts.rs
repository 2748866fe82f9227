//! Two clients of version 4 that call themselves the same: what the log and the tables say of them.

use super::lock_rows::text;
use nfs::Nfs;
use state::v4::{NameConflict, NameConflictKind};
use std::net::IpAddr;

/// Has conflicts logged from now on, each once.
pub fn log(nfs: &Nfs) {
    nfs.v4.set_name_conflict_sink(Box::new(|conflict| tracing::warn!("{}", line(conflict))));
}

/// What is in the way, and what helps.
fn line(conflict: &NameConflict) -> String {
    let name = text(&conflict.owner);
    let (holder, comer) = (conflict.holder.to_canonical(), conflict.comer.to_canonical());
    let happens = match conflict.kind {
        NameConflictKind::TakeTurns => format!(
            "clients {holder} and {comer} call themselves the same over NFS version 4, \"{name}\": each takes away what the \
             other has open and locked"
        ),
        NameConflictKind::OtherUser => format!(
            "client {comer} cannot get in over NFS version 4: {holder} calls itself the same, \"{name}\", and was made \
             known by another user"
        ),
    };
    format!(
        "{happens}. Cloned machines and containers of one host name do this: give each a name of its own (on Linux another \
         host name, or the module parameter nfs.nfs4_unique_id), unmount and mount again"
    )
}

/// The machines of the conflicts of the last hour.
pub fn pairs(nfs: &Nfs) -> Vec<(IpAddr, IpAddr)> {
    let conflicts = nfs.v4.state.name_conflicts(nfs.clock.now());
    let pair =
        |conflict: &NameConflict| (conflict.holder.to_canonical(), conflict.comer.to_canonical());
    conflicts.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::line;
    use state::v4::{NameConflict, NameConflictKind};

    #[test]
    fn the_line_names_both_machines_and_what_helps() {
        let mut conflict = NameConflict {
            owner: b"Linux NFSv4.1 localhost"[..].into(),
            kind: NameConflictKind::TakeTurns,
            holder: "10.0.0.1".parse().unwrap(),
            comer: "::ffff:10.0.0.2".parse().unwrap(),
        };
        let said = line(&conflict);
        assert!(
            said.starts_with("clients 10.0.0.1 and 10.0.0.2 call themselves the same"),
            "{said}"
        );
        assert!(
            said.contains("Linux NFSv4.1 localhost") && said.contains("nfs4_unique_id"),
            "{said}"
        );
        conflict.kind = NameConflictKind::OtherUser;
        assert!(
            line(&conflict).starts_with("client 10.0.0.2 cannot get in"),
            "{}",
            line(&conflict)
        );
    }
}
