//! The port mapper's types against the layout of RFC 1833 and against themselves.

use super::{
    Address, AddressEntry, Error, Indirect, Mapping, Netbuf, Netid, Rpcb, decode_addresses,
    decode_all_args, decode_mappings, decode_rpcbs, decode_taddr, encode_taddr, from_universal,
    to_universal,
};
use crate::list;
use std::net::SocketAddr;
use xdr::{Encode, Reader, Writer};

fn bytes(value: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(value);
    w.bytes().to_vec()
}

#[test]
fn universal_addresses_are_those_of_the_rfc() {
    for (socket, text) in [
        ("127.0.0.1:2049", "127.0.0.1.8.1"),
        ("0.0.0.0:111", "0.0.0.0.0.111"),
        ("[::1]:2049", "::1.8.1"),
        ("[::]:65535", "::.255.255"),
        ("[fe80::12:3]:256", "fe80::12:3.1.0"),
    ] {
        let addr: SocketAddr = socket.parse().unwrap();
        assert_eq!(to_universal(addr), text);
        assert_eq!(from_universal(text.as_bytes()), Some(addr));
    }
}

#[test]
fn invalid_universal_addresses_are_refused() {
    let bad: [&[u8]; 9] = [
        b"",
        b"127.0.0.1",
        b"127.0.0.1.8",
        b"127.0.0.1.8.256",
        b"127.0.0.1.+8.1",
        b"127.0.0.1..1",
        b"host.8.1",
        b"/run/rpcbind.sock",
        b"\xff.8.1",
    ];
    for text in bad {
        assert_eq!(from_universal(text), None, "{text:?}");
    }
}

#[test]
fn transport_addresses_survive_a_round_trip() {
    for (socket, len) in [("10.1.2.3:2049", 16), ("[2001:db8::7]:111", 28)] {
        let addr: SocketAddr = socket.parse().unwrap();
        let taddr = encode_taddr(addr);
        assert_eq!(taddr.len(), len);
        assert_eq!(decode_taddr(&taddr), Some(addr));
        assert_eq!(decode_taddr(taddr.get(..7).unwrap()), None);
    }
    assert_eq!(decode_taddr(&[1; 16]), None);
}

#[test]
fn netids_have_their_protocol() {
    for netid in Netid::ALL {
        assert_eq!(Netid::parse(netid.text().as_bytes()), Some(netid));
        let ip = if netid.is_v6() { "::1" } else { "127.0.0.1" };
        assert_eq!(Netid::new(netid.is_tcp(), ip.parse().unwrap()), netid);
    }
    assert_eq!(Netid::parse(b"local"), None);
    assert_eq!(Netid::Tcp6.protocol(), 6);
    assert_eq!(Netid::Udp.protocol(), 17);
}

#[test]
fn a_mapping_is_four_words() {
    let mapping = Mapping { program: 100_003, version: 3, protocol: 6, port: 2049 };
    let wire = bytes(&mapping);
    assert_eq!(wire, b"\0\x01\x86\xa3\0\0\0\x03\0\0\0\x06\0\0\x08\x01");
    assert_eq!(Reader::new(&wire).get(), Ok(mapping));
    let mut w = Writer::new();
    list::encode(&mut w, [mapping, mapping]);
    assert_eq!(decode_mappings(&mut Reader::new(w.bytes())).unwrap(), [mapping, mapping]);
}

#[test]
fn rpcb_and_address_entries_survive_a_round_trip() {
    let rpcb =
        Rpcb { program: 1, version: 2, netid: b"tcp", address: b"::1.8.1", owner: b"superuser" };
    let mut w = Writer::new();
    list::encode(&mut w, [rpcb]);
    assert_eq!(decode_rpcbs(&mut Reader::new(w.bytes())).unwrap(), [rpcb]);

    let entry = AddressEntry {
        address: b"127.0.0.1.8.1",
        netid: b"tcp",
        semantics: 3,
        family: b"inet",
        protocol: b"tcp",
    };
    let mut w = Writer::new();
    list::encode(&mut w, [entry]);
    assert_eq!(decode_addresses(&mut Reader::new(w.bytes())).unwrap(), [entry]);

    let call = Indirect { program: 1, version: 2, procedure: 3, args: b"abc" };
    assert_eq!(Reader::new(&bytes(&call)).get(), Ok(call));
    let netbuf = Netbuf { max_len: 16, data: b"0123456789abcdef" };
    assert_eq!(Reader::new(&bytes(&netbuf)).get(), Ok(netbuf));
}

#[test]
fn every_procedure_has_its_arguments() {
    let mapping = bytes(&Mapping { program: 1, version: 1, protocol: 6, port: 1 });
    let rpcb = bytes(&Rpcb { program: 1, version: 1, netid: b"udp", address: b"", owner: b"" });
    let indirect = bytes(&Indirect { program: 1, version: 1, procedure: 1, args: b"" });
    let address = bytes(&Address(b"::1.8.1"));
    let netbuf = bytes(&Netbuf { max_len: 0, data: b"" });
    let none = Vec::new();
    let two = [&none, &mapping, &mapping, &mapping, &none, &indirect];
    let four = [
        &none, &rpcb, &rpcb, &rpcb, &none, &indirect, &none, &address, &netbuf, &rpcb, &indirect,
        &rpcb, &none,
    ];
    for (version, table) in [(2, &two[..]), (3, &four[..9]), (4, &four[..])] {
        for (number, args) in (0..).zip(table) {
            assert_eq!(decode_all_args(version, number, args), Ok(()), "{version}.{number}");
            let mut more = args.to_vec();
            more.extend([0; 4]);
            // a procedure without arguments ignores what follows
            let taken = decode_all_args(version, number, &more).is_ok();
            assert_eq!(taken, args.is_empty(), "{version}.{number}");
        }
        let beyond = u32::try_from(table.len()).unwrap();
        assert!(decode_all_args(version, beyond, b"").is_err());
    }
    assert!(decode_all_args(5, 0, b"").is_err());
}

#[test]
fn string_lengths_are_limited() {
    let long = bytes(&Address(&[b'1'; 257]));
    assert_eq!(decode_all_args(3, 7, &long), Err(Error::TooLong { len: 257, limit: 256 }));
}
