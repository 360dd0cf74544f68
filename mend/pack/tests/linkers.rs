//! Files of every linker, with and without thread-local data, bound late or at once, stripped in three ways: all are
//! packed, by all back-ends and passes, do what they did, and what was packed without further options is proven by
//! [`verify::offline`] alone.

use pack::passes::Pass;
use pack::{Backend, DynamicPlace, Options, Outcome, Passes, Reason, Rewritten, Space, rewrite};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const SOURCE: &str = "
    #include <stdio.h>
    static const char word[] = \"word\";
    const char *words[2000] = { [0 ... 1999] = word };
    #ifdef TLS_EMPTY
    __thread int counter;
    #elif defined(TLS_FULL)
    __thread int counter, full = 7;
    #else
    int counter;
    #endif
    int main(void) { counter += 1; return printf(\"%s %d\\n\", words[counter], counter) < 0; }
";

/// Ways to strip.
const STRIPS: [&[&str]; 3] = [&[], &["strip"], &["llvm-strip", "--strip-sections"]];

/// Writes a program and starts it. Another process writes it: one of ours that another test forks meanwhile would hold
/// it open for writing, and the kernel starts no such file.
fn run(path: &Path, bytes: &[u8]) -> String {
    let _ = std::fs::remove_file(path);
    let mut shell = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\" && exec \"$0\" < /dev/null"])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(bytes).unwrap();
    let said = shell.wait_with_output().unwrap();
    format!("{} {}", said.status, String::from_utf8_lossy(&said.stdout))
}

fn wanted(space: Space, backend: Backend, passes: &[Pass]) -> Options {
    let passes = Passes { wanted: passes.iter().copied().collect(), ..Passes::default() };
    Options { space, backend, passes, ..Options::default() }
}

/// Packs in all ways; gives what was refused.
fn check(home: &Path, original: &[u8], what: &str) -> Vec<Reason> {
    let path = home.join("program");
    let right = run(&path, original);
    assert!(right.contains("word 1"), "{what}: {right}");
    let passes = [Pass::AlignBss, Pass::DynamicFirst, Pass::Ctors, Pass::PureVirtual];
    let mut refused = Vec::new();
    for options in [
        wanted(Space::Shrink, Backend::Relr, &[]),
        wanted(Space::Keep, Backend::Relr, &[]),
        wanted(Space::Shrink, Backend::Init, &[]),
        wanted(Space::Shrink, Backend::Relr, &passes),
    ] {
        let what = format!("{what}, {:?} {:?} {:?}", options.space, options.backend, options.passes.wanted);
        let outcome = rewrite(original, &options).unwrap_or_else(|error| panic!("{what}: {error}"));
        let Rewritten { bytes, expected } = match outcome {
            (_, Some(rewritten)) => rewritten,
            (Outcome::Refused(refusal), None) => {
                refused.push(refusal.reason);
                println!("{what}: {refusal}");
                continue;
            }
            (packed, None) => panic!("{what}: {packed:?}"),
        };
        assert_eq!(run(&path, &bytes), right, "{what}");
        if options.backend == Backend::Relr && options.passes.wanted.is_empty() {
            assert_eq!(expected.allowed, [], "{what}");
            let verdict = verify::offline(original, &bytes).unwrap();
            assert!(verdict.agrees(), "{what}: {:#?}", verdict.differences);
        }
    }
    refused
}

#[test]
fn programs_of_every_linker_are_packed_in_every_way() {
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("source.c");
    std::fs::write(&source, SOURCE).unwrap();
    let file = home.path().join("linked");
    let (mut programs, mut refused) = (0, Vec::new());
    for linker in ["bfd", "gold", "lld", "mold"] {
        for thread_local in ["-UTLS", "-DTLS_EMPTY", "-DTLS_FULL"] {
            for binding in ["-Wl,-z,lazy", "-Wl,-z,now"] {
                for strip in STRIPS {
                    let mut link = Command::new("gcc");
                    link.args(["-O1", "-fPIE", "-pie", &format!("-fuse-ld={linker}"), thread_local, binding, "-o"]);
                    if !testing::compiled(link.arg(&file).arg(&source)) {
                        continue;
                    }
                    if let [command, options @ ..] = strip
                        && !testing::compiled(Command::new(command).args(options).arg(&file))
                    {
                        continue;
                    }
                    let what = format!("{linker} {thread_local} {binding} {strip:?}");
                    let original = std::fs::read(&file).unwrap();
                    refused.extend(check(home.path(), &original, &what));
                    programs += 1;
                }
            }
        }
    }
    println!("{programs} programs, refused: {refused:?}");
    assert!(programs > 0 && refused.is_empty(), "{refused:?}");
}

/// What is appended to a program: it finds it from its end.
const PAYLOAD: &[u8] = b"begin-of-payload 0123456789 end-of-payload";

