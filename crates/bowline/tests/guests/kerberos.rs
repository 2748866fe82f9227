//! Kerberos: a realm, the server and the kernel's client with rpc.gssd in one guest. Needs root, TUN and the Debian
//! packages krb5-kdc, krb5-admin-server and krb5-user.

use crate::quota::alone;
use std::path::Path;
use testing::{Missing, is_root, skip};

#[test]
fn the_kernel_client_works_over_kerberos() {
    if !is_root() || !Path::new("/dev/net/tun").exists() {
        return skip(Missing::Tun, format_args!("root and /dev/net/tun for Kerberos"));
    }
    if !Path::new("/usr/sbin/krb5kdc").exists() || !Path::new("/usr/sbin/kadmin.local").exists() {
        return skip(Missing::Program, format_args!("krb5kdc, kadmin.local"));
    }
    alone("Kerberos", "kerberos.sh", &[], 20);
}
