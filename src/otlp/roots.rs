//! Whose certificates a receiver may show.

use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, printable};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;

/// OpenTelemetry's variable.
pub(crate) const VARIABLE: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";

/// The certificates in this file, or else those that the system trusts.
pub(crate) fn roots(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, Diagnostics> {
    match file {
        Some(file) => of_file(file),
        None => of_system(),
    }
}

fn of_file(file: &Path) -> Result<Vec<CertificateDer<'static>>, Diagnostics> {
    let problem = |message: String| -> Diagnostics {
        let message = format!("{VARIABLE}: {}: {}", file.display(), printable(&message));
        Diagnostic::error(Code::BadArgument, message)
            .hint("name a PEM file with the certificate of the authority that the receiver's certificate is from")
            .into()
    };
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let found: Vec<CertificateDer<'static>> = found.map_err(|error| problem(error.to_string()))?;
    if found.is_empty() { Err(problem("no certificate in it".to_owned())) } else { Ok(found) }
}

fn of_system() -> Result<Vec<CertificateDer<'static>>, Diagnostics> {
    let found = rustls_native_certs::load_native_certs();
    if !found.certs.is_empty() {
        return Ok(found.certs);
    }
    let reason = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
    let message = format!("this system has no trusted certificates{reason}");
    let hint = format!("install the package ca-certificates, or name a PEM file by {VARIABLE}");
    Err(Diagnostic::error(Code::BadArgument, message).hint(hint).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused() {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates");
        assert!(roots(Some(&tests.join("localhost.pem"))).is_ok_and(|found| found.len() == 1));
        for wrong in ["localhost.key.pem", "no-such-file", "."] {
            let problems = roots(Some(&tests.join(wrong))).unwrap_err();
            assert!(problems.0[0].message.starts_with(VARIABLE) && problems.0[0].hint.is_some(), "{problems:?}");
        }
    }
}
