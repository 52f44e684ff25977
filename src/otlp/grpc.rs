//! OTLP by gRPC: a call without streams, over HTTP/2, on a connection for it alone. Pushes are rare; nothing has to be
//! kept alive between them.

use super::endpoint::Endpoint;
use super::failure::Failure;
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use h2::RecvStream;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, printable};
use profinfer_live::{OtlpRequest, Signal};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::future::poll_fn;
use std::io::Cursor;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;
use ureq::http::header::{HeaderName, HeaderValue};
use ureq::http::{HeaderMap, Request, Response, StatusCode, Uri};

/// Bytes of an answer; it says little.
const MAX_ANSWER: usize = 1 << 20;
/// Bytes of its headers and trailers, each.
const MAX_HEADERS: u32 = 16 << 10;
/// The code of what became of a call.
const STATUS: &str = "grpc-status";
/// The name of a detail: when to repeat a request.
const RETRY: &[u8] = b"google.rpc.RetryInfo";

/// A receiver that is reached by gRPC.
pub(crate) struct Grpc {
    /// Taken when this is dropped.
    runtime: Option<Runtime>,
    url: String,
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    metadata: HeaderMap,
    patience: Duration,
}

impl Grpc {
    /// Each request may take this time.
    pub(crate) fn new(endpoint: Endpoint, patience: Duration) -> Result<Self, Diagnostics> {
        let Endpoint { url, headers, roots, .. } = endpoint;
        let problem = |message: String| -> Diagnostics {
            let hint = "give the receiver's base URL: `--otlp http://127.0.0.1:4317`";
            Diagnostic::error(Code::BadArgument, message).hint(hint).into()
        };
        let no_name = || problem(format!("`{}` has no name of a host", printable(&url)));
        let uri: Uri = url.parse().map_err(|_| no_name())?;
        let host = uri.host().ok_or_else(no_name)?.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if roots.is_some() { 443 } else { 80 });
        let tls = match roots {
            None => None,
            Some(roots) => {
                let name = ServerName::try_from(host.clone()).map_err(|_| no_name())?;
                let mut trusted = RootCertStore::empty();
                trusted.add_parsable_certificates(roots);
                let versions = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                    .with_safe_default_protocol_versions()
                    .map_err(|error| problem(error.to_string()))?;
                let mut config = versions.with_root_certificates(trusted).with_no_client_auth();
                config.alpn_protocols = vec![b"h2".to_vec()];
                Some((TlsConnector::from(Arc::new(config)), name))
            }
        };
        let mut metadata = HeaderMap::new();
        for (name, value) in &headers {
            // What a header may be was checked when it was read.
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                metadata.append(name, value);
            }
        }
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| problem(format!("cannot wait for a receiver: {error}")))?;
        let base = match (url.split_once("://"), uri.authority()) {
            // Without a user's name: it belongs into no request's authority.
            (Some((scheme, _)), Some(authority)) => {
                format!("{scheme}://{}", authority.as_str().rsplit('@').next().unwrap_or_default())
            }
            _ => return Err(no_name()),
        };
        Ok(Self { runtime: Some(runtime), url: base, host, port, tls, metadata, patience })
    }

    /// Sends a request.
    pub(crate) fn send(&self, request: &OtlpRequest) -> Result<(), Failure> {
        let Some(runtime) = &self.runtime else { return Err(Failure::unreachable("no runtime")) };
        let call = async { tokio::time::timeout(self.patience, self.call(request)).await };
        runtime.block_on(call).unwrap_or_else(|_| Err(Failure::unreachable("no answer in time")))
    }

    async fn call(&self, request: &OtlpRequest) -> Result<(), Failure> {
        let head = self.head(request.signal())?;
        let message = framed(&request.protobuf());
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(Failure::unreachable)?;
        match &self.tls {
            None => exchange(stream, head, message).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await.map_err(Failure::unreachable)?;
                exchange(stream, head, message).await
            }
        }
    }

    fn head(&self, signal: Signal) -> Result<Request<()>, Failure> {
        let service = match signal {
            Signal::Metrics => "metrics.v1.MetricsService",
            Signal::Traces => "trace.v1.TraceService",
        };
        let uri = format!("{}/opentelemetry.proto.collector.{service}/Export", self.url);
        let mut head = Request::post(uri).body(()).map_err(Failure::unreachable)?;
        *head.headers_mut() = self.metadata.clone();
        for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
            head.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        let agent = concat!("profinfer/", env!("CARGO_PKG_VERSION"));
        head.headers_mut().insert("user-agent", HeaderValue::from_static(agent));
        Ok(head)
    }
}

