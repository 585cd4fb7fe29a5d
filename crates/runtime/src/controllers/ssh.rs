//! Key pairs for plugin ssh.
use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use phalanx_controllers::job::SshKey;
use rsa::pkcs1::{EncodeRsaPrivateKey as _, LineEnding};
use rsa::traits::PublicKeyParts as _;
use rsa::{RsaPrivateKey, rand_core::OsRng};

/// As in Volcano: every ssh of an image reads it, those without elliptic curves too.
const BITS: usize = 2048;

/// A fresh pair. It takes a good part of a second: not for the thread of the IO.
pub(super) fn generate() -> Result<SshKey, String> {
    let text = |error: &dyn Display| format!("cannot generate a key pair: {error}");
    let key = RsaPrivateKey::new(&mut OsRng, BITS).map_err(|error| text(&error))?;
    let private = key.to_pkcs1_pem(LineEnding::LF).map_err(|error| text(&error))?.to_string();
    Ok(SshKey { private, public: authorized(&key) })
}

/// A line of authorized_keys: RFC 4253, section 6.6.
fn authorized(key: &RsaPrivateKey) -> String {
    let mut blob = Vec::new();
    let numbers = [key.e().to_bytes_be(), key.n().to_bytes_be()].map(|bytes| {
        // A first bit that is set would make the number negative.
        if bytes.first().is_some_and(|first| *first >= 0x80) { [vec![0], bytes].concat() } else { bytes }
    });
    for part in [b"ssh-rsa".to_vec()].into_iter().chain(numbers) {
        blob.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
        blob.extend(part);
    }
    format!("ssh-rsa {}\n", STANDARD.encode(blob))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_pair_is_in_the_formats_of_openssh() {
        let SshKey { private, public } = generate().expect("a key pair");
        assert!(private.starts_with("-----BEGIN RSA PRIVATE KEY-----\n"), "{private}");
        let blob = public.trim_end().strip_prefix("ssh-rsa ").expect("the type of the key");
        let blob = STANDARD.decode(blob).expect("base64");
        assert_eq!(&blob[..11], b"\0\0\0\x07ssh-rsa");
        assert_eq!(blob.len(), 4 + 7 + 4 + 3 + 4 + 257, "type, 65537, and 2048 bits after a zero");
    }
}
