//! The token by which settings can be changed on the web page: 128 random bits in hexadecimal, kept in memory only.
//!
//! The lock guards the text; it is held to compare, copy or replace it.

use std::fs::File;
use std::io::{self, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The token in force. An empty one is never accepted.
#[derive(Debug)]
pub struct Token(Mutex<String>);

impl Token {
    /// A new one.
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Mutex::new(random()?)))
    }

    /// What is to be typed into the page; empty if there is none.
    pub fn text(&self) -> String {
        self.lock().clone()
    }

    /// Whether this is the token.
    pub(super) fn is(&self, given: &str) -> bool {
        same(&self.lock(), given)
    }

    /// If this is the token, replaces it by a new one, and says so.
    pub(super) fn renew_if(&self, given: &str) -> bool {
        let mut token = self.lock();
        let is_known = same(&token, given);
        if is_known {
            // without random bytes there is none
            *token = random().unwrap_or_default();
        }
        is_known
    }

    fn lock(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in a time that does not depend on where they differ.
fn same(token: &str, given: &str) -> bool {
    let differs = token.bytes().zip(given.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    token.len() == given.len() && std::hint::black_box(differs) == 0 && !token.is_empty()
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn a_token_is_known_until_it_is_renewed() {
        let token = Token::new().unwrap();
        let text = token.text();
        assert_eq!(text.len(), 32);
        assert_ne!(text, Token::new().unwrap().text());
        for wrong in ["", &text[..31], &format!("{text}0"), &"0".repeat(32)] {
            assert!(!token.is(wrong) && !token.renew_if(wrong), "{wrong}");
        }
        assert!(token.is(&text) && token.renew_if(&text));
        assert!(!token.is(&text) && token.is(&token.text()));
        *token.lock() = String::new();
        assert!(!token.is(""));
    }
}
