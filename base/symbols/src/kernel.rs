//! Functions of the running kernel and of its modules, from `/proc/kallsyms`.
//!
//! The kernel shows zeros instead of addresses to those who may not know them: that is an answer of its own, not a
//! kernel without functions.

use std::fs;

/// Where the kernel lists what it has.
const LIST: &str = "/proc/kallsyms";

/// A function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFunction<'a> {
    /// Its name.
    pub name: &'a str,
    /// The module that it is of; `bpf` for programs that were loaded; `None`: the kernel itself.
    pub module: Option<&'a str>,
}

/// The functions of a kernel, by address.
#[derive(Debug, Default)]
pub struct Kernel {
    /// Names and modules, one behind the other.
    texts: String,
    /// Where each thing begins, by address, each address once.
    starts: Vec<Start>,
}

/// Where something begins that reaches to the next.
#[derive(Clone, Copy, Debug)]
struct Start {
    address: u64,
    /// Where in the texts the name of the function begins; `None`: what begins here is no function.
    name: Option<u32>,
    name_len: u32,
    /// The module's name follows that of the function.
    module_len: u32,
}

impl Kernel {
    /// The running kernel.
    ///
    /// # Errors
    /// A sentence: the list cannot be read, or its addresses are not for us to know.
    pub fn running() -> Result<Self, String> {
        Self::parse(&fs::read(LIST).map_err(|error| format!("{LIST} cannot be read: {error}"))?)
    }

    /// The text of `/proc/kallsyms`; lines that make no sense are left out.
    ///
    /// # Errors
    /// A sentence: all addresses are zero, or there are none.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let mut lines: Vec<Line> = text.split(|byte| *byte == b'\n').filter_map(line).collect();
        if lines.is_empty() {
            return Err(format!("{LIST} names no function"));
        }
        if lines.iter().all(|line| line.address == 0) {
            return Err(format!(
                "{LIST} shows no addresses to this user: functions of the kernel have no names (root may see them, \
                 unless kernel.kptr_restrict is 2)"
            ));
        }
        // Of several names for one address a function's, and the first by length and alphabet: the same in every run.
        lines.sort_unstable_by_key(|line| (line.address, !line.is_code, line.name.len(), line.name, line.module));
        lines.dedup_by_key(|line| line.address);
        // Only functions need to be told from each other.
        lines.dedup_by_key(|line| if line.is_code { line.address } else { 0 });
        let mut kernel = Self::default();
        for line in lines {
            let name = if line.is_code { u32::try_from(kernel.texts.len()).ok() } else { None };
            if line.is_code {
                kernel.texts.push_str(line.name);
                kernel.texts.push_str(line.module);
            }
            let (name_len, module_len) = (line.name.len() as u32, line.module.len() as u32);
            kernel.starts.push(Start { address: line.address, name, name_len, module_len });
        }
        Ok(kernel)
    }

    /// The function that holds an address; `None`: no function does.
    pub fn function(&self, address: u64) -> Option<KernelFunction<'_>> {
        let behind = self.starts.partition_point(|start| start.address <= address);
        let start = self.starts.get(behind.checked_sub(1)?)?;
        let at = start.name? as usize;
        let end = at + start.name_len as usize;
        let module = self.texts.get(end..end + start.module_len as usize)?;
        Some(KernelFunction { name: self.texts.get(at..end)?, module: Some(module).filter(|it| !it.is_empty()) })
    }

    /// How many functions are known.
    pub fn functions(&self) -> usize {
        self.starts.iter().filter(|start| start.name.is_some()).count()
    }
}

/// A line of the list.
struct Line<'a> {
    address: u64,
    is_code: bool,
    name: &'a str,
    module: &'a str,
}

/// `ffffffff81000000 T _stext`, and of a module `ffffffffc0100000 t nft_do_chain\t[nf_tables]`
fn line(text: &[u8]) -> Option<Line<'_>> {
    let mut words = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let is_code = match words.next()? {
        "t" | "T" | "w" | "W" | "i" => true,
        kind if kind.len() == 1 => false,
        _ => return None,
    };
    let name = words.next()?;
    let module = words.next().and_then(|word| word.strip_prefix('[')?.strip_suffix(']')).unwrap_or_default();
    Some(Line { address, is_code, name, module })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIST: &[u8] = b"0000000000000000 A fixed_percpu_data\n\
        ffffffff81000000 T _stext\n\
        ffffffff81000000 T startup_64\n\
        ffffffff81000100 t do_one\n\
        ffffffff81000200 W do_two\n\
        ffffffff81000300 D data\n\
        ffffffff81000380 B more_data\n\
        nonsense\n\
        ffffffffc0100000 t nft_do_chain\t[nf_tables]\n";

    #[test]
    fn functions_reach_to_what_follows() {
        let kernel = Kernel::parse(LIST).unwrap();
        let name = |address| kernel.function(address).map(|function| function.name);
        for (address, expected) in [
            (0xffff_ffff_8100_0000, Some("_stext")),
            (0xffff_ffff_8100_00ff, Some("_stext")),
            (0xffff_ffff_8100_0100, Some("do_one")),
            (0xffff_ffff_8100_02ff, Some("do_two")),
            (0xffff_ffff_8100_0300, None),
            (0xffff_ffff_8100_0400, None),
            (0xffff_ffff_c010_0010, Some("nft_do_chain")),
            (0x1000, None),
        ] {
            assert_eq!(name(address), expected, "{address:x}");
        }
        assert_eq!(kernel.function(u64::MAX).unwrap().module, Some("nf_tables"));
        assert_eq!(kernel.function(0xffff_ffff_8100_0100).unwrap().module, None);
        assert_eq!(kernel.functions(), 4);
    }

    #[test]
    fn hidden_addresses_are_no_names() {
        let hidden = b"0000000000000000 T _stext\n0000000000000000 t do_one\n";
        assert!(Kernel::parse(hidden).unwrap_err().contains("kptr_restrict"));
        assert!(Kernel::parse(b"").unwrap_err().contains("no function"));
    }

    #[test]
    fn the_running_kernel_has_functions_or_says_why_not() {
        match Kernel::running() {
            Ok(kernel) => {
                assert!(kernel.functions() > 1000);
                let text = std::fs::read_to_string("/proc/kallsyms").unwrap();
                let line = text.lines().find(|line| line.ends_with(" T vfs_read")).expect("each kernel has vfs_read");
                let address = u64::from_str_radix(&line[..16], 16).unwrap();
                assert_eq!(kernel.function(address + 1).map(|it| it.name), Some("vfs_read"));
            }
            Err(why) => testing::skip(&why),
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in prop::collection::vec(any::<u8>(), 0..300), address: u64) {
            if let Ok(kernel) = Kernel::parse(&text) {
                kernel.function(address);
            }
        }

        #[test]
        fn each_function_is_found_where_it_begins(starts in prop::collection::btree_set(1_u64.., 1..40), at: u64) {
            let text: String = starts.iter().map(|start| format!("{start:016x} t f{start}\n")).collect();
            let kernel = Kernel::parse(text.as_bytes()).unwrap();
            for start in &starts {
                prop_assert_eq!(kernel.function(*start).unwrap().name, format!("f{start}"));
            }
            let expected = starts.range(..=at).next_back().map(|start| format!("f{start}"));
            prop_assert_eq!(kernel.function(at).map(|it| it.name.to_owned()), expected);
        }
    }
}
