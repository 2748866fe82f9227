//! What can be said without a realm; with one, see the tests of the server over Kerberos.

use super::{AcceptorCredential, GssError, InitiatorCredential, is_available};
use std::path::Path;

#[test]
fn a_keytab_that_is_not_there_is_an_error_in_words() {
    if is_available().is_err() {
        return;
    }
    let Err(GssError { major, text, .. }) =
        AcceptorCredential::from_keytab(Path::new("/nonexistent/keytab"))
    else {
        panic!("there is no such file");
    };
    assert_ne!(major, 0);
    assert!(text.contains("/nonexistent/keytab"), "{text}");
}

#[test]
fn a_cache_that_is_not_there_has_no_tickets() {
    if is_available().is_err() {
        return;
    }
    assert!(InitiatorCredential::from_cache("FILE:/nonexistent/cache", None).is_err());
    assert!(InitiatorCredential::from_cache("FILE:\0", None).is_err());
}
