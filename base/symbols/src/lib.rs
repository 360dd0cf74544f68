//! Names for addresses, after the run and without network: of ELF files ([`look_up`]), of the running kernel
//! ([`Kernel`]), of code that a program made itself ([`PerfMap`]).
//!
//! Debug data of ELF files are in the file, below `/usr/lib/debug` by build-id, beside it by `.gnu_debuglink`, in
//! `.dwo` and `.dwp` files; without any, the symbol tables are used. Everything is read as hostile. Starts no program,
//! and does not know whose addresses they are.

mod files;
mod kernel;
mod lookup;
mod perfmap;
mod plain;

pub use kernel::{Kernel, KernelFunction};
pub use lookup::{Found, Looked, look_up, look_up_bytes};
pub use perfmap::{PerfMap, PerfMapPlace};
pub use plain::plain_name;
