//! EXPORT and EXPORTALL (RFC 1813 §5.2.5): what is exported to whom, as `showmount -e` prints it.
//!
//! An entry's groups are the clients as the administrator wrote them; an export for everybody has
//! none (RFC 1813 §5.2.5).

use super::Mount;
use super::dump::list_bytes_max;
use crate::portmap::may_list;
use proto::mount::{ExportRow, Group, NAME_MAX, PATH_MAX};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

/// EXPORT.
pub(super) fn export(
    state: &Mount,
    call: &mut Call<'_>,
    _: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    if !may_list(call) {
        return Err(Fault::Silence);
    }
    let table = state.exports.load();
    let start = reply.mark();
    let limit = list_bytes_max(call);
    for export in table.exports() {
        let clients = export.client_names();
        let everybody = clients.iter().any(|name| name == "*");
        let names = clients.iter().map(|name| name.as_bytes()).filter(|n| n.len() <= NAME_MAX);
        let groups = if everybody { Vec::new() } else { names.map(Group).collect() };
        let before = reply.mark();
        reply.bool(true);
        reply.put(&ExportRow { path: export.path.get(..PATH_MAX).unwrap_or(&export.path), groups });
        if reply.written_since(start) > limit {
            reply.rewind(before);
            break;
        }
    }
    reply.bool(false);
    Ok(())
}
