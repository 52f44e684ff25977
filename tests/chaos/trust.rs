//! What another user has prepared.
