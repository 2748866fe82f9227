//! AUTH_SYS: a body that is taken says the same when it is written again, and the flavour table
//! agrees with the decoder about what is taken.

use bowline_rpc::auth::{Acceptance, AuthTable, CallMessage, NotAccepted};
use bowline_rpc::{AuthSys, Credential, Transport, TransportSecurity};
use proto::rpc::{
    AuthStat, AuthSysParms, CallHeader, GROUPS_MAX, MACHINE_NAME_MAX, OpaqueAuth, flavor,
};
use xdr::{Error, Reader, Writer};

fn decode(body: &[u8]) -> Result<AuthSysParms<'_>, Error> {
    let mut r = Reader::new(body);
    let parms = r.get()?;
    r.end()?;
    Ok(parms)
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let parms = decode(data);
    let credential = OpaqueAuth { flavor: flavor::AUTH_SYS, body: data };
    let verifier = OpaqueAuth::NONE;
    let header = CallHeader { xid: 1, program: 2, version: 3, procedure: 4, credential, verifier };
    let args = Reader::new(&[]);
    let message = CallMessage {
        header,
        args,
        record: &[],
        transport: Transport::Tcp,
        security: TransportSecurity::PLAIN,
    };
    let accepted = AuthTable::default().accept(&message);
    match parms {
        Err(_) => {
            assert!(matches!(accepted, Err(NotAccepted::Denied(AuthStat::BadCred))));
        }
        Ok(parms) => {
            let Ok(Acceptance::Plain(Credential::Sys(sys))) = accepted else {
                panic!("AUTH_SYS that decodes is accepted");
            };
            assert_eq!(sys, AuthSys::from(parms));
            assert!(parms.groups.as_slice().len() <= GROUPS_MAX);
            assert!(parms.machine_name.len() <= MACHINE_NAME_MAX);
            let mut w = Writer::new();
            w.put(&parms);
            assert_eq!(w.len(), data.len());
            assert_eq!(decode(w.bytes()), Ok(parms));
        }
    }
}
