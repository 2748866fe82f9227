//! The port mapper's rows, called as the dispatcher calls them.

use bowline_nfs::portmap::{Portmap, Registration, portmap_program};
use proto::portmap::{
    Address, AddressEntry, Indirect, Mapping, Netbuf, PROTOCOL_TCP, PROTOCOL_UDP, Rpcb,
    decode_addresses, decode_all_args, decode_mappings, decode_rpcbs, decode_taddr, procedure2,
    procedure4,
};
use rpc::{Blocking, Call, Credential, Fault, Peer, Program, Transport};
use std::net::SocketAddr;
use std::sync::Arc;
use xdr::{Encode, Reader, Writer};

struct Awake;

impl Blocking for Awake {
    fn will_block(&self) {}
}

const NFS: u32 = 100_003;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn program() -> impl Program {
    let mut list = Vec::new();
    for version in [2, 3] {
        for tcp in [true, false] {
            list.push(Registration::new(NFS, version, tcp, at("0.0.0.0:2049")));
            list.push(Registration::new(NFS, version, tcp, at("[::]:2050")));
        }
    }
    list.push(Registration::new(100_005, 3, true, at("10.0.0.7:20048")));
    portmap_program(Arc::new(Portmap::new(list).with_clock(|| 1_234_567)))
}

fn from(transport: Transport, addr: &str, local: &str) -> Peer {
    Peer { addr: at(addr), local: at(local), transport, security: rpc::TransportSecurity::PLAIN }
}

fn near(transport: Transport) -> Peer {
    from(transport, "127.0.0.1:700", "127.0.0.1:111")
}

fn ask(peer: Peer, version: u32, procedure: u32, args: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut call = Call::new(1, &peer, Credential::Anonymous, &Awake);
    let mut reply = Writer::new();
    let program = program();
    let row = program.row(version, procedure).unwrap().id;
    program.run(row, &mut call, &mut Reader::new(args), &mut reply)?;
    Ok(reply.bytes().to_vec())
}

fn wire(value: &impl Encode) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(value);
    w.bytes().to_vec()
}

fn mapping(program: u32, version: u32, protocol: u32) -> Vec<u8> {
    wire(&Mapping { program, version, protocol, port: 0 })
}

fn rpcb(program: u32, version: u32) -> Vec<u8> {
    wire(&Rpcb { program, version, netid: b"", address: b"", owner: b"" })
}

fn text(reply: &[u8]) -> String {
    let address = Reader::new(reply).get::<Address<'_>>().unwrap();
    String::from_utf8(address.0.to_vec()).unwrap()
}

#[test]
fn getport_returns_the_port_or_zero() {
    let port = |args: &[u8]| {
        let reply = ask(near(Transport::Udp), 2, procedure2::GETPORT, args).unwrap();
        Reader::new(&reply).u32().unwrap()
    };
    assert_eq!(port(&mapping(NFS, 3, PROTOCOL_TCP)), 2049);
    assert_eq!(port(&mapping(NFS, 2, PROTOCOL_UDP)), 2049);
    assert_eq!(port(&mapping(100_005, 3, PROTOCOL_TCP)), 20_048);
    assert_eq!(port(&mapping(100_005, 3, PROTOCOL_UDP)), 0);
    assert_eq!(port(&mapping(100_021, 4, PROTOCOL_TCP)), 0);
    assert_eq!(port(&mapping(NFS, 3, 99)), 0);
    // An unknown version of a known program: the program itself will name its versions.
    assert_eq!(port(&mapping(NFS, 9, PROTOCOL_TCP)), 2049);
}

#[test]
fn set_and_unset_are_refused() {
    let args = wire(&Mapping { program: 5, version: 1, protocol: 6, port: 9 });
    for procedure in [procedure2::SET, procedure2::UNSET] {
        assert_eq!(ask(near(Transport::Udp), 2, procedure, &args), Ok(vec![0; 4]));
    }
    for version in [3, 4] {
        for procedure in [procedure4::SET, procedure4::UNSET] {
            let reply = ask(near(Transport::Tcp), version, procedure, &rpcb(5, 1));
            assert_eq!(reply, Ok(vec![0; 4]));
        }
    }
}

