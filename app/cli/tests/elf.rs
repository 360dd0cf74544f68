//! `thaw elf`: looking into programs and libraries.

use crate::scratch::{Said, Scratch};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const SOURCE: &str = "
    extern int other;
    extern int call(void);
    static void here(void) {}
    void (*functions[3000])(void) = { [0 ... 2999] = here };
    int *others[3] = { &other, &other, &other };
    int use(void) { return call(); }
    static volatile int started;
    __attribute__((constructor)) static void start(void) { started = 1; }
";

/// A library whose counts are known, with neither the C library nor its start files. `None`: no compiler.
fn library(scratch: &Scratch, name: &str) -> Option<()> {
    scratch.write("source.c", SOURCE);
    std::fs::create_dir_all(scratch.path(name).parent().unwrap()).unwrap();
    let options = ["-shared", "-fPIC", "-nostdlib", "-ffreestanding", "-O1", "-g", "-Wl,--build-id=0x0102", "-o", name];
    let mut compiler = Command::new("gcc");
    let said = compiler.current_dir(scratch.path("")).args(options).arg("source.c").output();
    if !said.is_ok_and(|said| said.status.success()) {
        testing::skip("needs gcc");
        return None;
    }
    Some(())
}

#[test]
fn one_file_is_shown_in_detail() {
    let scratch = Scratch::new();
    if library(&scratch, "lib.so").is_none() {
        return;
    }
    let said = scratch.thaw(["elf", "stat", "lib.so"]).exits(0);
    let said = said
        .says("shared library for x86-64, 64 bits, little-endian")
        .says("build-id  0102")
        .says("3,005 relocations in tables of 72.1 kB")
        .says("3,001 relative relocations take 72.0 kB and would take")
        .says("All of the words hold their addend already.")
        .says("      3,001  99.9 %    72.0 kB  R_X86_64_RELATIVE")
        .says("          3  other\n")
        .says("3,005  24,040    33.33 %  addend, which fits into the word that is relocated")
        .says("3,001  12,004    16.64 %  number of a symbol where there is none")
        .says("45,059    62.48 %  all")
        .says("the longest has 3,000")
        .says("What runs at the start: 1 function in lists");
    assert!(said.out().contains("start   ") && said.out().contains("source.c:9"), "{}", said.framed());
    let json = scratch.thaw(["elf", "stat", "lib.so", "--json"]).exits(0).json();
    assert_eq!((&json["schema"], &json["depth"]), (&"thaw.elf-stat/1".into(), &"detail".into()));
    let file = &json["files"][0];
    assert_eq!(file["path"], "lib.so");
    assert_eq!(file["relocations"]["relative"], 3001);
    assert_eq!(file["initializers"]["functions"][0]["symbol"], "start");
    assert_eq!(file["packing"]["now"], 3001 * 24);
    // An address and 48 bitmaps for the 3,000, one address for the initializer.
    assert_eq!(file["packing"]["relr"], 50 * 8);
    assert_eq!(file["packing"]["runs"], 2 * 8);
}

#[test]
fn directories_give_a_table_and_a_summary() {
    let scratch = Scratch::new();
    for name in ["tree/b.so", "tree/below/a.so"] {
        if library(&scratch, name).is_none() {
            return;
        }
    }
    scratch.write("tree/notes.txt", "no ELF file");
    scratch.write("tree/cut.so", b"\x7fELF\x02\x01\x01");
    std::os::unix::fs::symlink("b.so", scratch.path("tree/link.so")).unwrap();
    std::fs::hard_link(scratch.path("tree/b.so"), scratch.path("tree/c.so")).unwrap();
    let said = scratch.thaw(["elf", "stat", "tree"]).exits(0);
    let saves = "71.6 kB";
    let said = said
        .says("2 ELF files")
        .says("6,002 relative relocations")
        .says("saving at least  files     saved\n            1 B      2  143.2 kB\n          4 KiB      2  143.2 kB")
        .says("2 functions run at the start")
        .says("Not looked at: 1 file that is not ELF, 1 symbolic link, 1 further name of a file.")
        .says("tree/cut.so")
        .says("a damaged ELF file");
    let rows: Vec<String> =
        said.out().lines().filter(|line| line.contains(".so") && line.contains(saves)).map(str::to_owned).collect();
    assert_eq!(rows.len(), 2, "{}", said.framed());
    assert!(rows[0].ends_with("tree/b.so") && rows[1].ends_with("tree/below/a.so"), "{rows:?}");
    scratch.thaw(["elf", "stat", "tree", "--top", "1"]).exits(0).says("and 1 more (--all lists them)");
    let by_name = scratch.thaw(["elf", "stat", "tree", "--sort", "name", "--json"]).exits(0).json();
    assert_eq!((&by_name["depth"], &by_name["summary"]["files"]), (&"survey".into(), &2.into()));
    assert_eq!(by_name["summary"]["waste"]["total"], 2 * 45_059);
    assert_eq!(by_name["skipped"]["hard_links"], 1);
    assert_eq!(by_name["unreadable"][0]["path"], "tree/cut.so");
    let keys: Vec<&str> = by_name.as_object().unwrap().keys().map(String::as_str).collect();
    let all = ["depth", "files", "interrupted", "schema", "skipped", "summary", "unreadable"];
    assert_eq!(keys, all, "a field of thaw.elf-stat/1 is never renamed or removed");
}

