//! What virtual tables say of small programs that a compiler made, and of files that were forged.
