//! What the tests share.
#![allow(dead_code, reason = "no test uses all of it")]

use rustix::event::{PollFd, PollFlags, poll};
use thaw_webstorage::{Area, News, Options, Storage, Urgency};

pub fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

/// One that writes at once and syncs when asked: what is on the disk is known.
pub fn at_once() -> Options {
    let mut options = Options::default();
    (options.write, options.sync) = (std::time::Duration::ZERO, std::time::Duration::from_secs(3600));
    options.retry = std::time::Duration::from_millis(1);
    options
}

pub fn area(storage: &Storage, origin: &str) -> Area {
    let area = storage.area("", origin, Urgency::Urgent).unwrap();
    area.wait().unwrap();
    area
}

pub fn set(area: &Area, key: &str, value: &str) {
    area.set(&units(key), &units(value)).unwrap();
}

pub fn get(area: &Area, key: &str) -> Option<String> {
    area.get(&units(key)).unwrap().map(|text| text.as_string().unwrap())
}

/// Keys and values in order.
pub fn all(area: &Area) -> Vec<(String, String)> {
    let keys = (0..).map_while(|at| area.key(at).unwrap());
    keys.map(|key| (key.as_string().unwrap(), get(area, &key.as_string().unwrap()).unwrap())).collect()
}

pub fn wait_for_news(storage: &Storage) {
    poll(&mut [PollFd::new(storage, PollFlags::IN)], None).unwrap();
}

/// The news up to one that is wanted, which is the last.
pub fn news_until(storage: &Storage, wanted: impl Fn(&News) -> bool) -> Vec<News> {
    let mut all = Vec::new();
    while !all.iter().any(&wanted) {
        wait_for_news(storage);
        all.extend(storage.news());
    }
    all
}
