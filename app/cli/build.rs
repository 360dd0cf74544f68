//! How the small programs are linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A large read-ahead brings the debug data of a small file along; and nothing else that a start needs uses
    // libgcc_s.
    for argument in ["-Wl,--strip-all", "-static-libgcc"] {
        println!("cargo::rustc-link-arg-bin=thaw-preload={argument}");
        println!("cargo::rustc-link-arg-bin=thaw-image={argument}");
    }
}
