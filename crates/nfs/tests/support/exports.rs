//! Exports for tests, to this machine only, with a key that dies with the test.

use export::{
    BufferSize, BufferSizes, Client, ExportSpec, Exports, FlavorList, FsLocations, Fsid, Identity,
    Key, Options, Rule, Source, Squash, Table, XprtsecModes,
};
use std::convert::Infallible;
use std::sync::Arc;
use vfs::{Backend, Durability};

/// Options for trusting clients.
pub const RW: Options = Options {
    read_only: false,
    squash: Squash::None,
    anonuid: 65534,
    anongid: 65534,
    durability: Durability::Sync,
    secure: true,
    manage_gids: false,
    acl: true,
    auth_nlm: true,
    crossmnt: false,
    nohide: false,
    utf8_names: false,
    attr_cache_ms: 0,
    delegations: None,
    preserve_unlinked: None,
    flavors: FlavorList::DEFAULT,
    rule_flavors: None,
    xprtsec: XprtsecModes::ALL,
    buffers: BufferSizes { receive: BufferSize::Unset, send: BufferSize::Unset },
};
/// The same without changes.
pub const RO: Options = Options { read_only: true, ..RW };

/// A path, what is there, and what this machine may do with it.
pub type Row<'a> = (&'a str, Arc<dyn Backend>, Options);

/// These exports in force.
pub fn of(rows: &[Row<'_>]) -> Exports {
    Exports::new(table(rows))
}

/// A table of these exports, with the same filehandles each time.
pub fn table(rows: &[Row<'_>]) -> Table {
    table_for(rows, &["127.0.0.1"])
}

/// The same to clients of these addresses.
pub fn table_for(rows: &[Row<'_>], clients: &[&str]) -> Table {
    built(rows, clients, &[])
}

/// These exports in force, of which some are elsewhere too: the path, and the option that says it.
pub fn located(rows: &[Row<'_>], locations: &[(&str, FsLocations)]) -> Exports {
    Exports::new(built(rows, &["127.0.0.1"], locations))
}

fn built(rows: &[Row<'_>], clients: &[&str], locations: &[(&str, FsLocations)]) -> Table {
    let elsewhere = |path: &str| {
        let found = locations.iter().find(|(known, _)| *known == path);
        found.map(|(_, locations)| Arc::new(locations.clone()))
    };
    let specs = rows.iter().zip(1..).map(|((path, _, options), number)| ExportSpec {
        path: path.as_bytes().to_vec(),
        source: Source::scheme("mem", ""),
        fsid: Some(Fsid::Number(number)),
        mount_point: None,
        locations: elsewhere(path),
        crossed: false,
        rules: clients
            .iter()
            .map(|client| Rule::new(Client::parse(client).unwrap(), *options))
            .collect(),
    });
    let specs: Vec<ExportSpec> = specs.collect();
    let open = |spec: &ExportSpec| -> Result<Arc<dyn Backend>, Infallible> {
        let row = rows.iter().find(|row| row.0.as_bytes() == spec.path).unwrap();
        Ok(Arc::clone(&row.1))
    };
    let identity = Identity::of(Key([7; 16]));
    Table::build(&specs, &identity, &open, None).unwrap()
}

/// One export with this rule in force.
pub fn of_rule(path: &str, backend: &Arc<dyn Backend>, rule: Rule) -> Exports {
    let spec = ExportSpec {
        path: path.as_bytes().to_vec(),
        source: Source::scheme("mem", ""),
        fsid: Some(Fsid::Number(1)),
        mount_point: None,
        locations: None,
        crossed: false,
        rules: vec![rule],
    };
    let open = |_: &ExportSpec| -> Result<Arc<dyn Backend>, Infallible> { Ok(Arc::clone(backend)) };
    let identity = Identity::of(Key([7; 16]));
    Exports::new(Table::build(&[spec], &identity, &open, None).unwrap())
}

/// An empty file system in memory, its root writable by root only.
pub fn mem() -> Arc<dyn vfs::Backend> {
    Arc::new(vfs_mem::MemFs::new(vfs_mem::MemOptions::default()))
}
