//! Why a receiver did not take a request, and whether it may take it later: as OTLP has it, for HTTP and for gRPC.

/// Names of gRPC's codes, by number.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Why a request was not delivered.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    /// It would be refused again.
    pub(crate) is_final: bool,
}

impl Failure {
    /// Nobody has taken it, or answered in time.
    pub(crate) fn unreachable(error: impl ToString) -> Self {
        Self { message: error.to_string(), is_final: false }
    }

    /// Of a status of HTTP that is none of success.
    pub(crate) fn of_http(status: u16) -> Self {
        Self { message: format!("http status: {status}"), is_final: !matches!(status, 429 | 502..=504) }
    }

    /// Of a code of gRPC and the text with it; `with_delay` if the receiver said when to repeat it.
    pub(crate) fn of_grpc(code: usize, text: &str, with_delay: bool) -> Self {
        let name = CODES.get(code).map_or_else(|| format!("code {code}"), |name| (*name).to_owned());
        let message = if text.is_empty() { name } else { format!("{name}: {text}") };
        // Cancelled, deadline exceeded, aborted, out of range, unavailable, data loss. Exhausted: of a quota it may pass,
        // of a message's size it does not.
        let is_final = !(matches!(code, 1 | 4 | 10 | 11 | 14 | 15) || code == 8 && with_delay);
        Self { message, is_final }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_repeated() {
        assert!([400, 401, 404, 413, 500].iter().all(|status| Failure::of_http(*status).is_final));
        assert!(![429, 502, 503, 504].iter().any(|status| Failure::of_http(*status).is_final));
        let repeated: Vec<usize> = (1..20).filter(|code| !Failure::of_grpc(*code, "", false).is_final).collect();
        assert_eq!(repeated, [1, 4, 10, 11, 14, 15]);
        assert!(!Failure::of_grpc(8, "", true).is_final && Failure::of_grpc(3, "", true).is_final);
        assert_eq!(Failure::of_grpc(14, "no space", false).message, "UNAVAILABLE: no space");
        assert_eq!(Failure::of_grpc(99, "", false).message, "code 99");
    }
}
