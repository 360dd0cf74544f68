//! Links Debian's LevelDB.
fn main() {
    println!("cargo:rustc-link-lib=leveldb");
}
