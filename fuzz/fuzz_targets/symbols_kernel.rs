//! Bytes as the kernel's list of its functions: names or a reason, and each address has one name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use symbols::Kernel;

fuzz_target!(|bytes: &[u8]| {
    let Ok(kernel) = Kernel::parse(bytes) else { return };
    for address in [0, 0xffff_ffff_8100_0000, u64::MAX] {
        assert!(kernel.function(address).is_none_or(|function| !function.name.is_empty()));
    }
});
