//! Rewrites ELF files so that they start faster; not for looking into them (that is `elf` and `elfstat`).
