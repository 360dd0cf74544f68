//! What ELF files hold that costs time and bytes at a start; not for changing them (that is `pack`).