#[test]
fn what_is_no_elf_file_is_bad_data() {
    let scratch = Scratch::new();
    scratch.write("text", "hello");
    scratch.write("empty", "");
    scratch.write("cut", b"\x7fELF\x02\x01\x01");
    scratch.thaw(["elf", "stat", "text"]).exits(5).complains("cannot look into 'text': not an ELF file");
    scratch.thaw(["elf", "stat", "empty"]).exits(5).complains("not an ELF file");
    scratch.thaw(["elf", "stat", "cut"]).exits(5).complains("a damaged ELF file");
    scratch.thaw(["elf", "stat", "nowhere"]).exits(2).complains("cannot look at 'nowhere': No such file");
    scratch.thaw(["elf", "stat", "text", "empty"]).exits(0).says("There is no relative relocation to pack");
    scratch.thaw(["elf", "stat"]).exits(2).complains("required");
    scratch.thaw(["elf", "stat", "text", "--sort", "beauty"]).exits(2).complains("saved");
    scratch.thaw(["elf"]).exits(2).complains("stat");
}

#[test]
fn verify_says_same_or_what_differs() {
    let scratch = Scratch::new();
    if library(&scratch, "lib.so").is_none() {
        return;
    }
    scratch.thaw(["elf", "verify", "lib.so", "lib.so"]).exits(0).says("same: lib.so means what lib.so means");
    let mut bytes = std::fs::read(scratch.path("lib.so")).unwrap();
    // The last pointer of the table of functions, by its relocation: one more is another function.
    let table = bytes.windows(8).rposition(|word| word == 8_u64.to_le_bytes()).expect("an entry of type RELATIVE");
    bytes[table + 8] ^= 1;
    scratch.write("other.so", &bytes);
    let said = scratch.thaw(["elf", "verify", "lib.so", "other.so"]).exits(1);
    said.says("differs: other.so does not mean what lib.so means").says("difference").says("0x");
    let json = scratch.thaw(["elf", "verify", "lib.so", "other.so", "--json"]).exits(1).json();
    assert_eq!((&json["schema"], &json["agrees"]), (&"thaw.elf-verify/1".into(), &false.into()));
    assert!(json["offline"]["total"].as_u64().unwrap() > 0);
    scratch.write("text", "hello");
    scratch.thaw(["elf", "verify", "text", "lib.so"]).exits(5).complains("cannot take as the original 'text'");
    scratch.thaw(["elf", "verify", "lib.so", "text"]).exits(1).says("does not mean");
    scratch.thaw(["elf", "verify", "lib.so", "nowhere"]).exits(2).complains("cannot read 'nowhere'");
}

#[test]
fn what_pack_is_asked_for_must_make_sense() {
    let scratch = Scratch::new();
    for name in ["one/same", "two/same"] {
        scratch.write(&format!("{name}/lib.so"), std::fs::read("/bin/true").unwrap());
    }
    scratch.write("file", "");
    let wrong: [(&[&str], &str); 8] = [
        (&["one"], "--output"),
        (&["one", "--plan", "--in-place"], "cannot be used with"),
        (&["nowhere", "--plan"], "cannot look at 'nowhere'"),
        (&["one", "--plan", "--debug-file", "file"], "--debug-file is for one file"),
        (&["one", "two", "-o", "out"], "two files would become 'out/same/lib.so'"),
        (&["one", "-o", "file"], "several files need a directory"),
        (&["one", "--plan", "--backend", "magic"], "relr"),
        (&["one", "--plan", "--no-shrink", "--punch-holes"], "cannot be used with"),
    ];
    for (words, part) in wrong {
        scratch.thaw(["elf", "pack"].iter().chain(words)).exits(2).complains(part);
    }
    assert_eq!(scratch.names(""), ["config", "file", "one", "run", "state", "two"], "nothing was written");
    for words in [&["restore"][..], &["restore", "--all", "file"], &["fix-relr", "file"], &["verify", "file"]] {
        scratch.thaw(["elf"].iter().chain(words)).exits(2);
    }
}

#[test]
fn a_directory_that_may_not_be_read_is_named() {
    let scratch = Scratch::new();
    scratch.write("tree/closed/file", "");
    std::fs::copy("/bin/true", scratch.path("tree/true")).unwrap();
    std::fs::set_permissions(scratch.path("tree/closed"), std::fs::Permissions::from_mode(0o000)).unwrap();
    let said: Option<Said> = scratch.thaw_as_nobody(["elf", "stat", "tree"]);
    std::fs::set_permissions(scratch.path("tree/closed"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let Some(said) = said else { return };
    said.exits(0).says("tree/true").says("tree/closed").says("Permission denied");
}
