//! AUTH_SYS: a body that is taken says the same when it is written again, and the flavour table
//! agrees with the decoder about what is taken.

use bowline_rpc::auth::AuthTable;
use bowline_rpc::{AuthSys, Credential};
use proto::rpc::{AuthStat, AuthSysParms, GROUPS_MAX, MACHINE_NAME_MAX, OpaqueAuth, flavor};
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
    let verdict = AuthTable::default().authenticate(&credential, &OpaqueAuth::NONE);
    match parms {
        Err(_) => assert_eq!(verdict, Err(AuthStat::BadCred)),
        Ok(parms) => {
            assert_eq!(verdict, Ok(Credential::Sys(AuthSys::from(parms))));
            assert!(parms.groups.as_slice().len() <= GROUPS_MAX);
            assert!(parms.machine_name.len() <= MACHINE_NAME_MAX);
            let mut w = Writer::new();
            w.put(&parms);
            assert_eq!(w.len(), data.len());
            assert_eq!(decode(w.bytes()), Ok(parms));
        }
    }
}
