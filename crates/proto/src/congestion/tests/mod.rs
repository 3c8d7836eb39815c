//! The controllers on the bench, and ASRAN beside its twin in the kernel.

mod asran_twin;
mod tables;
