//! Samples with stacks: a pure function on bytes.
//!
//! ```text
//! | header | identifier u64 | pid tid | time u64 | stream u64 | cpu, 0 | n u64, n addresses | len u32, raw, padding |
//! | abi u64 | bx, bp, sp, ip unless abi is 0 | size u64 | size bytes of stack, how many are true unless size is 0 |
//! ```
//!
//! This is so because all events of these rings are opened with [`SAMPLE_TYPE`].

use super::{Front, HEADER, LOST, LOST_SAMPLES, SAMPLE, Stamp, split};
use crate::perf::sys;

/// What each sample says.
pub(in crate::perf) const SAMPLE_TYPE: u64 = sys::SAMPLE_IDENTIFIER
    | sys::SAMPLE_TID
    | sys::SAMPLE_TIME
    | sys::SAMPLE_STREAM_ID
    | sys::SAMPLE_CPU
    | sys::SAMPLE_CALLCHAIN
    | sys::SAMPLE_RAW
    | sys::SAMPLE_REGS_USER
    | sys::SAMPLE_STACK_USER;

/// "Addresses" from here on say whose the following ones are (`PERF_CONTEXT_MAX`).
const FIRST_MARK: u64 = -4095i64 as u64;
/// The program is a 64-bit one (`PERF_SAMPLE_REGS_ABI_64`).
const ABI_64: u64 = 2;

/// Where a thread was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackSample<'a> {
    /// In which thread, when, and on which CPU it was taken.
    pub stamp: Stamp,
    /// Identifier of the event that was opened.
    pub event: u64,
    /// Identifier of the event that was hit: that of one thread on one CPU, at this moment.
    pub stream: u64,
    /// Addresses in the kernel, innermost first; empty: the thread was in the program, or it is not known.
    pub kernel: Vec<u64>,
    /// The fields of a tracepoint; for other moments of no meaning.
    pub raw: &'a [u8],
    /// The program's; `None`: there is none (a thread of the kernel), or it is a 32-bit one.
    pub user: Option<UserRegisters<'a>>,
}

/// The program's registers that unwinding begins with, and its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserRegisters<'a> {
    /// Where it is: `rip`.
    pub ip: u64,
    /// The stack pointer: `rsp`.
    pub sp: u64,
    /// The frame pointer: `rbp`.
    pub bp: u64,
    /// `rbx`, which functions keep for their callers: those that align their stack may find their frame by it.
    pub bx: u64,
    /// The bytes from `sp` on, as far as they were wanted and could be read.
    pub stack: &'a [u8],
}

/// The samples in what a ring with stacks held; ends at the first record that makes no sense; never panics.
pub(in crate::perf) fn parse(bytes: &[u8]) -> impl Iterator<Item = Option<StackSample<'_>>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (record, behind) = split(rest)?;
        rest = behind;
        Some(sample(record))
    })
}

fn sample(record: &[u8]) -> Option<StackSample<'_>> {
    let mut body = Front(record);
    let (kind, _misc_and_size) = (body.u32()?, body.u32()?);
    if kind != SAMPLE {
        return None;
    }
    let event = body.u64()?;
    let (pid, tid, time_ns, stream) = (body.u32()?, body.u32()?, body.u64()?, body.u64()?);
    let (cpu, _) = (body.u32()?, body.u32()?);
    let frames = usize::try_from(body.u64()?).ok()?.checked_mul(8)?;
    let words = body.take(frames)?.chunks_exact(8);
    let kernel = words.filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
    let kernel = kernel.filter(|&address| address < FIRST_MARK).collect();
    let len = body.u32()? as usize;
    let raw = body.take(len)?;
    body.take((len + 4).next_multiple_of(8) - (len + 4))?;
    let registers = match body.u64()? {
        0 => None,
        abi => Some((abi, [body.u64()?, body.u64()?, body.u64()?, body.u64()?])),
    };
    let stack = match usize::try_from(body.u64()?).ok()? {
        0 => &[][..],
        size => {
            let stack = body.take(size)?;
            &stack[..usize::try_from(body.u64()?).ok()?.min(size)]
        }
    };
    let user = registers.filter(|(abi, _)| *abi == ABI_64);
    let user = user.map(|(_, [bx, bp, sp, ip])| UserRegisters { ip, sp, bp, bx, stack });
    Some(StackSample { stamp: Stamp { time_ns, pid, tid, cpu }, event, stream, kernel, raw, user })
}

