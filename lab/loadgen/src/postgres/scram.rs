//! SCRAM-SHA-256 (RFC 5802, RFC 7677), by which PostgreSQL asks for a password since 10: client and server prove to each other
//! that they know it, and nobody who listens learns it.
//!
//! A password is taken as it is: one that is not ASCII may need a normal form that is not made here.

use std::fs::File;
use std::io::Read;

use super::sha256::{Hash, hmac, key_of, sha256, xor};

/// The mechanism's name.
pub(super) const MECHANISM: &str = "SCRAM-SHA-256";
/// No channel is bound to, for there is no TLS.
const HEADER: &str = "n,,";
const ROUNDS_MAX: u32 = 10_000_000;
const NONCE_BYTES: usize = 18;

/// A conversation that has begun.
#[derive(Debug)]
pub(super) struct Scram {
    password: String,
    first: String,
    /// What the server will prove itself with; none before it was challenged.
    server_proof: Option<Hash>,
}

impl Scram {
    /// Begins with random numbers of this machine.
    pub(super) fn begin(password: &str) -> Result<Self, String> {
        let mut nonce = [0; NONCE_BYTES];
        let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut nonce));
        read.map_err(|error| format!("no random numbers from /dev/urandom: {error}"))?;
        Ok(Self::with_nonce(password, "", &base64(&nonce)))
    }

    /// PostgreSQL knows the user already, and passes over the name.
    fn with_nonce(password: &str, user: &str, nonce: &str) -> Self {
        Self { password: password.to_string(), first: format!("n={user},r={nonce}"), server_proof: None }
    }

    /// What the client says first.
    pub(super) fn first(&self) -> String {
        format!("{HEADER}{}", self.first)
    }

    /// The client's proof, for what the server asked.
    pub(super) fn answer(&mut self, asked: &str) -> Result<String, String> {
        let wrong = || format!("the server's SCRAM message {asked:?} is none");
        let field = |name: &str| asked.split(',').find_map(|part| part.strip_prefix(name)).ok_or_else(wrong);
        let (nonce, salt) = (field("r=")?, unbase64(field("s=")?).ok_or_else(wrong)?);
        let rounds: u32 = field("i=")?.parse().map_err(|_| wrong())?;
        let ours = self.first.rsplit_once("r=").map_or("", |(_, nonce)| nonce);
        if !nonce.starts_with(ours) || nonce.len() == ours.len() || !(1..=ROUNDS_MAX).contains(&rounds) {
            return Err(wrong());
        }
        let key = key_of(&self.password, &salt, rounds);
        let last = format!("c={},r={nonce}", base64(HEADER.as_bytes()));
        let said = format!("{},{asked},{last}", self.first);
        let client_key = hmac(&key, b"Client Key");
        let proof = xor(client_key, hmac(&sha256(&client_key), said.as_bytes()));
        self.server_proof = Some(hmac(&hmac(&key, b"Server Key"), said.as_bytes()));
        Ok(format!("{last},p={}", base64(&proof)))
    }

    /// Whether the server knows the password, too.
    pub(super) fn check(&self, said: &str) -> Result<(), String> {
        let proof = said.strip_prefix("v=").and_then(unbase64);
        match (&self.server_proof, proof) {
            (Some(wanted), Some(proof)) if proof == wanted => Ok(()),
            _ => Err("the server does not prove that it knows the password".to_string()),
        }
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let group = (0..3).fold(0_usize, |group, at| group << 8 | usize::from(part.get(at).copied().unwrap_or(0)));
        for digit in 0..4 {
            let known = digit <= part.len();
            text.push(if known { char::from(DIGITS[group >> (18 - 6 * digit) & 63]) } else { '=' });
        }
    }
    text
}

fn unbase64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let text = text.trim_end_matches('=');
    let (mut group, mut bits) = (0_usize, 0);
    for digit in text.bytes() {
        group = group << 6 | DIGITS.iter().position(|known| *known == digit)?;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(group >> bits & 0xff).ok()?);
            group &= (1 << bits) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    #[test]
    fn the_conversation_is_that_of_rfc_7677() {
        let mut scram = Scram::with_nonce("pencil", "user", "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let answer = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                      p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(scram.answer(ASKED).unwrap(), answer);
        scram.check("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
        assert!(scram.check("v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").is_err());
        assert!(scram.check("e=other-error").is_err());
    }

    #[test]
    fn a_server_that_says_something_else_is_refused() {
        for wrong in ["", "r=other,s=W22Z,i=1", "r=n,s=W22Z,i=1", "r=nx,s=W22Z,i=0", "r=nx,s=W!2Z,i=9", "r=nx,i=9"]
        {
            assert!(Scram::with_nonce("pencil", "", "n").answer(wrong).is_err(), "{wrong}");
        }
        assert!(Scram::with_nonce("pencil", "", "n").check("v=").is_err(), "it was not challenged yet");
    }

    #[test]
    fn bytes_come_back_from_base64() {
        for length in 0..40 {
            let bytes: Vec<u8> = (0..length).map(|at: u8| at.wrapping_mul(37).wrapping_add(200)).collect();
            assert_eq!(unbase64(&base64(&bytes)), Some(bytes));
        }
        assert_eq!(base64(b"n,,"), "biws");
        assert_ne!(Scram::begin("x").unwrap().first(), Scram::begin("x").unwrap().first());
    }
}
