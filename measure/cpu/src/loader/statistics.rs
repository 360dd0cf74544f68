//! What glibc's loader says of itself: `LD_DEBUG=statistics`. Totals of one start, to check ours against.

/// The block that is written before the program runs. Times are in cycles of the time stamp counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// From the loader's first instruction to the end of relocation.
    pub startup_cycles: u64,
    /// Relocation.
    pub relocation_cycles: u64,
    /// Finding and mapping libraries.
    pub load_cycles: u64,
    /// Symbols that were looked up.
    pub relocations: u64,
    /// Of those, found in the loader's memory of the last one.
    pub from_cache: u64,
    /// Relative relocations.
    pub relative: u64,
}

impl Statistics {
    /// The first whole block of each process, in the order of the text; lines that are of something else are passed
    /// over.
    pub fn parse(text: &str) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for line in text.lines() {
            let Some((_, line)) = line.split_once(':') else { continue };
            let Some((label, value)) = line.split_once(':') else { continue };
            let number = value.split_whitespace().next().and_then(|word| word.parse().ok());
            let (label, Some(number)) = (label.trim(), number) else { continue };
            if label == "total startup time in dynamic loader" {
                found.push(Self { startup_cycles: number, ..Self::default() });
                continue;
            }
            let Some(last) = found.last_mut() else { continue };
            match label {
                "time needed for relocation" => last.relocation_cycles = number,
                "time needed to load objects" => last.load_cycles = number,
                "number of relocations" => last.relocations = number,
                "number of relocations from cache" => last.from_cache = number,
                "number of relative relocations" => last.relative = number,
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_glibc_writes_is_read() {
        let text = "     24192:\t\n     24192:\truntime linker statistics:\n\
            \x20    24192:\t  total startup time in dynamic loader: 136180 cycles\n\
            \x20    24192:\t            time needed for relocation: 48997 cycles (35.9%)\n\
            \x20    24192:\t                 number of relocations: 505\n\
            \x20    24192:\t      number of relocations from cache: 7\n\
            \x20    24192:\t        number of relative relocations: 3882\n\
            \x20    24192:\t           time needed to load objects: 23142 cycles (16.9%)\n\
            hello: world: 5\n\
            \x20    24192:\t           final number of relocations: 509\n";
        let expected = Statistics {
            startup_cycles: 136_180,
            relocation_cycles: 48_997,
            load_cycles: 23_142,
            relocations: 505,
            from_cache: 7,
            relative: 3882,
        };
        assert_eq!(Statistics::parse(text), [expected]);
        assert_eq!(Statistics::parse("x: number of relocations: 5"), []);
    }
}