/// Says a word as [`SOURCE`] does, and what stands at the end of its own file.
const READER: &str = "
    #include <stdio.h>
    static const char word[] = \"word\";
    const char *words[2000] = { [0 ... 1999] = word };
    int counter;
    __attribute__((constructor)) static void begin(void) { counter = 1; }
    int main(int count, char **names) {
        char end[43] = {0};
        FILE *own = fopen(names[0], \"rb\");
        if (!own || fseek(own, -42, SEEK_END) || fread(end, 1, 42, own) != 42) return 1;
        return printf(\"%s %d %s\\n\", words[counter], counter, end) < 0;
    }
";

/// Packs a file that something follows, leaving every byte at its offset. The dynamic section of lld's files has no
/// free entry, and the file cannot grow: then a part of what becomes free is mapped once more, writable.
fn check_payload(original: &[u8], what: &str) -> Vec<u8> {
    let Err(refused) = packed(original, wanted(Space::Shrink, Backend::Relr, &[])) else { panic!("{what}: moved") };
    assert_eq!(refused, Reason::Payload, "{what}");
    let (new, place) = packed(original, wanted(Space::Keep, Backend::Relr, &[]))
        .unwrap_or_else(|reason| panic!("{what}: refused: {}", reason.name()));
    println!("{what}: the dynamic section: {place:?}");
    assert_eq!(new.len(), original.len(), "{what}");
    assert!(new.ends_with(PAYLOAD), "{what}");
    let verdict = verify::offline(original, &new).unwrap();
    assert!(verdict.agrees(), "{what}: {:#?}", verdict.differences);
    new
}

/// The packed file, and where its dynamic section is; or why there is none.
fn packed(original: &[u8], options: Options) -> Result<(Vec<u8>, DynamicPlace), Reason> {
    match rewrite(original, &options).unwrap() {
        (Outcome::Packed(packed), Some(rewritten)) => Ok((rewritten.bytes, packed.plan.dynamic_place)),
        (Outcome::Refused(refusal), None) => {
            println!("{refusal}");
            Err(refusal.reason)
        }
        (outcome, _) => panic!("{outcome:?}"),
    }
}

#[test]
fn programs_and_libraries_with_a_payload_are_packed_where_every_byte_stays() {
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("source.c");
    std::fs::write(&source, READER).unwrap();
    let (file, path) = (home.path().join("linked"), home.path().join("program"));
    let mut seen = 0;
    for linker in ["bfd", "gold", "lld", "mold"] {
        for kind in [&["-fPIE", "-pie"][..], &["-fPIC", "-shared"], &["-fPIE", "-pie", "-Wl,-z,now"]] {
            for strip in STRIPS {
                let mut link = Command::new("gcc");
                link.args(["-O1", &format!("-fuse-ld={linker}")]).args(kind).arg("-o");
                if !testing::compiled(link.arg(&file).arg(&source)) {
                    continue;
                }
                if let [command, options @ ..] = strip
                    && !testing::compiled(Command::new(command).args(options).arg(&file))
                {
                    continue;
                }
                let what = format!("{linker} {kind:?} {strip:?}");
                let original = [&std::fs::read(&file).unwrap(), PAYLOAD].concat();
                let new = check_payload(&original, &what);
                if kind.contains(&"-shared") {
                    std::fs::write(&path, &new).unwrap();
                    let loaded = Command::new("/bin/true").env("LD_PRELOAD", &path).output().unwrap();
                    let said = String::from_utf8_lossy(&loaded.stderr);
                    assert!(loaded.status.success() && said.is_empty(), "{what}: {said}");
                } else {
                    let right = run(&path, &original);
                    assert!(right.contains("word 1 begin-of-payload"), "{what}: {right}");
                    assert_eq!(run(&path, &new), right, "{what}");
                }
                seen += 1;
            }
        }
    }
    println!("{seen} files");
    assert!(seen > 0);
}

/// A program of Go's own linker: its section headers are loaded with its code.
#[test]
fn position_independent_programs_of_go_are_packed() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("go.mod"), "module g\n").unwrap();
    let source = "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"word 1\") }\n";
    std::fs::write(home.path().join("main.go"), source).unwrap();
    for strip in ["", "-s -w"] {
        let file = home.path().join("linked");
        let mut link = Command::new("go");
        link.args(["build", "-buildmode=pie", "-ldflags", strip, "-o"]).arg(&file).arg(".").current_dir(home.path());
        if !link.output().is_ok_and(|said| said.status.success()) {
            return testing::skip("needs Go");
        }
        let original = std::fs::read(&file).unwrap();
        let refused = check(home.path(), &original, &format!("Go {strip:?}"));
        assert_eq!(refused, [], "stripped: {strip:?}");
    }
}
