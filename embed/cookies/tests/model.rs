//! A jar against the simplest one that does the same: a list, with the rules written down once more.

mod common;

use common::*;
use proptest::prelude::*;
use thaw_cookies::{Context, Jar, Limits, Options, SameSite};

#[derive(Clone, Debug)]
enum Step {
    Set { host: usize, name: usize, value: u32, age: Option<i64>, domain: bool, path: usize, secure: bool },
    Ask { host: usize, path: usize, https: bool },
    Wait(u64),
    Flush,
    Reopen,
    Forget(usize),
    ForgetSince(u64),
}

const HOSTS: [&str; 4] = ["a.one.example", "b.one.example", "one.example", "two.example"];
const SITES: [&str; 4] = ["one.example", "one.example", "one.example", "two.example"];
const PATHS: [&str; 3] = ["/", "/x", "/x/y"];
const LIMIT: usize = 6;

fn step() -> impl Strategy<Value = Step> {
    let age = prop_oneof![Just(None), (-1_i64..20).prop_map(Some), Just(Some(1000))];
    let set = (0..4_usize, 0..5_usize, any::<u32>(), age, any::<bool>(), 0..3_usize, any::<bool>());
    prop_oneof![
        8 => set.prop_map(|(host, name, value, age, domain, path, secure)| {
            Step::Set { host, name, value, age, domain, path, secure }
        }),
        6 => (0..4_usize, 0..3_usize, any::<bool>()).prop_map(|(host, path, https)| Step::Ask { host, path, https }),
        2 => (0..5_u64).prop_map(Step::Wait),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
        1 => (0..4_usize).prop_map(Step::Forget),
        1 => (0..20_u64).prop_map(Step::ForgetSince),
    ]
}

#[derive(Clone, Debug)]
struct Simple {
    name: String,
    value: String,
    domain: &'static str,
    host_only: bool,
    path: &'static str,
    secure: bool,
    expires: Option<u64>,
    created: u64,
    used: u64,
}

impl Simple {
    fn above(&self, host: &str) -> bool {
        host == self.domain || (!self.host_only && host.ends_with(&format!(".{}", self.domain)))
    }
}

fn below(path: &str, of_cookie: &str) -> bool {
    of_cookie == "/" || path == of_cookie || path.starts_with(&format!("{of_cookie}/"))
}

#[derive(Default)]
struct Model {
    all: Vec<Simple>,
}

impl Model {
    fn set(&mut self, new: Simple, https: bool, now: u64) {
        self.all.retain(|old| old.expires.is_none_or(|at| at > now));
        let related = |old: &Simple| {
            let ends = |long: &str, short: &str| long == short || long.ends_with(&format!(".{short}"));
            ends(old.domain, new.domain) || ends(new.domain, old.domain)
        };
        let hides = |old: &Simple| old.secure && old.name == new.name && related(old) && below(new.path, old.path);
        if !https && (new.secure || self.all.iter().any(hides)) {
            return;
        }
        let same = |old: &Simple| {
            (&old.name, old.domain, old.host_only, old.path) == (&new.name, new.domain, new.host_only, new.path)
        };
        let gone = new.expires.is_some_and(|at| at <= now);
        match self.all.iter().position(same) {
            Some(at) if gone => drop(self.all.remove(at)),
            Some(at) => self.all[at] = Simple { created: self.all[at].created, ..new },
            None if gone => {}
            None => {
                let domain = new.domain;
                self.all.push(new);
                while self.all.iter().filter(|it| it.domain == domain).count() > LIMIT {
                    let of = self.all.iter().enumerate().filter(|it| it.1.domain == domain);
                    let worst = { of }.min_by_key(|it| (it.1.secure, it.1.used, it.1.created)).unwrap().0;
                    self.all.remove(worst);
                }
            }
        }
    }

    fn ask(&mut self, host: &str, path: &str, https: bool, now: u64) -> String {
        self.all.retain(|old| old.expires.is_none_or(|at| at > now));
        let goes = |it: &&mut Simple| it.above(host) && below(path, it.path) && (https || !it.secure);
        let mut going: Vec<(usize, u64, String)> = Vec::new();
        for it in self.all.iter_mut().filter(goes) {
            it.used = it.used.max(now);
            going.push((usize::MAX - it.path.len(), it.created, format!("{}={}", it.name, it.value)));
        }
        going.sort();
        going.into_iter().map(|it| it.2).collect::<Vec<_>>().join("; ")
    }
}

