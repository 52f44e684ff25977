//! Where figures are pushed to, and how: of the command line and of OpenTelemetry's variables.

use super::roots::{self, roots};
use clap::ValueEnum;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, printable};
use rustls::pki_types::CertificateDer;
use std::path::Path;
use ureq::http::Uri;

/// How requests are sent; names are OpenTelemetry's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// HTTP, as JSON
    #[value(name = "http/json")]
    HttpJson,
    /// HTTP, in protocol buffers
    #[value(name = "http/protobuf")]
    HttpProtobuf,
    /// gRPC
    #[value(name = "grpc")]
    Grpc,
}

/// Where to push to.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Without a slash at its end.
    pub(crate) url: String,
    pub(crate) protocol: Protocol,
    pub(crate) headers: Vec<(String, String)>,
    /// Whose certificates the receiver may show; `None` without TLS.
    pub(crate) roots: Option<Vec<CertificateDer<'static>>>,
}

impl Endpoint {
    /// Of a base URL, with the protocol, headers and roots that OpenTelemetry's variables name.
    pub(crate) fn parse(url: &str, protocol: Option<Protocol>) -> Result<Self, Diagnostics> {
        Self::with(url, protocol, &|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn with(
        url: &str,
        protocol: Option<Protocol>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Diagnostics> {
        let protocol = match (protocol, variable("OTEL_EXPORTER_OTLP_PROTOCOL")) {
            (Some(protocol), _) => protocol,
            (None, Some(name)) => Protocol::from_str(&name, false).map_err(|_| {
                let message = format!("OTEL_EXPORTER_OTLP_PROTOCOL is no protocol: `{}`", printable(&name));
                problem(message, "set it to http/json, http/protobuf or grpc, or use `--otlp-protocol`")
            })?,
            (None, None) => Protocol::HttpJson,
        };
        let example = match protocol {
            Protocol::Grpc => "give the receiver's base URL: `--otlp http://127.0.0.1:4317`",
            _ => "give the receiver's base URL: `--otlp http://127.0.0.1:4318`",
        };
        let uri: Uri = url.parse().map_err(|_| problem(format!("`{}` is not a URL", printable(url)), example))?;
        let has_tls = match (uri.scheme_str(), uri.host()) {
            (Some("http"), Some(_)) => false,
            (Some("https"), Some(_)) => true,
            _ => return Err(problem(format!("`{}` is not a URL of HTTP", printable(url)), example)),
        };
        if protocol == Protocol::Grpc && !matches!(uri.path(), "" | "/") {
            return Err(problem(format!("`{}` has a path, which gRPC has not", printable(url)), example));
        }
        let text = variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let headers = headers(&text).ok_or_else(|| {
            let message = "OTEL_EXPORTER_OTLP_HEADERS has no list of headers".to_owned();
            problem(message, "write it as `name=value,name=value`")
        })?;
        let file = variable(roots::VARIABLE);
        let roots = has_tls.then(|| roots(file.as_deref().map(Path::new))).transpose()?;
        Ok(Self { url: url.trim_end_matches('/').to_owned(), protocol, headers, roots })
    }
}

fn problem(message: String, hint: &str) -> Diagnostics {
    Diagnostic::error(Code::BadArgument, message).hint(hint).into()
}

/// `name=value,name=value`, where values may have characters as `%2C`; `None` of anything else.
fn headers(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let (name, value) = (name.trim(), decoded(value.trim())?);
            let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            let is_value = value.bytes().all(|byte| byte == b'\t' || (b' '..0x7f).contains(&byte));
            (is_name && is_value).then(|| (name.to_owned(), value))
        })
        .collect()
}

/// A text whose characters may be written as `%` and two hexadecimal digits; any other `%` is one. `None` where that is no
/// text.
fn decoded(text: &str) -> Option<String> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let code = digit(after.first()).zip(digit(after.get(1))).filter(|_| *first == b'%');
        let code = code.and_then(|(high, low)| u8::try_from(16 * high + low).ok());
        bytes.push(code.unwrap_or(*first));
        rest = code.and_then(|_| after.get(2..)).unwrap_or(after);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_names_and_values() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(headers(""), Some(Vec::new()));
        assert_eq!(headers("a=b, X-Key = c d=,"), Some(vec![pair("a", "b"), pair("X-Key", "c d=")]));
        let encoded = "Authorization=Basic%20dXNlcjpwYXNz%3D%3d,a=b%2Cc,d=100%,e=%zz%4";
        let decoded =
            [pair("Authorization", "Basic dXNlcjpwYXNz=="), pair("a", "b,c"), pair("d", "100%"), pair("e", "%zz%4")];
        assert_eq!(headers(encoded).as_deref(), Some(&decoded[..]));
        for wrong in ["a", "=b", "a b=c", "a=b\r\nEvil: 1", "a=b%0d%0aEvil: 1", "a=%ff"] {
            assert_eq!(headers(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn only_urls_of_http_are_taken() {
        let parse = |url: &str, protocol| Endpoint::with(url, Some(protocol), &|_| None);
        for protocol in Protocol::value_variants() {
            let endpoint = parse("http://127.0.0.1:4318/", *protocol).unwrap();
            assert!(endpoint.url == "http://127.0.0.1:4318" && endpoint.roots.is_none());
            for wrong in ["127.0.0.1:4318", "http://", "unix:/run/x", ""] {
                assert!(parse(wrong, *protocol).is_err(), "{wrong:?}");
            }
        }
        assert!(parse("http://collector/otlp", Protocol::HttpJson).is_ok());
        assert!(parse("http://collector/otlp", Protocol::Grpc).is_err());
    }

    #[test]
    fn variables_say_what_options_do_not() {
        let certificate = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates/localhost.pem");
        let parse = |protocol, of_variable: &str, certificate: &str| {
            Endpoint::with("https://collector:4317", protocol, &|name| match name {
                "OTEL_EXPORTER_OTLP_PROTOCOL" => Some(of_variable.to_owned()),
                roots::VARIABLE => Some(certificate.to_owned()),
                _ => None,
            })
        };
        let endpoint = parse(None, "grpc", certificate).unwrap();
        assert_eq!((endpoint.protocol, endpoint.roots.map(|roots| roots.len())), (Protocol::Grpc, Some(1)));
        let endpoint = parse(Some(Protocol::HttpJson), "?", certificate).unwrap();
        assert_eq!(endpoint.protocol, Protocol::HttpJson);
        assert!(parse(None, "http", certificate).is_err());
        assert!(parse(None, "grpc", "/no/such/file").is_err());
    }
}
