//! A small HTTP/1.1 server for `GET`: what is served is short and made anew for each request. Connections are few, short
//! and bounded, so that no client can hold the program up.

use super::connection::{Connection, Plain};
use super::tls::Tls;
use super::token::Token;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Connections at a time; further ones are turned away.
const MOST_CONNECTIONS: usize = 32;
/// Bytes of a request: its line and headers.
const MAX_REQUEST: usize = 16 << 10;
/// Time that a client has to send it, with TLS after a handshake, and as much to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A status, and how a browser asks its user.
const UNAUTHORIZED: &str = "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"profinfer\"";

/// What a path leads to.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) kind: &'static str,
    pub(crate) body: String,
}

/// Listens.
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// At this address.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Where it listens; with port 0 the system has chosen one.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers whoever shows the token, if there is one, by TLS only, if that is given; on a thread each, until the
    /// program ends.
    pub(crate) fn start(
        self,
        tls: Option<Tls>,
        token: Option<Token>,
        answer: impl Fn(&str) -> Option<Answer> + Send + Sync + 'static,
    ) -> io::Result<()> {
        let (token, answer, open) = (Arc::new(token), Arc::new(answer), Arc::new(AtomicUsize::new(0)));
        let is_local = self.address.ip().is_loopback();
        let serve = move || {
            for stream in self.listener.incoming() {
                let Ok(stream) = stream else {
                    // Too many open files, say: it may pass.
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                };
                let mut stream = Plain::new(stream, PATIENCE);
                if open.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
                    // A handshake would hold others up.
                    if tls.is_none() {
                        let text = "too many connections\n";
                        let _ = send(&mut stream, "503 Service Unavailable", "text/plain", text, true);
                    }
                    open.fetch_sub(1, Ordering::SeqCst);
                    continue;
                }
                let (token, answer, of_thread) = (Arc::clone(&token), Arc::clone(&answer), Arc::clone(&open));
                let tls = tls.clone();
                let work = move || {
                    let token = token.as_ref().as_ref();
                    let _ = match tls {
                        Some(tls) => tls.accept(stream).and_then(|mut by| converse(&mut by, is_local, token, &*answer)),
                        None => converse(&mut stream, is_local, token, &*answer),
                    };
                    of_thread.fetch_sub(1, Ordering::SeqCst);
                };
                if std::thread::Builder::new().name("http".into()).spawn(work).is_err() {
                    open.fetch_sub(1, Ordering::SeqCst);
                }
            }
        };
        std::thread::Builder::new().name("http-accept".into()).spawn(serve).map(drop)
    }
}

fn converse(
    stream: &mut impl Connection,
    is_local: bool,
    token: Option<&Token>,
    answer: &dyn Fn(&str) -> Option<Answer>,
) -> io::Result<()> {
    let head = read_head(stream)?;
    let text = String::from_utf8_lossy(&head);
    let mut words = text.lines().next().unwrap_or_default().split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let plain = "text/plain; charset=utf-8";
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0")) = (method, target, version) else {
        return send(stream, "400 Bad Request", plain, "not an HTTP/1.1 request\n", true);
    };
    if !matches!(method, "GET" | "HEAD") {
        return send(stream, "405 Method Not Allowed", plain, "only GET\n", true);
    }
    if is_local && !is_for_this_machine(&text) {
        return send(stream, "403 Forbidden", plain, "this server answers to local names only\n", true);
    }
    if token.is_some_and(|token| !token.is_shown(&text)) {
        return send(stream, UNAUTHORIZED, plain, "a token is needed\n", true);
    }
    let path = target.split(['?', '#']).next().unwrap_or_default();
    match answer(path) {
        Some(Answer { kind, body }) => send(stream, "200 OK", kind, &body, method == "GET"),
        None => send(stream, "404 Not Found", plain, "not found: try / or /metrics\n", method == "GET"),
    }
}

/// Whether a request's `Host` is a name of this machine. A page of somebody else in a browser here could otherwise read
/// the answers, by a name of its own that leads here.
fn is_for_this_machine(head: &str) -> bool {
    let host = head.lines().skip(1).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    let Some(host) = host else { return true };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The request's line and headers. What follows them is left unread.
fn read_head(stream: &mut impl Connection) -> io::Result<Vec<u8>> {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    loop {
        if head.len() > MAX_REQUEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let read = stream.read(&mut piece)?;
        head.extend_from_slice(piece.get(..read).unwrap_or_default());
        if read == 0 || head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n") {
            return Ok(head);
        }
    }
}

fn send(stream: &mut impl Connection, status: &str, kind: &str, body: &str, with_body: bool) -> io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    );
    stream.allow(PATIENCE);
    stream.write_all(head.as_bytes())?;
    if with_body {
        stream.write_all(body.as_bytes())?;
    }
    stream.end()
}

