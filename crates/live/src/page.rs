//! The page of live figures.

/// One HTML page that needs nothing else: it asks for `snapshots.json`, a list of snapshots, once a second.
pub const PAGE: &str = include_str!("page.html");
