//! clang, object cache, load, attach; verifier log to diagnostics.
