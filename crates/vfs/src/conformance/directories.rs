//! Directories whose changes are held back, for back ends that can do so.

use super::checks;
use super::fixture::{Fixture, entry_name, refused};
use crate::{Fid, Kept, SetAttr, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

checks! {
    changes_of_a_held_directory_are_refused_and_reported,
    a_change_passes_while_it_is_let,
    only_directories_are_held_and_once,
}

/// Holds a directory; how often somebody came.
fn hold(fixture: &Fixture, dir: &Fid) -> (Option<Kept>, Arc<AtomicU32>) {
    let came = Arc::new(AtomicU32::new(0));
    let told = Arc::clone(&came);
    let on_break = Box::new(move || {
        told.fetch_add(1, SeqCst);
    });
    let leases = fixture.backend.leases().unwrap();
    (leases.hold_back_changes(&fixture.cx(), dir, on_break).unwrap(), came)
}

fn changes_of_a_held_directory_are_refused_and_reported(fixture: &Fixture) {
    let (backend, cx, name) = (&fixture.backend, fixture.cx(), entry_name("new"));
    let dir = fixture.dir("d");
    let set = SetAttr::default();
    backend.mkdir(&cx, &dir, entry_name("there"), &set).unwrap();
    let (held, came) = hold(fixture, &dir);
    refused(backend.mkdir(&cx, &dir, name, &set), Status::Jukebox);
    refused(backend.rmdir(&cx, &dir, entry_name("there")), Status::Jukebox);
    refused(backend.symlink(&cx, &dir, name, b"target", &set), Status::Jukebox);
    let there = (&dir, entry_name("there"));
    refused(backend.rename(&cx, there, (&dir, name)), Status::Jukebox);
    let mode = SetAttr { mode: Some(0o700), ..set };
    refused(backend.setattr(&cx, &dir, &mode, None), Status::Jukebox);
    assert!(came.load(SeqCst) >= 5);
    // others are not held
    backend.mkdir(&cx, &backend.root(), entry_name("other"), &set).unwrap();
    drop(held);
    backend.mkdir(&cx, &dir, name, &set).unwrap();
}

fn a_change_passes_while_it_is_let(fixture: &Fixture) {
    let (backend, cx) = (&fixture.backend, fixture.cx());
    let dir = fixture.dir("d");
    let leases = backend.leases().unwrap();
    assert!(leases.let_change_pass(&cx, &dir).is_none(), "it is not held");
    let (held, came) = hold(fixture, &dir);
    let passing = leases.let_change_pass(&cx, &dir).unwrap();
    assert!(leases.let_change_pass(&cx, &dir).is_none(), "one at a time");
    backend.mkdir(&cx, &dir, entry_name("one"), &SetAttr::default()).unwrap();
    assert_eq!(came.load(SeqCst), 0);
    drop(passing);
    let late = backend.mkdir(&cx, &dir, entry_name("two"), &SetAttr::default());
    refused(late, Status::Jukebox);
    // one that outlives the hold holds nothing back at its end
    let passing = leases.let_change_pass(&cx, &dir).unwrap();
    drop(held);
    drop(passing);
    backend.mkdir(&cx, &dir, entry_name("two"), &SetAttr::default()).unwrap();
}

fn only_directories_are_held_and_once(fixture: &Fixture) {
    let (file, dir) = (fixture.file("f"), fixture.dir("d"));
    let leases = fixture.backend.leases().unwrap();
    let held = leases.hold_back_changes(&fixture.cx(), &file, Box::new(|| ()));
    refused(held.map(drop), Status::NotDir);
    let (held, _) = hold(fixture, &dir);
    let (again, _) = hold(fixture, &dir);
    assert!(held.is_some() && again.is_none());
    drop(held);
    assert!(hold(fixture, &dir).0.is_some());
}
