//! scratch
fn main() {
    let paths: Vec<std::path::PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    let t = std::time::Instant::now();
    if paths.len() == 1 && paths[0].is_file() { println!("{:#?}", elfstat::look(&paths[0]).unwrap()); }
    else { let s = elfstat::survey(&paths, &|_| {}); let m = elfstat::summarize(&s.files); println!("{m:#?} {:?} {:#?}", s.skipped, s.unreadable); }
    eprintln!("{:?}", t.elapsed());
}