#[test]
fn getaddr_answers_for_the_transport_that_was_used() {
    let cases = [
        (from(Transport::Tcp, "10.0.0.2:700", "10.0.0.1:111"), "10.0.0.1.8.1"),
        (from(Transport::Udp, "[fe80::2]:700", "[fe80::1]:111"), "fe80::1.8.2"),
        (from(Transport::Tcp, "10.0.0.2:700", "[::ffff:10.0.0.1]:111"), "10.0.0.1.8.1"),
    ];
    for (peer, wanted) in cases {
        for version in [3, 4] {
            let reply = ask(peer, version, procedure4::GETADDR, &rpcb(NFS, 3)).unwrap();
            assert_eq!(text(&reply), wanted);
        }
    }
    let reply = ask(near(Transport::Tcp), 4, procedure4::GETADDR, &rpcb(77, 3)).unwrap();
    assert_eq!(text(&reply), "");
}

#[test]
fn getversaddr_is_strict_about_the_version() {
    let peer = near(Transport::Tcp);
    let ask4 = |procedure, version| text(&ask(peer, 4, procedure, &rpcb(NFS, version)).unwrap());
    assert_eq!(ask4(procedure4::GETVERSADDR, 3), "127.0.0.1.8.1");
    assert_eq!(ask4(procedure4::GETVERSADDR, 4), "");
    assert_eq!(ask4(procedure4::GETADDR, 4), "127.0.0.1.8.1");
}

#[test]
fn dump_lists_what_the_version_can_encode() {
    let reply = ask(near(Transport::Tcp), 2, procedure2::DUMP, b"").unwrap();
    let mappings = decode_mappings(&mut Reader::new(&reply)).unwrap();
    assert_eq!(mappings.len(), 5);
    assert!(mappings.iter().all(|m| m.port == 2049 || m.port == 20_048));

    let reply = ask(near(Transport::Tcp), 4, procedure4::DUMP, b"").unwrap();
    let all = decode_rpcbs(&mut Reader::new(&reply)).unwrap();
    assert_eq!(all.len(), 9);
    assert!(all.iter().any(|r| r.netid == b"udp6" && r.address == b"::.8.2"));
    assert!(all.iter().all(|r| r.owner == b"bowline"));
}

#[test]
fn getaddrlist_lists_the_addresses_that_the_caller_can_reach() {
    let reply = ask(near(Transport::Tcp), 4, procedure4::GETADDRLIST, &rpcb(NFS, 3)).unwrap();
    let entry = |netid: &'static [u8], semantics, protocol: &'static [u8]| AddressEntry {
        address: b"127.0.0.1.8.1",
        netid,
        semantics,
        family: b"inet",
        protocol,
    };
    let wanted = [entry(b"tcp", 3, b"tcp"), entry(b"udp", 1, b"udp")];
    assert_eq!(decode_addresses(&mut Reader::new(&reply)).unwrap(), wanted);
}

#[test]
fn lists_are_not_sent_over_udp_to_other_hosts() {
    let far = from(Transport::Udp, "10.0.0.2:700", "10.0.0.1:111");
    assert_eq!(ask(far, 2, procedure2::DUMP, b""), Err(Fault::Silence));
    assert_eq!(ask(far, 4, procedure4::DUMP, b""), Err(Fault::Silence));
    assert_eq!(ask(far, 4, procedure4::GETADDRLIST, &rpcb(NFS, 3)), Err(Fault::Silence));
    let own = from(Transport::Udp, "10.0.0.1:700", "10.0.0.1:111");
    assert!(ask(own, 2, procedure2::DUMP, b"").is_ok());
    assert!(ask(near(Transport::Udp), 4, procedure4::DUMP, b"").is_ok());
}

