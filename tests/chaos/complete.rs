//! What a trace says of its own completeness.
