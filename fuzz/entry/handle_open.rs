//! Handles: what opens is what the server seals, byte for byte, whatever it was made from. The
//! first byte is the length of a file id, which follows; what follows that is laid over the
//! sealed handle.

#[path = "nowhere.rs"]
mod nowhere;

use export::{ExportSpec, Exports, Handle, Identity, Key, Source, Table};
use nowhere::Nowhere;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use vfs::{Backend, Fid, Status};

/// Two exports.
fn exports() -> &'static Exports {
    static EXPORTS: OnceLock<Exports> = OnceLock::new();
    EXPORTS.get_or_init(|| {
        let spec = |path: &[u8]| ExportSpec {
            path: path.to_vec(),
            source: Source::scheme("mem", ""),
            fsid: None,
            mount_point: None,
            locations: None,
            crossed: false,
            rules: Vec::new(),
        };
        let open = |_: &ExportSpec| Ok::<_, Infallible>(Arc::new(Nowhere) as Arc<dyn Backend>);
        let identity = Identity::of(Key([7; 16]));
        let specs = [spec(b"/a"), spec(b"/b")];
        let table = Table::build(&specs, &identity, &open, None).expect("a table");
        Exports::new(table)
    })
}

/// Checks that a handle opens only if it is what the server seals. libFuzzer watches the bytes
/// that a comparison compares, the right MAC among them, so that a handle of its own making may
/// well open; but no other for the same object, and none for an object that its MAC is not of.
fn honest(exports: &Exports, wire: &[u8]) {
    let table = exports.load();
    match table.open(wire) {
        Err(Status::BadHandle | Status::Stale) => {}
        Err(other) => panic!("refused with {other:?}"),
        Ok((export, fid)) => {
            let sealed = export.seal(&fid);
            let (head, padding) = wire.split_at(sealed.bytes().len());
            assert_eq!(head, sealed.bytes());
            assert!(padding.is_empty() || wire.len() == 32 && padding.iter().all(|b| *b == 0));
        }
    }
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let exports = exports();
    honest(exports, data);
    let Some((len, rest)) = data.split_first() else { return };
    let Some((fid, over)) = rest.split_at_checked(usize::from(*len)) else { return };
    let Some(fid) = Fid::new(fid) else { return };
    let table = exports.load();
    let [a, b] = table.exports() else { panic!("two exports") };
    let handle = a.seal(&fid);
    assert!(handle.bytes().len() <= Handle::MAX);
    let (export, opened) = table.open(handle.bytes()).expect("it was sealed here");
    assert_eq!((export.id, opened), (a.id, fid));
    assert_ne!(b.seal(&fid), handle);
    let mut forged = handle.bytes().to_vec();
    forged.iter_mut().zip(over).for_each(|(byte, flip)| *byte ^= flip);
    honest(exports, &forged);
    honest(exports, handle.bytes().get(1..).unwrap_or_default());
    honest(exports, &[handle.bytes(), over].concat());
}
