//! Any text as a file of rules, or as the blocks of a memory report: an error or what was meant, never a panic.
#![no_main]

use heap::dark::Marks;
use heap::dark::rules::Rules;
use heap::symbols::Frame;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(rules) = Rules::parse(text, "fuzz") {
        let frame = |function: Option<&str>| Frame {
            function: function.map(Into::into),
            module: "/usr/lib/libx.so.1".into(),
            file: None,
            line: None,
            inlined: false,
            address: 7,
        };
        let frames = [frame(Some("Parser::node")), frame(None), frame(Some("a/b"))];
        let _ = rules.fit(&frames);
        for rule in rules.iter() {
            for frame in &frames {
                let path = rule.path_at(frame);
                assert!(path.split('/').all(|name| !name.is_empty()), "{path}");
            }
        }
    }
    if let Ok(value) = serde_json::from_str(text) {
        let _ = Marks::parse(&value, None, "fuzz");
    }
});
