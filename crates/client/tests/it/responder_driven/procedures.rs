//! Results of procedures, also those that a broken server sends.

use super::responder::{marked, reply_to, tcp, words};
use bowline_client::{Client, Error, Fh, Identity};
use proto::mount::{Flavors, Mount3Result, MountError, Mounted3};
use proto::nfs3::Nfsstat3;
use std::time::Duration;
use xdr::{Encode, Writer};

const PATIENCE: Duration = Duration::from_secs(60);

fn wire(value: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(value);
    w.bytes().to_vec()
}

/// A client of a server that returns this result for every call.
fn client_of(result: Vec<u8>) -> Client {
    let addr = tcp(move |record| marked(&reply_to(record, &result)));
    Client::tcp(addr, PATIENCE).unwrap()
}

#[test]
fn mount_returns_handle_and_flavours() {
    let flavors = Flavors::new(&[1, 0]).unwrap();
    let mut client = client_of(wire(&Mount3Result::Ok(Mounted3 { handle: b"abc", flavors })));
    let mounted = client.mount_with_flavors(b"/x").unwrap();
    assert_eq!((mounted.handle.bytes(), mounted.flavors), (&b"abc"[..], vec![1, 0]));
}

#[test]
fn mount_errors_name_path_and_reason() {
    let mut client = client_of(wire(&Mount3Result::Err(MountError::Acces)));
    let error = client.mount(b"/x").unwrap_err();
    assert_eq!(error.to_string(), "the server refuses to mount /x: permission denied");
    assert_eq!(error.status(), Some(13));
}

#[test]
fn an_nfs_error_shows_status_name_and_number() {
    let fh = Fh::new(b"fh").unwrap();
    let mut client = client_of(words(&[Nfsstat3::Stale.number()]));
    let error = client.getattr(&fh).unwrap_err();
    assert_eq!(error.to_string(), "GETATTR: Stale (70)");
    // LOOKUP's failure carries the directory's attributes, or that there are none.
    let mut client = client_of(words(&[Nfsstat3::NoEnt.number(), 0]));
    let error = client.lookup(&fh, b"name").unwrap_err();
    assert_eq!(error.status(), Some(2));
}

#[test]
fn truncated_and_trailing_results_are_garbled() {
    let fh = Fh::new(b"fh").unwrap();
    for result in [words(&[]), words(&[0]), words(&[2]), words(&[4711])] {
        let error = client_of(result).lookup(&fh, b"name").unwrap_err();
        assert!(matches!(error, Error::Garbled { operation: "LOOKUP", .. }), "{error:?}");
    }
    let error = client_of(words(&[2, 0, 0])).lookup(&fh, b"name").unwrap_err();
    assert!(matches!(error, Error::Garbled { .. }), "{error:?}");
}

#[test]
fn a_read_reply_must_match_its_count() {
    let fh = Fh::new(b"fh").unwrap();
    let read = |count| [words(&[0, 0, count, 1, 4]), b"data".to_vec()].concat();
    let done = client_of(read(4)).read(&fh, 0, 4).unwrap();
    assert_eq!((done.data.as_slice(), done.eof), (&b"data"[..], true));
    let error = client_of(read(5)).read(&fh, 0, 5).unwrap_err();
    assert!(matches!(error, Error::Garbled { operation: "READ", .. }), "{error:?}");
}

#[test]
fn a_port_above_65535_is_garbled() {
    assert_eq!(client_of(words(&[2049])).getport(100_003, 3, 6).unwrap(), Some(2049));
    assert_eq!(client_of(words(&[0])).getport(100_003, 3, 6).unwrap(), None);
    let error = client_of(words(&[65_536])).getport(100_003, 3, 6).unwrap_err();
    assert!(matches!(error, Error::Garbled { .. }), "{error:?}");
}

#[test]
fn calls_carry_the_identity() {
    let addr = tcp(|record| marked(&reply_to(record, &record[24..])));
    let mut client = Client::tcp(addr, PATIENCE).unwrap();
    client.set_identity(Some(Identity::new(1000, 100)));
    let target = bowline_client::Target { program: 1, version: 1, procedure: 1 };
    let reply = client.call(target, &bowline_client::Nothing).unwrap();
    assert_eq!(reply.body()[..4], 1u32.to_be_bytes());
    let ids = words(&[1000, 100]);
    assert!(reply.body().windows(8).any(|window| window == ids));
}
