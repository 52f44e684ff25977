//! From records to a timeline: steps, graphs, operators, lanes. Pure; knows only [`crate::trace`] and roles.