#[cfg(test)]
mod tests {
    use super::super::tls;
    use super::*;
    use rustls::crypto::ring;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let _ = stream.write_all(request);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn server() -> SocketAddr {
        server_with(None)
    }

    fn server_with(token: Option<Token>) -> SocketAddr {
        start(None, token)
    }

    fn start(tls: Option<Tls>, token: Option<Token>) -> SocketAddr {
        let server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = server.address();
        let answer =
            |path: &str| (path == "/metrics").then(|| Answer { kind: "text/plain", body: "up 1\n".to_owned() });
        server.start(tls, token, answer).unwrap();
        address
    }

    #[test]
    fn requests_are_answered() {
        let address = server();
        let answer = ask(address, b"GET /metrics?x=1 HTTP/1.1\r\nHost: localhost:1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nup 1\n"), "{answer}");
        let answer = ask(address, b"HEAD /metrics HTTP/1.0\r\n\r\n");
        assert!(answer.contains("Content-Length: 5\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\nHost: [::1]:5\r\n\r\nbody", "405"),
            (b"GET /metrics HTTP/1.1\r\nhost: evil.example\r\n\r\n", "403"),
            (b"GET /metrics\r\n\r\n", "400"),
            (b"\x16\x03\x01\xff\xff\r\n\r\n", "400"),
        ] {
            let answer = ask(address, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
        }
    }

    #[test]
    fn who_has_no_token_is_asked_for_it() {
        let address = server_with(Some(Token::of("0123456789abcdef")));
        let answer = ask(address, b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("\r\nWWW-Authenticate: Basic "), "{answer}");
        assert!(!answer.contains("up 1"), "{answer}");
        let request = b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n";
        assert!(ask(address, request).ends_with("up 1\n"));
    }

    #[test]
    fn what_is_too_long_or_broken_off_harms_nobody() {
        let address = server();
        let long = [b"GET /metrics HTTP/1.1\r\nX: ".to_vec(), vec![b'a'; 2 * MAX_REQUEST]].concat();
        assert_eq!(ask(address, &long), "");
        assert!(!ask(address, b"GET /met").contains("200 OK"));
        // Silent ones do not keep others out.
        let silent: Vec<TcpStream> = (0..MOST_CONNECTIONS / 2).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").contains("200 OK"));
        // More than there may be are turned away.
        let many: Vec<TcpStream> = (0..MOST_CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503"));
        drop((silent, many));
    }

    /// A client that trusts the certificate of the tests.
    fn client() -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(tls::tests::LOCALHOST.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap()
    }

    #[test]
    fn with_tls_nothing_is_answered_without_it() {
        let address = start(Some(tls::tests::localhost()), Some(Token::of("0123456789abcdef")));
        let ask_by_tls = |request: &str| {
            let mut stream = StreamOwned::new(client(), TcpStream::connect(address).unwrap());
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            // An error if the end was not said.
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let shown = "Authorization: Bearer 0123456789abcdef\r\n\r\n";
        assert!(ask_by_tls(&format!("GET /metrics HTTP/1.1\r\n{shown}")).ends_with("\r\n\r\nup 1\n"));
        assert!(ask_by_tls("GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 401 "));
        let evil = format!("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n{shown}");
        assert!(ask_by_tls(&evil).starts_with("HTTP/1.1 403 "));
        // By plain HTTP, there is no answer but TLS's alert.
        let answer = ask(address, format!("GET /metrics HTTP/1.1\r\n{shown}").as_bytes());
        assert!(!answer.contains("HTTP") && !answer.contains("up 1"), "{answer:?}");
    }

    #[test]
    fn who_stalls_in_the_handshake_is_left() {
        let address = start(Some(tls::tests::localhost()), None);
        let since = Instant::now();
        // More than there may be: later ones wait for nobody.
        let silent: Vec<TcpStream> = (0..MOST_CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        // One sends its first message byte by byte.
        let mut slow = silent[0].try_clone().unwrap();
        let mut hello = Vec::new();
        client().write_tls(&mut hello).unwrap();
        std::thread::spawn(move || {
            for byte in hello {
                if slow.write_all(&[byte]).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        for mut stream in &silent {
            stream.set_read_timeout(Some(3 * PATIENCE)).unwrap();
            let mut rest = [0; 64];
            assert!(matches!(stream.read(&mut rest), Ok(0) | Err(_)));
            assert!(since.elapsed() < 2 * PATIENCE, "{:?}", since.elapsed());
        }
        // They are counted until their threads have ended.
        std::thread::sleep(Duration::from_millis(100));
        let mut stream = StreamOwned::new(client(), TcpStream::connect(address).unwrap());
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("200 OK"), "{answer}");
    }
}