/// How many records the records about losses tell of.
pub(in crate::perf) fn lost(bytes: &[u8]) -> u64 {
    let mut rest = bytes;
    let mut sum = 0u64;
    while let Some((record, behind)) = split(rest) {
        rest = behind;
        let mut body = Front(&record[HEADER..]);
        let kind = Front(record).u32();
        let count = match kind {
            Some(LOST) => body.u64().and_then(|_identifier| body.u64()),
            Some(LOST_SAMPLES) => body.u64(),
            _ => None,
        };
        sum = sum.saturating_add(count.unwrap_or(0));
    }
    sum
}

/// Drops the second telling of a hit. The kernel delivers a tracepoint about another task (`sched_waking`) to the event
/// of the thread that hits it and then to that of the other task, with interrupts off in between: both stand one
/// behind the other in the ring of the CPU, and only their streams differ. A thread that hits the same again writes
/// with the same stream, unless it was on another CPU meanwhile; then what it left by stands in between.
pub(in crate::perf) fn once<'a>(
    samples: impl Iterator<Item = Option<StackSample<'a>>>,
) -> impl Iterator<Item = StackSample<'a>> {
    // Event, thread, stream and fields of the last one that was told.
    let mut last: Option<(u64, u32, u64, &[u8])> = None;
    samples.filter_map(move |sample| {
        let Some(sample) = sample else {
            last = None;
            return None;
        };
        let this = (sample.event, sample.stamp.tid, sample.stream, sample.raw);
        let again = last.is_some_and(|last| (last.0, last.1, last.3) == (this.0, this.1, this.3) && last.2 != this.2);
        last = (!again).then_some(this);
        (!again).then_some(sample)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A sample as the kernel writes it.
    fn bytes(sample: &StackSample<'_>, abi: u64, room: usize) -> Vec<u8> {
        let Stamp { time_ns, pid, tid, cpu } = sample.stamp;
        let mut body = sample.event.to_ne_bytes().to_vec();
        body.extend([pid, tid].iter().flat_map(|word| word.to_ne_bytes()));
        body.extend([time_ns, sample.stream].iter().flat_map(|word| word.to_ne_bytes()));
        body.extend([cpu, 0].iter().flat_map(|word| word.to_ne_bytes()));
        let mark = -128i64 as u64;
        let chain = (!sample.kernel.is_empty()).then_some(mark).into_iter().chain(sample.kernel.iter().copied());
        let chain: Vec<u64> = chain.collect();
        body.extend((chain.len() as u64).to_ne_bytes());
        body.extend(chain.iter().flat_map(|word| word.to_ne_bytes()));
        body.extend((sample.raw.len() as u32).to_ne_bytes());
        body.extend(sample.raw);
        body.resize(body.len().next_multiple_of(8), 0);
        body.extend(abi.to_ne_bytes());
        let stack = sample.user.map_or(&[][..], |user| user.stack);
        if abi != 0 {
            let user = sample.user.unwrap_or(UserRegisters { ip: 1, sp: 2, bp: 3, bx: 4, stack });
            body.extend([user.bx, user.bp, user.sp, user.ip].iter().flat_map(|word| word.to_ne_bytes()));
        }
        body.extend((room as u64).to_ne_bytes());
        if room > 0 {
            body.extend(stack);
            body.resize(body.len() + room - stack.len(), 0xaa);
            body.extend((stack.len() as u64).to_ne_bytes());
        }
        record(SAMPLE, &body)
    }

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = (HEADER + body.len()) as u16;
        [&kind.to_ne_bytes()[..], &0u16.to_ne_bytes(), &size.to_ne_bytes(), body].concat()
    }

    fn waking(time_ns: u64, stream: u64, raw: &[u8]) -> StackSample<'_> {
        let stamp = Stamp { time_ns, pid: 7, tid: 8, cpu: 1 };
        StackSample { stamp, event: 5, stream, kernel: vec![0xffff_ffff_8100_0000], raw, user: None }
    }

    #[test]
    fn registers_stack_and_kernel_come_back_and_what_is_not_true_of_the_stack_does_not() {
        let stack = [1, 2, 3, 4, 5, 6, 7, 8];
        let user = Some(UserRegisters { ip: 0x5555, sp: 0x7ffe, bp: 0x7fff, bx: 0x33, stack: &stack });
        let whole = StackSample { user, ..waking(1, 2, b"rawfield") };
        assert_eq!(parse(&bytes(&whole, 2, 64)).collect::<Vec<_>>(), [Some(whole.clone())]);
        let (kernel_thread, other) = (waking(1, 2, b"rawf"), StackSample { user: None, ..whole.clone() });
        assert_eq!(parse(&bytes(&kernel_thread, 0, 0)).collect::<Vec<_>>(), [Some(kernel_thread.clone())]);
        assert_eq!(parse(&bytes(&whole, 1, 64)).collect::<Vec<_>>(), [Some(other)], "a program of 32 bits");
    }

    #[test]
    fn losses_are_counted_and_are_no_samples() {
        let trailer = [0u8; 40];
        let lost_here = record(LOST, &[&[9u64.to_ne_bytes(), 17u64.to_ne_bytes()].concat()[..], &trailer].concat());
        let samples = record(LOST_SAMPLES, &[&3u64.to_ne_bytes()[..], &trailer].concat());
        let log = [lost_here, bytes(&waking(1, 2, b"rawf"), 0, 0), samples].concat();
        assert_eq!(lost(&log), 20);
        assert_eq!(parse(&log).map(|sample| sample.is_some()).collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn a_hit_that_is_delivered_to_two_threads_is_told_once() {
        let told = |samples: &[(u64, u64, &'static [u8])]| -> Vec<u64> {
            let samples = samples.iter().map(|(time, stream, raw)| Some(waking(*time, *stream, raw)));
            once(samples).map(|sample| sample.stamp.time_ns).collect()
        };
        let (one, two) = (&b"woken is 1"[..], &b"woken is 2"[..]);
        assert_eq!(told(&[(1, 10, one), (2, 11, one), (3, 10, one), (4, 11, one)]), [1, 3]);
        assert_eq!(told(&[(1, 10, one), (2, 10, one), (3, 10, one)]), [1, 2, 3], "the woken one is not of the tree");
        assert_eq!(told(&[(1, 10, one), (2, 12, two), (3, 10, one)]), [1, 2, 3]);
        let parted = [Some(waking(1, 10, one)), None, Some(waking(2, 11, one))];
        assert_eq!(once(parted.into_iter()).count(), 2, "something stands in between");
    }

    proptest! {
        #[test]
        fn all_samples_come_back(
            times in proptest::collection::vec(any::<u64>(), 0..10),
            kernel in proptest::collection::vec(0..FIRST_MARK, 0..20),
            raw in proptest::collection::vec(any::<u8>(), 0..100),
            stack in proptest::collection::vec(any::<u8>(), 0..100),
            more in 0usize..100,
            words in any::<[u64; 6]>(),
        ) {
            let user = Some(UserRegisters { ip: words[0], sp: words[1], bp: words[2], bx: words[5], stack: &stack });
            let of = |&time_ns: &u64| StackSample {
                stamp: Stamp { time_ns, pid: 7, tid: 8, cpu: 1 },
                event: words[3], stream: words[4], kernel: kernel.clone(), raw: &raw, user,
            };
            let all: Vec<_> = times.iter().map(of).collect();
            let log: Vec<u8> = all.iter().flat_map(|sample| bytes(sample, 2, stack.len() + more)).collect();
            let back: Vec<_> = parse(&log).flatten().collect();
            if stack.len() + more > 0 {
                prop_assert_eq!(&back, &all);
            }
            prop_assert_eq!(back.len(), all.len());
            prop_assert_eq!(once(parse(&log)).count(), all.len());
        }

        #[test]
        fn garbage_and_damage_do_not_panic(
            garbage in proptest::collection::vec(any::<u8>(), 0..300),
            kind in 0u32..16,
            at in any::<usize>(),
            byte in any::<u8>(),
        ) {
            let mut log = bytes(&waking(1, 2, b"rawf"), 2, 64);
            let at = at % log.len();
            log[at] = byte;
            for bytes in [&garbage[..], &log, &record(kind, &garbage), &[&log[..], &garbage].concat()] {
                once(parse(bytes)).for_each(drop);
                lost(bytes);
            }
        }
    }
}
