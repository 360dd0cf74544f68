//! Reads what a start needs, in the order of the disk, before the program asks for it.
