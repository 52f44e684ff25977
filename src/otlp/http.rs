//! OTLP by HTTP, as JSON or in protocol buffers.

use super::endpoint::Endpoint;
use super::failure::Failure;
use profinfer_live::{OtlpRequest, Signal};
use rustls::crypto::ring;
use std::sync::Arc;
use std::time::Duration;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// What requests are written as.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

/// A receiver that is reached by HTTP.
#[derive(Debug)]
pub(crate) struct Http {
    agent: ureq::Agent,
    url: String,
    encoding: Encoding,
    headers: Vec<(String, String)>,
}

impl Http {
    /// Each request may take this time.
    pub(crate) fn new(endpoint: Endpoint, encoding: Encoding, patience: Duration) -> Self {
        let Endpoint { url, headers, roots, .. } = endpoint;
        let roots = roots.unwrap_or_default();
        let roots = roots.iter().map(|root| Certificate::from_der(root).to_owned()).collect::<Vec<_>>();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .build();
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(patience))
            .max_redirects(0)
            .proxy(None)
            .tls_config(tls)
            .build()
            .into();
        Self { agent, url, encoding, headers }
    }

    /// Sends a request.
    pub(crate) fn send(&self, request: &OtlpRequest) -> Result<(), Failure> {
        let path = match request.signal() {
            Signal::Metrics => "v1/metrics",
            Signal::Traces => "v1/traces",
        };
        let (kind, body) = match self.encoding {
            Encoding::Json => ("application/json", request.json()),
            Encoding::Protobuf => ("application/x-protobuf", request.protobuf()),
        };
        let mut post = self.agent.post(format!("{}/{path}", self.url));
        for (name, value) in &self.headers {
            post = post.header(name, value);
        }
        match post.header("Content-Type", kind).send(body) {
            // One that sends elsewhere has taken nothing.
            Ok(answer) if !answer.status().is_success() => Err(Failure::of_http(answer.status().as_u16())),
            Ok(_) => Ok(()),
            Err(ureq::Error::StatusCode(status)) => Err(Failure::of_http(status)),
            Err(error) => Err(Failure::unreachable(error)),
        }
    }
}