#[test]
fn calls_are_never_forwarded() {
    let call = wire(&Indirect { program: NFS, version: 3, procedure: 0, args: b"" });
    assert_eq!(ask(near(Transport::Udp), 2, procedure2::CALLIT, &call), Err(Fault::Silence));
    for version in [3, 4] {
        let reply = ask(near(Transport::Udp), version, procedure4::BCAST, &call);
        assert_eq!(reply, Err(Fault::Silence));
    }
    let reply = ask(near(Transport::Udp), 4, procedure4::INDIRECT, &call);
    assert_eq!(reply, Err(Fault::SystemErr));
}

#[test]
fn addresses_are_translated_both_ways() {
    for address in ["10.0.0.1.8.1", "::1.0.111"] {
        let args = wire(&Address(address.as_bytes()));
        let reply = ask(near(Transport::Tcp), 3, procedure4::UADDR2TADDR, &args).unwrap();
        let netbuf = Reader::new(&reply).get::<Netbuf<'_>>().unwrap();
        assert!(decode_taddr(netbuf.data).is_some());
        let back = ask(near(Transport::Tcp), 4, procedure4::TADDR2UADDR, &reply).unwrap();
        assert_eq!(text(&back), address);
    }
    let args = wire(&Address(b"nonsense"));
    let reply = ask(near(Transport::Tcp), 3, procedure4::UADDR2TADDR, &args).unwrap();
    assert_eq!(reply, wire(&Netbuf { max_len: 0, data: b"" }));
    let back = ask(near(Transport::Tcp), 4, procedure4::TADDR2UADDR, &reply).unwrap();
    assert_eq!(text(&back), "");
}

#[test]
fn gettime_returns_the_clock() {
    let reply = ask(near(Transport::Tcp), 3, procedure4::GETTIME, b"").unwrap();
    assert_eq!(Reader::new(&reply).u32(), Ok(1_234_567));
}

#[test]
fn truncated_and_trailing_portmap_arguments_are_garbage_args() {
    let peer = near(Transport::Tcp);
    let mut args = mapping(NFS, 3, PROTOCOL_TCP);
    for cut in [0, 4, 15] {
        let part = args.get(..cut).unwrap();
        let reply = ask(peer, 2, procedure2::GETPORT, part);
        assert!(matches!(reply, Err(Fault::GarbageArgs(xdr::Error::Short { .. }))));
    }
    args.push(0);
    let reply = ask(peer, 2, procedure2::GETPORT, &args);
    assert_eq!(reply, Err(Fault::GarbageArgs(xdr::Error::Trailing(1))));
}

#[test]
fn every_version_has_its_procedures() {
    let program = program();
    assert_eq!((program.number(), program.versions()), (100_000, vec![2, 3, 4]));
    let program = &program;
    let rows = |version| (0..).map_while(move |n| program.row(version, n));
    assert_eq!([1, 2, 3, 4].map(|v| rows(v).count()), [0, 6, 9, 12]);
    assert!([2, 3, 4].into_iter().flat_map(rows).all(|row| row.plan.is_urgent()));
    for version in [2, 3, 4] {
        assert_eq!(ask(near(Transport::Tcp), version, 0, b""), Ok(Vec::new()));
    }
}

/// rpcbind does not look at them either, and a client in Python sends DUMP with the version and the
/// procedure once more behind the header.
#[test]
fn bytes_after_a_call_without_arguments_are_ignored() {
    let peer = near(Transport::Tcp);
    let more = [0, 0, 0, 2, 0, 0, 0, 4];
    for (version, number) in
        [(2, procedure2::DUMP), (3, procedure4::DUMP), (4, procedure4::GETTIME)]
    {
        let plain = ask(peer, version, number, b"").unwrap();
        assert_eq!(ask(peer, version, number, &more), Ok(plain));
        assert_eq!(decode_all_args(version, number, &more), Ok(()));
    }
}
