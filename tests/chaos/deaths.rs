//! Recorders and targets that die or stand still.
