//! How files are written and cached. An output is written beside its destination and renamed over it, and replaces only
//! an earlier output of its kind. What is cached is read back only where it is certain whose it is and that it is whole.
//! It does not interpret the bytes.

#[cfg(target_os = "linux")]
pub mod cache;
pub mod output;
