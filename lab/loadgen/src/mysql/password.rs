//! The proof of a password for `mysql_native_password`: a hash of a hash and the server's salt,
//! with SHA-1.
//!
//! The method is weak, but the protocol has no other that this client supports. The passwords are
//! for tests only.

use sha1::{Digest, Sha1};

/// The only supported plugin.
pub(super) const PLUGIN: &str = "mysql_native_password";

/// The proof of `password` for a server that sent `salt`. It is empty if the password is empty.
pub(super) fn proof(password: &str, salt: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password);
    let mask = Sha1::new().chain_update(salt).chain_update(Sha1::digest(once)).finalize();
    once.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_checked_as_the_server_does() {
        let salt = [7; 20];
        let proof = proof("password", &salt);
        // The server knows the hash of the hash, as PASSWORD() shows it. It removes the mask and
        // hashes the result.
        let known = Sha1::digest(Sha1::digest("password"));
        let shown: String = known.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(shown, "2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19");
        let mask = Sha1::digest([&salt[..], &known].concat());
        let once: Vec<u8> = proof.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect();
        assert_eq!(Sha1::digest(once), known);
        assert!(super::proof("", &salt).is_empty());
    }
}
