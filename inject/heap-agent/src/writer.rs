//! A lane's place in the stream: chunks of the file, one after the other, and records in them.

use crate::{file, sys};
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};
use heap_wire::{ChunkHeader, kind};

/// First chunk of a lane; later ones double.
const CHUNK_FIRST: usize = heap_wire::PAGE;

/// See the module. Zeros are one without a chunk.
#[repr(C)]
pub struct Writer {
    /// Next byte to write, end of the chunk.
    pub at: *mut u8,
    end: *mut u8,
    /// Ticks and pointer of the last record.
    ticks: u64,
    pub pointer: u64,
    chunk: *mut u8,
    chunk_bytes: usize,
    /// The lane's number.
    pub id: u32,
    sequence: u32,
}

impl Writer {
    /// Makes room for a record; a new chunk if need be. `false`: there is none.
    #[inline(always)]
    pub fn room(&mut self, bytes: usize) -> bool {
        (self.end as usize).wrapping_sub(self.at as usize) >= bytes || self.next_chunk(bytes)
    }

    #[cold]
    #[inline(never)]
    fn next_chunk(&mut self, bytes: usize) -> bool {
        let size = match self.chunk_bytes {
            0 => CHUNK_FIRST,
            last => (last * 2).min(heap_wire::CHUNK_MAX),
        };
        let size = size.max((bytes + size_of::<ChunkHeader>()).next_multiple_of(heap_wire::PAGE));
        self.end();
        let Some(chunk) = file::extend(size) else { return false };
        let ticks = sys::ticks();
        let header =
            ChunkHeader { magic: 0, lane: self.id, sequence: self.sequence, bytes: size as u32, ticks, reserved: 0 };
        // SAFETY: a fresh mapping of `size` bytes. The magic goes last: a chunk without it is skipped by the reader.
        unsafe {
            let place = chunk.cast::<ChunkHeader>();
            place.write(header);
            compiler_fence(SeqCst);
            (&raw mut (*place).magic).write_volatile(heap_wire::CHUNK_MAGIC);
            self.at = chunk.add(size_of::<ChunkHeader>());
            self.end = chunk.add(size);
        }
        self.sequence += 1;
        self.chunk = chunk;
        self.chunk_bytes = size;
        self.ticks = ticks;
        true
    }

    /// Writes a META record; `false`: there was no room.
    pub fn meta(&mut self, what: u8, parts: &[&[u8]]) -> bool {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if !self.room(length + 32) {
            return false;
        }
        let elapsed = self.elapsed(sys::ticks());
        let bytes = heap_wire::bytes_of(elapsed);
        // SAFETY: `room` made sure that all of it fits.
        unsafe {
            let header = self.at;
            let mut at = header.add(2);
            at.cast::<u64>().write_unaligned(elapsed);
            at = at.add(bytes);
            at.write(what);
            at.add(1).cast::<u16>().write_unaligned(length as u16);
            at = at.add(3);
            for part in parts {
                core::ptr::copy_nonoverlapping(part.as_ptr(), at, part.len());
                at = at.add(part.len());
            }
            // What the eight bytes of a number wrote beyond it must read as the end of the chunk.
            at.cast::<u16>().write_unaligned(0);
            self.publish(header, at, kind::META | ((bytes - 1) as u16) << 4);
        }
        true
    }

    /// Ticks since the last record.
    #[inline(always)]
    pub fn elapsed(&mut self, ticks: u64) -> u64 {
        let elapsed = ticks.saturating_sub(self.ticks);
        self.ticks += elapsed;
        elapsed
    }

    /// The record is complete: its header makes it exist.
    ///
    /// # Safety
    /// `header` and `at` are within the chunk.
    #[inline(always)]
    pub unsafe fn publish(&mut self, header: *mut u8, at: *mut u8, value: u16) {
        compiler_fence(SeqCst);
        // SAFETY: the caller vouches.
        unsafe { header.cast::<u16>().write_unaligned(value) };
        self.at = at;
    }

    /// Gives the chunk back; no record follows.
    pub fn end(&mut self) {
        if !self.chunk.is_null() {
            // SAFETY: the lane's own chunk.
            unsafe { sys::munmap(self.chunk, self.chunk_bytes) };
            self.chunk = core::ptr::null_mut();
        }
        (self.at, self.end) = (core::ptr::null_mut(), core::ptr::null_mut());
    }
}

/// One without a stream: what is written goes to a buffer.
#[cfg(test)]
pub fn for_tests() -> Writer {
    let buffer = Box::leak(vec![0u8; 1 << 20].into_boxed_slice()).as_mut_ptr_range();
    let (at, end) = (buffer.start, buffer.end);
    let chunk = core::ptr::null_mut();
    Writer { at, end, ticks: 0, pointer: 0, chunk, chunk_bytes: 0, id: 0, sequence: 0 }
}