fn open(disk: &std::sync::Arc<thaw_log::memory::Memory>) -> Jar {
    let limits = Limits { per_domain: LIMIT, total: 1000 };
    Jar::on(disk.clone(), Options { limits, compact: 1500, keep_session: true, ..options() }).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn it_does_what_a_list_does(steps in prop::collection::vec(step(), 1..80)) {
        let disk = empty();
        let (mut jar, mut model, mut now, mut last) = (open(&disk), Model::default(), NOW, 0);
        for step in steps {
            match step {
                Step::Set { host, name, value, age, domain, path, secure } => {
                    now += 1;
                    let https = secure || value % 2 == 0;
                    let mut text = format!("n{name}={value}; Path={}", PATHS[path]);
                    if let Some(age) = age {
                        text += &format!("; Max-Age={age}");
                    }
                    if domain {
                        text += &format!("; Domain={}", SITES[host]);
                    }
                    if secure {
                        text += "; Secure";
                    }
                    let url = format!("{}://{}/", if https { "https" } else { "http" }, HOSTS[host]);
                    // Whether it is refused is the model's to know.
                    let _ = jar.set(text.as_bytes(), &url, now, &Context::default());
                    let new = Simple {
                        name: format!("n{name}"),
                        value: value.to_string(),
                        domain: if domain { SITES[host] } else { HOSTS[host] },
                        host_only: !domain,
                        path: PATHS[path],
                        secure,
                        expires: age.map(|age| if age <= 0 { 0 } else { now + age as u64 * 1_000_000 }),
                        created: now,
                        used: now,
                    };
                    last = now;
                    model.set(new, https, now);
                }
                Step::Ask { host, path, https } => {
                    let url = format!("{}://{}{}", if https { "https" } else { "http" }, HOSTS[host], PATHS[path]);
                    prop_assert_eq!(sent(&jar, &url, now), model.ask(HOSTS[host], PATHS[path], https, now));
                }
                Step::Wait(seconds) => now += seconds * 1_000_000,
                Step::Flush => flush(&jar),
                Step::Reopen => {
                    // Last accesses within an hour are not written, and eviction goes by them: so they are made even.
                    for host in HOSTS {
                        sent(&jar, &format!("https://{host}/x/y"), now);
                        model.ask(host, "/x/y", true, now);
                    }
                    drop(jar);
                    jar = open(&disk);
                    jar.wait_whole();
                    let there = jar.all().unwrap();
                    for it in &mut model.all {
                        let same = |jars: &&thaw_cookies::Cookie| jars.name == it.name.as_bytes()
                            && jars.domain == it.domain && jars.host_only == it.host_only
                            && jars.path == it.path.as_bytes();
                        let jars = there.iter().find(same);
                        prop_assert!(jars.is_some(), "{it:?} is lost");
                        it.used = jars.unwrap().accessed_us;
                    }
                }
                Step::Forget(host) => {
                    jar.wait_for(jar.forget(HOSTS[host])).unwrap();
                    let ends = format!(".{}", HOSTS[host]);
                    model.all.retain(|it| it.domain != HOSTS[host] && !it.domain.ends_with(&ends));
                }
                Step::ForgetSince(back) => {
                    let since = last.saturating_sub(back);
                    jar.wait_for(jar.forget_since(since)).unwrap();
                    model.all.retain(|it| it.created < since);
                }
            }
            // The jar learns of the time by calls alone.
            let mut there: Vec<String> = { all(&jar).into_iter() }
                .filter(|it| !it.is_expired(now))
                .map(|it| format!("{} {} {:?} {:?} {:?}", it.domain, it.host_only, it.path, it.name, it.value))
                .collect();
            let mut expected: Vec<String> = { model.all.iter() }
                .filter(|it| it.expires.is_none_or(|at| at > now))
                .map(|it| {
                    let [path, name, value] = [it.path, &it.name, &it.value].map(str::as_bytes);
                    format!("{} {} {path:?} {name:?} {value:?}", it.domain, it.host_only)
                })
                .collect();
            there.sort();
            expected.sort();
            prop_assert_eq!(there, expected);
            prop_assert!(all(&jar).iter().all(|it| it.same_site == SameSite::Default));
        }
    }
}
