//! What clients of `serve` must show: a token, as a bearer, or as the password of a browser or of Prometheus.

use super::secret;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use profinfer_diagnostics::Diagnostics;
use sha2::{Digest, Sha256};
use std::path::Path;

/// Whose password it is.
const USER: &str = "profinfer";
/// Characters of a token.
const LENGTH: std::ops::RangeInclusive<usize> = 16..=512;
/// The option that names its file.
const OPTION: &str = "--token-file";

/// A token; digests of what clients send, so that comparing tells nothing by its time.
#[derive(Debug)]
pub(crate) struct Token([[u8; 32]; 2]);

impl Token {
    /// The first line of a file that others cannot read.
    pub(crate) fn read(file: &Path) -> Result<Self, Diagnostics> {
        let make = format!("make one: `(umask 077; openssl rand -hex 32 >{})`", file.display());
        let text = secret::read(OPTION, file, &make)?;
        let token = text.lines().next().unwrap_or_default().trim();
        if !LENGTH.contains(&token.len()) || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message =
                format!("no token of {} to {} visible characters in its first line", LENGTH.start(), LENGTH.end());
            return Err(secret::refused(OPTION, file, &message, &make));
        }
        Ok(Self::of(token))
    }

    /// Of this text.
    pub(crate) fn of(token: &str) -> Self {
        let basic = BASE64_STANDARD.encode(format!("{USER}:{token}"));
        Self([format!("Bearer {token}"), format!("Basic {basic}")].map(|value| Sha256::digest(value).into()))
    }

    /// Whether a request's headers have it.
    pub(crate) fn is_shown(&self, head: &str) -> bool {
        let values = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let mut values = values.filter(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let (Some((_, value)), None) = (values.next(), values.next()) else { return false };
        // The name of a scheme has no case.
        let (scheme, rest) = value.trim().split_once(' ').unwrap_or_default();
        let scheme = if scheme.eq_ignore_ascii_case("bearer") { "Bearer" } else { "Basic" };
        let shown: [u8; 32] = Sha256::digest(format!("{scheme} {}", rest.trim())).into();
        self.0.contains(&shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn it_is_a_bearer_or_a_password() {
        let token = Token::of(TOKEN);
        for value in [
            format!("Bearer {TOKEN}"),
            format!("bearer  {TOKEN} "),
            // profinfer:0123456789abcdef
            "Basic cHJvZmluZmVyOjAxMjM0NTY3ODlhYmNkZWY=".to_owned(),
        ] {
            assert!(token.is_shown(&format!("GET / HTTP/1.1\r\nauthorization: {value}\r\n\r\n")), "{value}");
        }
        for head in [
            "GET / HTTP/1.1\r\nHost: a\r\n".to_owned(),
            format!("GET / HTTP/1.1\r\nAuthorization: Bearer {TOKEN}0\r\n"),
            format!("GET / HTTP/1.1\r\nAuthorization: Basic {TOKEN}\r\n"),
            format!("GET / HTTP/1.1\r\nAuthorization: {TOKEN}\r\n"),
            format!("GET / HTTP/1.1\r\nAuthorization: Bearer x\r\nAuthorization: Bearer {TOKEN}\r\n"),
            format!("Authorization: Bearer {TOKEN}"),
        ] {
            assert!(!token.is_shown(&head), "{head}");
        }
    }

    #[test]
    fn files_that_others_read_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let with = |text: &str, mode: u32| {
            std::fs::write(file.path(), text).unwrap();
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            Token::read(file.path()).map_err(|problems| problems.0[0].message.clone())
        };
        assert!(with(&format!("{TOKEN}\n"), 0o600).is_ok() && with(TOKEN, 0o640).is_ok());
        assert!(with(TOKEN, 0o644).is_err_and(|message| message.contains("other users")));
        assert!(with("short\n", 0o600).is_err() && with("\n", 0o600).is_err());
        assert!(Token::read(Path::new("/no/such/file")).is_err());
    }
}
