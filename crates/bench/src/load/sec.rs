//! How calls are protected: by Kerberos (RPCSEC_GSS), each simulated client with a context of its own, or by TLS
//! (RFC 9289), each connection with a session of its own. What is prepared for a load, and the sessions and opens of
//! version 4, is prepared by AUTH_SYS, under `tls` inside of TLS.

use super::error::LoadError;
use super::plan::Plan;
use gss::Caller;
use proto::nfs3;
use proto::rpcsec_gss::Service;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::str::FromStr;
use sys::gssapi::InitiatorCredential;
use tls::{ClientFiles, ClientStream, ClientTls, Session};

/// The most contexts of a load: all are one principal's, of which servers keep so many.
const CONTEXTS_MAX: usize = 1000;
/// Bytes of the longest reply to the first call of a context that is read: a token with what is around it.
const REPLY_MAX: usize = 128 << 10;

/// How calls are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sec {
    /// Not at all: AUTH_SYS.
    Sys,
    /// The user is proven, and the header is signed.
    Krb5,
    /// Arguments and results are signed as well.
    Krb5i,
    /// Arguments and results are encrypted.
    Krb5p,
    /// AUTH_SYS inside of TLS.
    Tls,
}

impl FromStr for Sec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Sys, Self::Krb5, Self::Krb5i, Self::Krb5p, Self::Tls];
        all.into_iter()
            .find(|sec| sec.name() == text)
            .ok_or_else(|| format!("{text}: not a protection; one of sys, krb5, krb5i, krb5p, tls"))
    }
}

impl Sec {
    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sys => "sys",
            Self::Krb5 => "krb5",
            Self::Krb5i => "krb5i",
            Self::Krb5p => "krb5p",
            Self::Tls => "tls",
        }
    }

    /// The service of RPCSEC_GSS, if it is that.
    pub(crate) const fn service(self) -> Option<Service> {
        match self {
            Self::Krb5 => Some(Service::None),
            Self::Krb5i => Some(Service::Integrity),
            Self::Krb5p => Some(Service::Privacy),
            Self::Sys | Self::Tls => None,
        }
    }

    /// # Errors
    /// What does not go together with it.
    pub(super) fn check(self, plan: &Plan) -> Result<(), String> {
        if self == Self::Sys {
            return Ok(());
        }
        let name = self.name();
        if plan.proto != super::plan::Proto::Tcp {
            return Err(format!("--sec {name} needs --proto tcp"));
        }
        if self.service().is_some() && plan.clients > CONTEXTS_MAX {
            return Err(format!(
                "--sec {name} with {} clients: each has a context, at most {CONTEXTS_MAX}",
                plan.clients
            ));
        }
        Ok(())
    }
}

/// What the clients of a load need for their protection.
pub(crate) enum Protection {
    None,
    Gss { credential: InitiatorCredential, target: String, service: Service },
    Tls { client: ClientTls, name: String },
}

impl Protection {
    pub(crate) fn of(plan: &Plan) -> Result<Self, LoadError> {
        let Some(service) = plan.sec.service() else { return Self::of_connection(plan) };
        let credential =
            InitiatorCredential::of_user().map_err(|error| plan.unprotected(&error))?;
        Ok(Self::Gss { credential, target: format!("nfs@{}", plan.server_name), service })
    }

    /// What is below the calls: nothing, or TLS.
    pub(super) fn of_connection(plan: &Plan) -> Result<Self, LoadError> {
        if plan.sec != Sec::Tls {
            return Ok(Self::None);
        }
        // the server's certificate does not matter to who measures
        let client = ClientTls::open(&ClientFiles::default(), false, tls::ALPN)
            .map_err(|error| plan.unprotected(&error))?;
        Ok(Self::Tls { client, name: plan.server_name.clone() })
    }

    /// The context of a client, established over `stream`, if there is to be one.
    pub(crate) fn caller(
        &self,
        plan: &Plan,
        stream: &mut TcpStream,
    ) -> Result<Option<Caller>, LoadError> {
        let Self::Gss { credential, target, service } = self else { return Ok(None) };
        let caller = Caller::establish(credential, target, *service, program(plan), |call| {
            exchange(stream, call, plan)
        });
        caller.map(Some).map_err(|error| plan.unprotected(&format_args!("{target}: {error}")))
    }

    /// The connection with its session, if there is to be one. No reply comes before the first call.
    pub(crate) fn session(
        &self,
        plan: &Plan,
        stream: TcpStream,
        server: SocketAddr,
    ) -> Result<(TcpStream, Option<Box<Session>>), LoadError> {
        if !matches!(self, Self::Tls { .. }) {
            return Ok((stream, None));
        }
        let (stream, session, _) = self.sealed(plan, stream, server)?.into_parts();
        Ok((stream, Some(session)))
    }

    /// The connection, sealed.
    pub(super) fn sealed(
        &self,
        plan: &Plan,
        stream: TcpStream,
        server: SocketAddr,
    ) -> Result<ClientStream<TcpStream>, LoadError> {
        let Self::Tls { client, name } = self else {
            return Err(plan.unprotected(&"not TLS"));
        };
        let tls = (client, name.as_str());
        client::starttls::begin(stream, server, plan.timeout, program(plan), tls)
            .map_err(|error| plan.unprotected(&error))
    }
}

/// What NULL is called of.
fn program(plan: &Plan) -> (u32, u32) {
    (nfs3::PROGRAM, plan.version.number())
}

impl Plan {
    /// That calls cannot be protected, and why.
    fn unprotected(&self, why: &dyn Display) -> LoadError {
        LoadError::Protection { sec: self.sec.name(), why: why.to_string() }
    }
}

/// Sends a call on a stream that waits; its reply.
fn exchange(stream: &mut TcpStream, call: &[u8], plan: &Plan) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(plan.timeout))?;
    let mark = rpc::record::mark(call.len()).unwrap_or_default().to_be_bytes();
    stream.write_all(&[&mark[..], call].concat())?;
    let mut mark = [0; 4];
    stream.read_exact(&mut mark)?;
    let len = rpc::record::single(mark).filter(|len| *len <= REPLY_MAX);
    let mut reply = vec![0; len.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?];
    stream.read_exact(&mut reply)?;
    stream.set_read_timeout(None)?;
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::Sec;
    use crate::load::{Plan, Proto, Workload};

    #[test]
    fn protections_are_parsed_and_need_a_connection() {
        for name in ["sys", "krb5", "krb5i", "krb5p", "tls"] {
            let mut plan = Plan::new("127.0.0.1:2049".parse().unwrap(), "/x", Workload::Null);
            plan.sec = name.parse().unwrap();
            assert_eq!((plan.sec.name(), plan.check()), (name, Ok(())));
            plan.version = "4.1".parse().unwrap();
            assert_eq!(plan.check(), Ok(()), "{name}");
            plan.version = "3".parse().unwrap();
            plan.proto = Proto::Udp;
            assert_eq!(plan.check().is_ok(), name == "sys");
        }
        assert!("krb4".parse::<Sec>().is_err());
    }
}
