//! SCRAM-SHA-256 (RFC 5802, RFC 7677), PostgreSQL's password exchange since version 10. Client and
//! server prove to each other that they know the password, without revealing it.
//!
//! Passwords are not normalized, so a password that is not ASCII may be refused.

use std::fs::File;
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The name of the mechanism.
pub(super) const MECHANISM: &str = "SCRAM-SHA-256";
/// No channel binding, because there is no TLS.
const HEADER: &str = "n,,";
const ROUNDS_MAX: u32 = 10_000_000;
const NONCE_BYTES: usize = 18;

type Hash = [u8; 32];

/// An exchange in progress.
#[derive(Debug)]
pub(super) struct Scram {
    password: String,
    first: String,
    /// The proof that the server must send; `None` before its challenge.
    server_proof: Option<Hash>,
}

impl Scram {
    /// Starts an exchange with random numbers of this machine.
    pub(super) fn begin(password: &str) -> Result<Self, String> {
        let mut nonce = [0; NONCE_BYTES];
        let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut nonce));
        read.map_err(|error| format!("no random numbers from /dev/urandom: {error}"))?;
        Ok(Self::with_nonce(password, "", &BASE64.encode(nonce)))
    }

    /// An exchange with this nonce. PostgreSQL ignores the user name here: it has it from the start
    /// of the connection.
    fn with_nonce(password: &str, user: &str, nonce: &str) -> Self {
        Self { password: password.to_string(), first: format!("n={user},r={nonce}"), server_proof: None }
    }

    /// The first message of the client.
    pub(super) fn first(&self) -> String {
        format!("{HEADER}{}", self.first)
    }

    /// The client's proof for the challenge `asked`.
    pub(super) fn answer(&mut self, asked: &str) -> Result<String, String> {
        let wrong = || format!("the server's SCRAM message {asked:?} is none");
        let field = |name: &str| asked.split(',').find_map(|part| part.strip_prefix(name)).ok_or_else(wrong);
        let (nonce, salt) = (field("r=")?, BASE64.decode(field("s=")?).map_err(|_| wrong())?);
        let rounds: u32 = field("i=")?.parse().map_err(|_| wrong())?;
        let ours = self.first.rsplit_once("r=").map_or("", |(_, nonce)| nonce);
        if !nonce.starts_with(ours) || nonce.len() == ours.len() || !(1..=ROUNDS_MAX).contains(&rounds) {
            return Err(wrong());
        }
        let key: Hash = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(self.password.as_bytes(), &salt, rounds);
        let last = format!("c={},r={nonce}", BASE64.encode(HEADER));
        let said = format!("{},{asked},{last}", self.first);
        let client_key = hmac(&key, b"Client Key");
        let signature = hmac(&Sha256::digest(client_key), said.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, signed)| key ^ signed).collect();
        self.server_proof = Some(hmac(&hmac(&key, b"Server Key"), said.as_bytes()));
        Ok(format!("{last},p={}", BASE64.encode(proof)))
    }

    /// Checks the server's proof that it knows the password.
    pub(super) fn check(&self, said: &str) -> Result<(), String> {
        let proof = said.strip_prefix("v=").and_then(|text| BASE64.decode(text).ok());
        match (&self.server_proof, proof) {
            (Some(wanted), Some(proof)) if proof == wanted => Ok(()),
            _ => Err("the server does not prove that it knows the password".to_string()),
        }
    }
}

/// A message's proof that its sender knows `key`.
fn hmac(key: &[u8], message: &[u8]) -> Hash {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
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
    fn each_conversation_has_its_own_nonce() {
        assert_ne!(Scram::begin("x").unwrap().first(), Scram::begin("x").unwrap().first());
    }

    /// The crates implement these algorithms: they give the test vectors of RFC 4231 and RFC 7914.
    #[test]
    fn proofs_and_keys_are_those_of_the_standards() {
        fn hex(bytes: &[u8]) -> String {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        }
        let proof = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&hmac(b"Jefe", b"what do ya want for nothing?")), proof);
        let proof = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        let message = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(hex(&hmac(&[0xaa; 131], message)), proof);
        let key = "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc";
        assert_eq!(hex(&pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(b"passwd", b"salt", 1)), key);
    }
}
