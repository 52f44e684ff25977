//! Files of an engine that are replaced or overwritten while they are recorded.
