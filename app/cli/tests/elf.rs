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
    testing::compiled(Command::new("gcc").current_dir(scratch.path("")).args(options).arg("source.c")).then_some(())
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
    let closed = scratch.thaw(["elf", "verify", "lib.so", "lib.so", "--symbolic", "--closed-set", "nowhere"]);
    closed.exits(2).complains("cannot look at 'nowhere'");
}

#[test]
fn a_file_is_packed_verified_and_restored() {
    let scratch = Scratch::new();
    if library(&scratch, "lib.so").is_none() {
        return;
    }
    let original = std::fs::read(scratch.path("lib.so")).unwrap();
    let plan = scratch.thaw(["elf", "pack", "lib.so", "--plan"]).exits(0);
    plan.says("lib.so would be packed").says("3,001 of 3,001").says(".rela.dyn").says("DT_RELR");
    assert_eq!(scratch.names(""), ["config", "lib.so", "run", "source.c", "state"], "a plan writes nothing");

    scratch.thaw(["elf", "pack", "lib.so", "-o", "packed.so"]).exits(0).says("It is in packed.so");
    let packed = std::fs::read(scratch.path("packed.so")).unwrap();
    assert!(packed.len() + 65_536 <= original.len(), "{} -> {}", original.len(), packed.len());
    scratch.thaw(["elf", "verify", "lib.so", "packed.so"]).exits(0).says("packed.so means what lib.so means");
    let json = scratch.thaw(["elf", "stat", "packed.so", "--json"]).json();
    assert_eq!(json["files"][0]["relocations"]["relr"]["count"], 3001);
    assert_eq!(json["files"][0]["packing"]["packable"], 0);

    let json = scratch.thaw(["elf", "pack", "lib.so", "--in-place", "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.elf-pack/1");
    assert_eq!(json["files"][0]["written"], "in-place");
    assert_eq!(json["files"][0]["outcome"]["packed"]["relocations"]["packed"], 3001);
    assert_eq!(std::fs::read(scratch.path("lib.so")).unwrap(), packed);
    scratch.thaw(["elf", "pack", "lib.so", "--in-place"]).exits(1).says("refused").says("already");
    scratch.thaw(["doctor"]).says("What is packed in place").says("thaw elf restore").says("lib.so");
    let json = scratch.thaw(["doctor", "--json"]).json();
    assert_eq!(json["packed"][0]["standing"], "packed");
    scratch.thaw(["elf", "restore", "lib.so"]).exits(0).says("restored");
    assert_eq!(std::fs::read(scratch.path("lib.so")).unwrap(), original);
    scratch.thaw(["doctor"]).says_not("What is packed in place");
    scratch.thaw(["elf", "restore", "lib.so"]).exits(1);
    scratch.thaw(["elf", "restore", "--all"]).exits(1).says("No file is packed in place");
    scratch.nothing_left();
}

#[test]
fn the_machine_s_own_loader_is_asked() {
    let scratch = Scratch::new();
    let compiled = |source: &str, options: &[&str]| {
        scratch.write("whole.c", source);
        let mut compiler = Command::new("gcc");
        compiler.current_dir(scratch.path("")).args(["-shared", "-fPIC", "-o", "lib.so", "whole.c"]).args(options);
        compiler.output().is_ok_and(|said| said.status.success())
    };
    let source = "#include <stdio.h>\nstatic void here(void) { puts(\"\"); }\nvoid (*table[3000])(void) = { [0 ... \
        2999] = here };\n";
    if !compiled(source, &[]) {
        return testing::skip("needs gcc");
    }
    scratch.thaw(["elf", "pack", "lib.so", "-o", "packed.so"]).exits(0);
    let said = scratch.thaw(["elf", "verify", "lib.so", "packed.so", "--live"]);
    if said.err().contains("may not trace") {
        return testing::skip("this machine does not let processes be traced");
    }
    said.exits(0).says("packed.so means what lib.so means").says("Loaded by this machine's loader");
    let json = scratch.thaw(["elf", "verify", "lib.so", "packed.so", "--live", "--json"]).exits(0).json();
    assert!(json["live"]["checked"]["bytes"].as_u64().unwrap() > 24_000);

    // Code put into the file changes more than the form of relocations: only who announces that is told that nothing
    // else did.
    let how = ["--backend", "init", "--no-copies", "--new-build-id"];
    scratch.thaw(["elf", "pack", "lib.so", "-o", "init.so"].iter().chain(&how)).exits(0);
    scratch.thaw(["elf", "verify", "lib.so", "init.so"]).exits(1).says("DT_INIT").says("--backend");
    let announced = || ["elf", "verify", "lib.so", "init.so", "--live"].into_iter().chain(how);
    scratch.thaw(announced()).exits(0).says("init.so means what lib.so means").says("Loaded by this machine's loader");
    let mut bytes = std::fs::read(scratch.path("init.so")).unwrap();
    let text = bytes.len() / 2;
    bytes[text] ^= 1;
    scratch.write("init.so", &bytes);
    scratch.thaw(announced()).exits(1);

    // glibc's loader does not survive to be started for a library without libc: a program has to bring it.
    assert!(compiled(
        "static int x; void *table[3000] = { [0 ... 2999] = &x }; int f(void) { return x; }\n",
        &["-nostdlib"]
    ));
    scratch.thaw(["elf", "pack", "lib.so", "-o", "packed.so"]).exits(2).hints("--force");
    scratch.thaw(["elf", "pack", "lib.so", "-o", "packed.so", "--force"]).exits(0);
    scratch.thaw(["elf", "verify", "lib.so", "packed.so", "--live"]).exits(0).says("Loaded by this machine's loader");
}

#[test]
fn a_program_of_an_old_mold_runs_again() {
    let scratch = Scratch::new();
    scratch.write(
        "p.c",
        "static int x; int *volatile p[40] = { [0 ... 39] = &x }; int main(void) { return p[39] != &x; }\n",
    );
    let options = ["-fuse-ld=mold", "-Wl,--pack-dyn-relocs=relr", "-o", "program", "p.c"];
    let mut compiler = Command::new("gcc");
    if !compiler.current_dir(scratch.path("")).args(options).output().is_ok_and(|said| said.status.success()) {
        return testing::skip("needs gcc and mold");
    }
    let runs = |name: &str| Command::new(scratch.path(name)).output().unwrap();
    if runs("program").status.success() {
        scratch.thaw(["elf", "fix-relr", "program", "-o", "mended"]).exits(1).says("needs no change");
        return testing::skip("this mold adds GLIBC_ABI_DT_RELR itself");
    }
    assert!(String::from_utf8_lossy(&runs("program").stderr).contains("GLIBC_ABI_DT_RELR"));
    scratch.thaw(["elf", "fix-relr", "program", "-o", "mended"]).exits(0).says("asks for GLIBC_ABI_DT_RELR now");
    assert!(runs("mended").status.success());
    scratch.thaw(["elf", "verify", "program", "mended"]).exits(0);
    scratch
        .thaw(["elf", "fix-relr", "program", "-o", "nowhere/mended"])
        .exits(2)
        .complains("cannot write to 'nowhere/mended'");
}

#[test]
fn a_tree_is_packed_file_by_file() {
    let scratch = Scratch::new();
    for name in ["tree/a.so", "tree/below/b.so"] {
        if library(&scratch, name).is_none() {
            return;
        }
    }
    std::fs::create_dir_all(scratch.path("tree/small")).unwrap();
    std::fs::copy("/bin/true", scratch.path("tree/small/true")).unwrap();
    scratch.write("tree/text", "no ELF file");
    let said = scratch.thaw(["elf", "pack", "tree", "-o", "out"]).exits(0);
    said.says("2 of 3 ELF files are packed").says("1  no-gain").says("Not looked at: 1 file that is not ELF");
    assert_eq!(scratch.names("out"), ["a.so", "below"], "refused files are not copied, nor their directories made");
    for name in ["a.so", "below/b.so"] {
        scratch.thaw(["elf", "verify", &format!("tree/{name}"), &format!("out/{name}")]).exits(0);
    }
    scratch.thaw(["elf", "pack", "tree/small", "--in-place"]).exits(1).says("0 of 1 ELF file");
    let json = scratch.thaw(["elf", "pack", "tree", "--in-place", "--no-shrink", "--json"]).exits(0).json();
    assert!(json["summary"]["packed"].as_u64().unwrap() >= 2);
    scratch.thaw(["elf", "restore", "--all"]).exits(0).says("tree/a.so").says("tree/below/b.so");
    scratch.nothing_left();
}

/// mold 1.10 packs and forgets the version; glibc does not load what it makes.
#[test]
fn a_missing_version_is_added() {
    let scratch = Scratch::new();
    scratch.write(
        "lib.c",
        "#include <stdio.h>\nstatic void f(void) {}\nvoid (*t[9])(void) = { f, f, f };\nint \
        say(void) { return puts(\"\"); }\n",
    );
    let mut compiler = Command::new("gcc");
    let options = ["-shared", "-fPIC", "-o", "lib.so", "-fuse-ld=mold", "-Wl,-z,pack-relative-relocs", "lib.c"];
    if !compiler.current_dir(scratch.path("")).args(options).output().is_ok_and(|said| said.status.success()) {
        return testing::skip("needs gcc and mold");
    }
    let loads = |name: &str| {
        let said = Command::new("/bin/true").env("LD_PRELOAD", scratch.path(name)).output().unwrap();
        said.stderr.is_empty()
    };
    if loads("lib.so") {
        return testing::skip("this mold asks for the version, or this loader does not insist on it");
    }
    scratch.thaw(["elf", "stat", "lib.so"]).exits(0).says("GLIBC_ABI_DT_RELR").says("thaw elf fix-relr");
    scratch.thaw(["elf", "fix-relr", "lib.so", "-o", "fixed"]).exits(0).says("asks for GLIBC_ABI_DT_RELR now");
    assert!(loads("fixed"));
    let json = scratch.thaw(["elf", "fix-relr", "fixed", "-o", "again", "--json"]).exits(0).json();
    assert!(json["outcome"]["sound"].is_object(), "{json}");
    assert!(!scratch.path("again").exists());
    scratch.thaw(["elf", "fix-relr", "lib.so", "--in-place"]).exits(0).says("thaw elf restore lib.so");
    assert!(loads("lib.so"));
    scratch.thaw(["elf", "restore", "lib.so"]).exits(0);
    assert!(!loads("lib.so"));
}

#[test]
fn what_is_refused_says_why() {
    let scratch = Scratch::new();
    scratch.write("text", "hello");
    let said = scratch.thaw(["elf", "pack", "text", "-o", "out"]).exits(1);
    said.says("refused: ").says("(not-elf)");
    scratch.thaw(["elf", "pack", "/bin/true", "-o", "out"]).exits(1).says("(no-gain)");
    assert!(!scratch.path("out").exists());
    let json = scratch.thaw(["elf", "pack", "text", "--plan", "--json"]).exits(1).json();
    assert_eq!(json["files"][0]["outcome"]["refused"]["reason"], "not-elf");
}

#[test]
fn what_pack_is_asked_for_must_make_sense() {
    let scratch = Scratch::new();
    for name in ["one/same", "two/same"] {
        scratch.write(&format!("{name}/lib.so"), std::fs::read("/bin/true").unwrap());
    }
    scratch.write("file", "");
    let wrong: [(&[&str], &str); 9] = [
        (&["one"], "--output"),
        (&["one", "--plan", "--in-place"], "cannot be used with"),
        (&["nowhere", "--plan"], "cannot look at 'nowhere'"),
        (&["one", "--plan", "--debug-file", "file"], "--debug-file is for one file"),
        (&["one", "two", "-o", "out"], "two files would become 'out/same/lib.so'"),
        (&["one", "-o", "file"], "several files need a directory"),
        (&["one", "--plan", "--backend", "magic"], "relr"),
        (&["one", "--plan", "--symbolic"], "--closed-set"),
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

/// A program of many pointers for musl; `None`: it cannot be made here, or its musl applies DT_RELR.
fn of_an_old_musl(scratch: &Scratch) -> Option<()> {
    scratch.write(
        "source.c",
        "#include <stdio.h>\nstatic const char word[] = \"word\";\nconst char *words[4000] = { [0 ... 3999] = word };\n\
         int main(void) { return puts(words[7]) < 0; }\n",
    );
    let mut compiler = Command::new("musl-gcc");
    compiler.current_dir(scratch.path("")).args(["-O1", "-fPIE", "-pie", "-o", "program", "source.c"]);
    if !testing::compiled(&mut compiler) {
        return None;
    }
    let loader = Command::new("/lib/ld-musl-x86_64.so.1").output().ok()?;
    let said = String::from_utf8_lossy(&loader.stderr).into_owned();
    let version = said.lines().find_map(|line| line.strip_prefix("Version ")).expect("musl says its version");
    if version.split('.').map(|number| number.parse::<u32>().unwrap_or(0)).ge([1, 2, 4]) {
        testing::skip("this machine's musl applies DT_RELR");
        return None;
    }
    Some(())
}

#[test]
fn the_loader_that_will_run_a_file_decides() {
    let scratch = Scratch::new();
    if of_an_old_musl(&scratch).is_none() {
        return;
    }
    let runs = |name: &str| {
        let said = Command::new(scratch.path(name)).output().unwrap();
        said.status.success() && said.stdout == b"word\n"
    };
    assert!(runs("program"));
    for target in [&["-o", "packed"][..], &["--in-place"], &["--plan"]] {
        let said = scratch.thaw([&["elf", "pack", "program"], target].concat()).exits(1);
        said.says("(old-loader)").says("musl 1.2.").says("--backend init");
        assert!(!scratch.path("packed").exists() && runs("program"), "{target:?}");
    }
    // Code in the file applies the table where the loader does not.
    scratch.thaw(["elf", "pack", "program", "-o", "init", "--backend", "init"]).exits(0);
    assert!(runs("init"));
    // What runs elsewhere is judged by what is there.
    let said = scratch.thaw(["elf", "pack", "program", "-o", "packed", "--force", "--for", "musl:1.2.4"]).exits(0);
    said.says("older than 1.2.4");
    assert!(!runs("packed"), "this test's musl does not apply DT_RELR");
    scratch.thaw(["elf", "pack", "program", "-o", "packed", "--force", "--for", "any"]).exits(0);
    scratch
        .thaw(["elf", "pack", "program", "-o", "packed", "--force", "--for", "musl:1.2.3"])
        .exits(1)
        .says("musl 1.2.3");
    scratch
        .thaw(["elf", "pack", "program", "-o", "packed", "--force", "--for", "glibc:2.36"])
        .exits(1)
        .says("(unknown-loader)");
    scratch
        .thaw(["elf", "pack", "program", "-o", "packed", "--force", "--for", "uclibc"])
        .exits(2)
        .complains("musl:VERSION");
    // In a root, links stay below it.
    let root = |version: &str| {
        scratch.write("root/usr/lib/libc.so", format!("musl libc (x86_64)\0{version}\0"));
        let link = scratch.path("root/lib/ld-musl-x86_64.so.1");
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink("/usr/lib/libc.so", link).unwrap();
    };
    let pack = || scratch.thaw(["elf", "pack", "program", "-o", "packed", "--force", "--root", "root"]);
    root("1.2.5");
    pack().exits(0);
    root("1.1.24");
    pack().exits(1).says("musl 1.1.24");
    root("none");
    pack().exits(1).says("unknown");
    std::fs::remove_file(scratch.path("root/lib/ld-musl-x86_64.so.1")).unwrap();
    pack().exits(1).says("it is not in root");
}

#[test]
fn a_glibc_without_packed_relocations_is_refused_for_copies_too() {
    let scratch = Scratch::new();
    scratch.write(
        "source.c",
        "#include <stdio.h>\nconst char *words[4000] = { [0 ... 3999] = \"word\" };\nint \
        main(void) { return puts(words[7]) < 0; }\n",
    );
    let options = ["-O1", "-fPIE", "-pie", "-o", "program", "source.c"];
    if !testing::compiled(Command::new("gcc").current_dir(scratch.path("")).args(options)) {
        return;
    }
    let loader = elf::interpreter(&std::fs::read(scratch.path("program")).unwrap()).unwrap();
    let loader = format!("root{}", loader.display());
    let pack = || scratch.thaw(["elf", "pack", "program", "-o", "packed", "--force", "--root", "root"]);
    scratch.write(&loader, "GLIBC_2.2.5\0ld.so (GNU libc) stable release version 2.31.\n");
    pack().exits(1).says("glibc 2.31").says("(old-loader)");
    scratch.write(&loader, "GLIBC_2.2.5\0GLIBC_ABI_DT_RELR\0stable release version 2.36.\n");
    pack().exits(0);
    scratch.write(&loader, "somebody else's");
    pack().exits(1).says("(unknown-loader)");
    // Where it is not there, the version need keeps an older one from running the file.
    std::fs::remove_file(scratch.path(&loader)).unwrap();
    pack().exits(0);
    scratch
        .thaw(["elf", "pack", "program", "-o", "packed", "--force", "--for", "glibc:2.35"])
        .exits(1)
        .says("glibc 2.35");
}

#[test]
fn a_damaged_file_is_bad_data_and_doctor_advises_what_works() {
    let scratch = Scratch::new();
    if library(&scratch, "lib.so").is_none() {
        return;
    }
    let original = std::fs::read(scratch.path("lib.so")).unwrap();
    // DT_STRSZ (10) becomes a tag of nobody.
    let image = elf::Image::of(original.as_slice()).unwrap();
    let dynamic = image.dynamic.as_ref().unwrap();
    let index = dynamic.entries.iter().position(|(tag, _)| tag.0 == 10).unwrap();
    let mut damaged = original.clone();
    damaged[dynamic.offset as usize + 16 * index] = 99;
    scratch.write("damaged.so", &damaged);
    let said = scratch.thaw(["elf", "pack", "damaged.so", "-o", "packed.so"]).exits(5).says("(damaged)");
    assert!(!said.out().contains("bug") && !said.err().contains("bug"), "{}", said.framed());

    scratch.thaw(["elf", "pack", "lib.so", "--in-place"]).exits(0).says("--new-build-id");
    scratch.thaw(["doctor"]).says("thaw elf restore");
    std::fs::write(scratch.path("lib.so"), b"an upgrade").unwrap();
    scratch.thaw(["elf", "restore", "lib.so"]).exits(5).complains("the original is kept as");
    scratch
        .thaw(["doctor"])
        .says("was changed since it was packed")
        .says("the original is kept as")
        .says_not("thaw elf restore");
}
