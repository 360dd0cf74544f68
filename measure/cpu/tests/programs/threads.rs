//! A thread of a Rust program, in a closure within a function that is put into another.
use std::io::Write;

#[inline(never)]
fn innermost() -> u64 {
    std::io::stdout().write_all(b"ready\n").unwrap();
    std::io::stdout().flush().unwrap();
    loop {
        std::thread::park();
    }
}

#[inline(always)]
fn put_into(numbers: &[u64]) -> u64 {
    numbers.iter().map(|number| number + innermost()).sum()
}

#[inline(never)]
fn outer(numbers: &[u64]) -> u64 {
    put_into(numbers) + 1
}

fn main() {
    let numbers: Vec<u64> = std::env::args().map(|arg| arg.len() as u64).collect();
    std::thread::spawn(move || println!("{}", outer(&numbers))).join().unwrap();
}
