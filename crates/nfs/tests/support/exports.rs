//! Exports for tests, to this machine only, with a key that dies with the test.

use export::{ExportSpec, Exports, Fsid, Identity, Options, Pattern, Rule, SpecBackend, Squash};
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
};
/// The same without changes.
pub const RO: Options = Options { read_only: true, ..RW };

/// A path, what is there, and what this machine may do with it.
pub type Row<'a> = (&'a str, Arc<dyn Backend>, Options);

/// These exports in force.
pub fn of(rows: Vec<Row<'_>>) -> Exports {
    let exports = Exports::new(Identity::ephemeral().unwrap());
    let specs = rows.iter().zip(1u8..).map(|((path, _, options), n)| ExportSpec {
        path: path.as_bytes().to_vec(),
        backend: SpecBackend::Memory,
        rules: vec![Rule {
            pattern: Pattern::Address("127.0.0.1".parse().unwrap()),
            options: *options,
        }],
        fsid: Some(Fsid([n; 16])),
    });
    let specs: Vec<ExportSpec> = specs.collect();
    let open = |spec: &ExportSpec, _: [u8; 16]| -> Result<Arc<dyn Backend>, Infallible> {
        let row = rows.iter().find(|row| row.0.as_bytes() == spec.path).unwrap();
        Ok(Arc::clone(&row.1))
    };
    let previous = exports.load();
    let table = export::Table::build(specs, exports.identity(), &previous, &open).unwrap();
    drop(previous);
    exports.replace(table);
    exports
}