impl Drop for Grpc {
    fn drop(&mut self) {
        // A name that is still being looked up is not waited for.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A message as gRPC sends it: not compressed, with its length before it.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], message].concat()
}

/// Sends a request on a new connection, and waits for what became of it.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    head: Request<()>,
    message: Vec<u8>,
) -> Result<(), Failure> {
    let handshake = h2::client::Builder::new()
        .max_header_list_size(MAX_HEADERS)
        .enable_push(false)
        .handshake::<_, Cursor<Vec<u8>>>(stream);
    let (requests, connection) = handshake.await.map_err(Failure::unreachable)?;
    let answer = async {
        let mut requests = requests.ready().await.map_err(Failure::unreachable)?;
        let (answer, mut body) = requests.send_request(head, false).map_err(Failure::unreachable)?;
        body.send_data(Cursor::new(message), true).map_err(Failure::unreachable)?;
        outcome(answer.await.map_err(Failure::unreachable)?).await
    };
    let (mut connection, mut answer) = (pin!(connection), pin!(answer));
    let mut is_over = false;
    // The connection moves bytes while it is polled.
    poll_fn(|context| {
        is_over = is_over || connection.as_mut().poll(context).is_ready();
        match answer.as_mut().poll(context) {
            // Nobody would wake this again.
            Poll::Pending if is_over => Poll::Ready(Err(Failure::unreachable("the connection was closed"))),
            polled => polled,
        }
    })
    .await
}

async fn outcome(answer: Response<RecvStream>) -> Result<(), Failure> {
    let (head, mut body) = answer.into_parts();
    // Without a message, the status comes at once.
    if head.headers.contains_key(STATUS) {
        return of_status(&head.headers);
    }
    if head.status != StatusCode::OK {
        return Err(Failure::of_http(head.status.as_u16()));
    }
    let mut read = 0;
    while let Some(piece) = body.data().await {
        let length = piece.map_err(Failure::unreachable)?.len();
        read += length;
        if read > MAX_ANSWER {
            return Err(Failure::unreachable("the answer is too long"));
        }
        body.flow_control().release_capacity(length).map_err(Failure::unreachable)?;
    }
    let trailers = body.trailers().await.map_err(Failure::unreachable)?;
    of_status(&trailers.unwrap_or_default())
}

/// The status of a call, after its answer.
fn of_status(headers: &HeaderMap) -> Result<(), Failure> {
    let text = |name: &str| {
        headers.get(name).map_or_else(String::new, |value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    match text(STATUS).parse() {
        Ok(0) => Ok(()),
        Ok(code) => Err(Failure::of_grpc(code, &text("grpc-message"), has_delay(&text("grpc-status-details-bin")))),
        Err(_) => Err(Failure { message: "the answer is not one of gRPC".to_owned(), is_final: true }),
    }
}

/// Whether the details of a status tell when to repeat the request.
fn has_delay(details: &str) -> bool {
    // A message of any types, of which each has its name with it.
    let details = BASE64_STANDARD_NO_PAD.decode(details.trim_end_matches('=')).unwrap_or_default();
    details.windows(RETRY.len()).any(|part| part == RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(headers: &[(&'static str, &'static str)]) -> Result<(), Failure> {
        of_status(&headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect())
    }

    #[test]
    fn a_message_has_its_length_before_it() {
        assert_eq!(framed(b"abc"), [0, 0, 0, 0, 3, b'a', b'b', b'c']);
        assert_eq!(framed(&[7; 300])[..5], [0, 0, 0, 1, 44]);
    }

    #[test]
    fn a_status_tells_whether_to_repeat() {
        assert!(status(&[(STATUS, "0")]).is_ok());
        let full = status(&[(STATUS, "8"), ("grpc-message", "full")]).unwrap_err();
        assert!(full.is_final && full.message == "RESOURCE_EXHAUSTED: full");
        // A `google.rpc.Status` with a `google.rpc.RetryInfo` of one second.
        let details = "CAgSBGZ1bGwaMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIECgIIAQ";
        let full = [(STATUS, "8"), ("grpc-status-details-bin", details)];
        assert!(!status(&full).unwrap_err().is_final);
        for wrong in ["", "x", "-1"] {
            assert!(status(&[(STATUS, wrong)]).unwrap_err().is_final);
        }
        assert!(status(&[]).unwrap_err().is_final);
        assert!(!has_delay("?"));
    }
}
