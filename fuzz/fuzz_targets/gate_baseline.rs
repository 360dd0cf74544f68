//! Bytes as the file of a baseline. What is read is written and read again; judged against itself it never fails.
#![no_main]

use bench::gate::{Baseline, Bound, LEVEL, Metric, Outcome, Rule, Wanted, decide, differences};
use libfuzzer_sys::fuzz_target;
use stats::Pairing;

fuzz_target!(|input: &[u8]| {
    let Ok(baseline) = Baseline::parse(&String::from_utf8_lossy(input)) else { return };
    let text = serde_json::to_string(&baseline).expect("a baseline is JSON");
    assert!(Baseline::parse(&text).expect("what was written is read") == baseline);
    assert!(differences(&baseline, &baseline).is_empty());
    let rules = [Metric::Time, Metric::Bytes].map(|metric| Rule::of(metric, Bound::Growth(0.05))).to_vec();
    for pairing in [Pairing::Independent, Pairing::Paired] {
        let verdict = decide(Some(&baseline), &baseline, &Wanted { rules: rules.clone(), level: LEVEL }, pairing);
        assert!(verdict.outcome != Outcome::Fail);
    }
});
