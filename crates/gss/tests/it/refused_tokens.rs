//! Tokens that the Kerberos library refuses: each has its words, and what to do about it.

use bowline_gss::Acceptor;
use bowline_gss::krb5::{Krb5, Principals, Sealing};
use std::fs;
use std::path::Path;
use std::time::Duration;
use sys::gssapi::{Initiator, InitiatorCredential};
use testing::{Missing, Realm, in_child, skip};

/// What is wrong, a change of krb5.conf for it, how long the token is on its way, and what the operator reads.
const CASES: [(&str, &str, u64, &[&str]); 8] = [
    ("nothing", "", 0, &[]),
    // one second in place of five minutes
    (
        "clock",
        "clockskew = 1",
        2500,
        &["Clock skew too great", "clocks of client and server differ"],
    ),
    (
        "ended",
        "clockskew = 1\n ticket_lifetime = 2s",
        4500,
        &["Ticket expired", "get a new ticket on the client"],
    ),
    // the KDC has newer keys than the server
    ("rolled", "", 0, &["kvno 3", "add it with kadmin ktadd"]),
    ("missing", "", 0, &["keytab", "no key for the name that the client uses"]),
    // of another realm than the server's keys
    ("realm", "", 0, &["no key for the name that the client uses"]),
    ("service", "", 0, &["asked for host/server.lab.test", "not an nfs/ service"]),
    ("garbage", "", 0, &["oken"]),
];

/// In a process whose library reads the realm's configuration.
fn refuse(case: &str, wait_ms: u64, wanted: &[&str]) {
    let env = |name: &str| std::env::var(name).unwrap();
    let credential =
        InitiatorCredential::from_cache("MEMORY:it", Some(&env("LAB_CLIENT_KEYTAB"))).unwrap();
    let service = if case == "service" { "host@server.lab.test" } else { "nfs@server.lab.test" };
    let (_initiator, mut token) = Initiator::begin(&credential, service).unwrap();
    std::thread::sleep(Duration::from_millis(wait_ms));
    if case == "garbage" {
        token = b"\x60\x82\x01\x00garbage".to_vec();
    }
    let keytab = env("LAB_SERVER_KEYTAB");
    let acceptor = Krb5::new(Path::new(&keytab), Principals::default(), Sealing::Own).unwrap();
    match acceptor.accept(&token) {
        Ok(established) => {
            assert!(wanted.is_empty(), "{case}: accepted");
            assert_eq!(established.principal, "alice@LAB.TEST");
        }
        Err(refusal) => {
            println!("{case}: {}", refusal.text);
            assert!(!wanted.is_empty(), "{case}: {}", refusal.text);
            for part in wanted {
                assert!(refusal.text.contains(part), "{case}: {}", refusal.text);
            }
        }
    }
}

#[test]
fn each_has_its_words() {
    if let Ok(case) = std::env::var("LAB_CASE") {
        let (_, _, wait_ms, wanted) = CASES.iter().find(|row| row.0 == case).unwrap();
        return refuse(&case, *wait_ms, wanted);
    }
    if !Realm::is_possible() {
        return skip(Missing::Program, "krb5kdc, of the package krb5-kdc");
    }
    let dir = tempfile::tempdir().unwrap();
    let realm = Realm::start(dir.path(), "aes256-cts-hmac-sha1-96");
    let file = |name: &str| dir.path().join(name).display().to_string();
    realm.kadmin("addprinc -randkey host/server.lab.test");
    let of_both = "nfs/server.lab.test host/server.lab.test";
    realm.kadmin(&format!("ktadd -norandkey -k {} {of_both}", file("server")));
    realm.kadmin(&format!("ktadd -norandkey -k {} host/server.lab.test", file("of-host")));
    realm.kadmin("addprinc -randkey nfs/server.lab.test@OTHER.TEST");
    let of_other = "nfs/server.lab.test@OTHER.TEST";
    realm.kadmin(&format!("ktadd -norandkey -k {} {of_other}", file("of-other-realm")));
    realm.kadmin(&format!("ktadd -norandkey -k {} alice", file("client")));
    let plain = fs::read_to_string(realm.config()).unwrap();
    for (case, change, ..) in CASES {
        fs::write(file(case), plain.replace("[libdefaults]", &format!("[libdefaults]\n {change}")))
            .unwrap();
        if case == "rolled" {
            realm.kadmin(&format!("ktadd -k {} nfs/server.lab.test", file("new")));
        }
        let server = file(match case {
            "missing" => "of-host",
            "realm" => "of-other-realm",
            _ => "server",
        });
        let settings = [
            format!("KRB5_CONFIG={}", file(case)),
            format!("LAB_CLIENT_KEYTAB={}", file("client")),
            format!("LAB_SERVER_KEYTAB={server}"),
            format!("LAB_CASE={case}"),
        ];
        let wrapper: Vec<&str> =
            std::iter::once("env").chain(settings.iter().map(String::as_str)).collect();
        assert!(!in_child("refused_tokens::each_has_its_words", &wrapper), "{case}");
    }
}
