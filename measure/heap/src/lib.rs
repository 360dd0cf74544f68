//! Allocations of a program: recording them and reading the recording.
