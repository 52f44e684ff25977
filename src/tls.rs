//! TLS of `serve`: its certificate and key, from files in PEM.

use super::bounded;
use super::connection::Plain;
use super::secret;
use super::terminal::status;
use profinfer_diagnostics::Diagnostics;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error, ServerConfig, ServerConnection, StreamOwned};
use std::fmt::Display;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a file with certificates; further ones are not read.
const MOST: u64 = 1 << 20;
/// Time between two looks whether a file has changed.
const INTERVAL: Duration = Duration::from_secs(1);
/// The options that name the files.
const CERTIFICATE: &str = "--tls-cert";
const KEY: &str = "--tls-key";
/// What to do without these files.
const MAKE: &str = "make one with its key: `(umask 077; openssl req -x509 -newkey rsa:2048 -nodes -days 365 \
                    -subj /CN=HOST -addext subjectAltName=DNS:HOST -keyout key.pem -out cert.pem)`";

/// The files, in PEM.
#[derive(Debug, clap::Args)]
pub(crate) struct TlsArguments {
    /// Answer by TLS only (HTTPS), with the certificate in this file: PEM, followed by those of its issuers
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key: PEM, in a file that other users cannot read
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl TlsArguments {
    /// What they name; `None` if they are not given.
    pub(crate) fn tls(&self) -> Result<Option<Tls>, Diagnostics> {
        self.tls_cert.as_deref().zip(self.tls_key.as_deref()).map(|(cert, key)| Tls::read(cert, key)).transpose()
    }
}

/// Takes clients by TLS, also with a certificate that is renewed meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Tls(Arc<Mutex<Files>>);

/// The files, and the configuration of their last readable contents.
#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    looked: Instant,
    versions: [Option<Version>; 2],
    config: Arc<ServerConfig>,
}

/// What changes with a file's contents: its inode, size and time of change.
type Version = (u64, u64, i64, i64);

fn version(path: &Path) -> Option<Version> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec()))
}

impl Files {
    fn read(certificate: &Path, key: &Path) -> Result<Self, Diagnostics> {
        // Before: what changes while it is read is read again.
        let versions = [certificate, key].map(version);
        let config = config(certificate, key)?;
        Ok(Self { certificate: certificate.into(), key: key.into(), looked: Instant::now(), versions, config })
    }

    /// As the files are now, or were when they last fitted together: one is renewed before the other.
    fn look(&mut self) {
        if self.looked.elapsed() < INTERVAL {
            return;
        }
        self.looked = Instant::now();
        let versions = [self.certificate.as_path(), &self.key].map(version);
        if versions == self.versions {
            return;
        }
        self.versions = versions;
        match config(&self.certificate, &self.key) {
            Ok(config) => self.config = config,
            Err(problems) => {
                let why = problems.0.first().map_or("", |problem| &problem.message);
                status(&format!("the former certificate is used on: {why}"));
            }
        }
    }
}

/// Of a certificate, with those of its issuers, and its key.
fn config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, Diagnostics> {
    let of_certificate = |problem: &dyn Display| secret::refused(CERTIFICATE, certificate, problem, MAKE);
    let of_key = |problem: &dyn Display| secret::refused(KEY, key, problem, MAKE);
    let pem = bounded::read(certificate, MOST).map_err(|error| of_certificate(&error))?;
    let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|error| of_certificate(&error))?;
    if chain.is_empty() {
        return Err(of_certificate(&"no certificate in it"));
    }
    let pem = secret::read(KEY, key, MAKE)?;
    let private = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| of_key(&error))?;
    let versions = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| of_certificate(&error))?;
    let made = versions.with_no_client_auth().with_single_cert(chain, private);
    let mut config = made.map_err(|error| match error {
        Error::InconsistentKeys(_) => {
            let hint = format!("give the key that {} was made with", certificate.display());
            secret::refused(KEY, key, &"not the certificate's key", &hint)
        }
        Error::InvalidCertificate(_) => of_certificate(&error),
        _ => of_key(&error),
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

impl Tls {
    /// Of a certificate, with those of its issuers, and its key.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Self, Diagnostics> {
        Files::read(certificate, key).map(|files| Self(Arc::new(Mutex::new(files))))
    }

    /// A client's stream; the handshake is made with the first bytes that are read.
    pub(crate) fn accept(&self, stream: Plain) -> io::Result<StreamOwned<ServerConnection, Plain>> {
        let config = {
            let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            files.look();
            Arc::clone(&files.config)
        };
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(StreamOwned::new(connection, stream))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    /// A certificate of `localhost`, which is its own issuer.
    pub(crate) const LOCALHOST: &str = include_str!("../tests/certificates/localhost.pem");
    const ITS_KEY: &str = include_str!("../tests/certificates/localhost.key.pem");
    const OTHER_KEY: &str = include_str!("../tests/certificates/other.key.pem");

    /// What files with these texts make.
    fn with(certificate: &str, key: &str, mode: u32) -> Result<Tls, String> {
        let folder = TempDir::new().unwrap();
        let (of_certificate, of_key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&of_certificate, certificate).unwrap();
        std::fs::write(&of_key, key).unwrap();
        std::fs::set_permissions(&of_key, std::fs::Permissions::from_mode(mode)).unwrap();
        Tls::read(&of_certificate, &of_key).map_err(|problems| {
            assert!(problems.0[0].hint.is_some(), "{problems:?}");
            problems.0[0].message.clone()
        })
    }

    /// For `localhost`.
    pub(crate) fn localhost() -> Tls {
        with(LOCALHOST, ITS_KEY, 0o600).unwrap()
    }

    #[test]
    fn what_is_no_certificate_with_its_key_is_refused() {
        assert!(with(&format!("{LOCALHOST}{LOCALHOST}"), ITS_KEY, 0o640).is_ok());
        let cut = &ITS_KEY[..ITS_KEY.len() / 2];
        let not_a_certificate = LOCALHOST.replacen("MII", "AAA", 1);
        for (certificate, key, mode, option, problem) in [
            (LOCALHOST, ITS_KEY, 0o644, KEY, "other users"),
            (LOCALHOST, OTHER_KEY, 0o600, KEY, "not the certificate's key"),
            (LOCALHOST, LOCALHOST, 0o600, KEY, ""),
            (LOCALHOST, cut, 0o600, KEY, ""),
            (LOCALHOST, "", 0o600, KEY, ""),
            (ITS_KEY, ITS_KEY, 0o600, CERTIFICATE, "no certificate"),
            (not_a_certificate.as_str(), ITS_KEY, 0o600, CERTIFICATE, ""),
            ("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n", ITS_KEY, 0o600, CERTIFICATE, ""),
        ] {
            let message = with(certificate, key, mode).unwrap_err();
            assert!(message.starts_with(option) && message.contains(problem), "{message}");
        }
        let missing = Path::new("/no/such/file");
        assert!(Tls::read(missing, missing).is_err());
    }
}
