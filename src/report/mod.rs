//! Timelines as text.
