//! The macro on random tokens, and what it writes.
