//! Chromium's files of commands (SNSS), and the windows that come of them. Pure; fuzzed.
//!
//! Eight bytes (`SNSS`, version), then commands: two bytes of length, one of kind, the content. What a session is comes
//! of doing them all in order. Numbers are little-endian.

use crate::commands::{Command, Reader, commands, in_the_clear};
use crate::values::{Entry, Session, Tab, Window};
use std::collections::{BTreeMap, HashMap};

/// Microseconds from 1601, where Chromium's times begin, to 1970.
const BEFORE_1970_US: i64 = 11_644_473_600_000_000;

/// The kind that stands where the first state is complete.
const MARKER: u8 = 255;

/// A time of Chromium's, in microseconds since 1970; `None`: none, or one before that.
pub(crate) fn time_us(of_chromium: i64) -> Option<u64> {
    u64::try_from(of_chromium.checked_sub(BEFORE_1970_US)?).ok()
}

/// A page: of which tab, at which place of its history.
fn navigation(content: &[u8]) -> Option<(i32, i32, Entry)> {
    let mut from = Reader::pickle(content)?;
    let (tab, place) = (from.int()?, from.int()?);
    Some((tab, place, Entry { url: from.text()?, title: from.text16()? }))
}

/// Two numbers, as most commands have them.
fn pair(content: &[u8]) -> Option<(i32, i32)> {
    let mut from = Reader(content);
    Some((from.int()?, from.int()?))
}

#[derive(Default)]
struct OpenTab {
    window: i32,
    place: i32,
    /// By its place in the history.
    entries: BTreeMap<i32, Entry>,
    selected: i32,
    pinned: bool,
    last_active_us: Option<u64>,
}

impl OpenTab {
    /// Takes places of the history away; those behind move up. `None`: no such places can be.
    fn prune(&mut self, from: i32, count: i32) -> Option<()> {
        let end = from.checked_add(count).filter(|_| from >= 0 && count > 0)?;
        if self.selected >= end {
            self.selected -= count;
        } else if self.selected >= from {
            self.selected = from - 1;
        }
        let old = std::mem::take(&mut self.entries);
        let kept = old.into_iter().filter(|(place, _)| !(from..end).contains(place));
        self.entries = kept.map(|(place, entry)| (if place >= end { place - count } else { place }, entry)).collect();
        Some(())
    }

    /// `None`: it shows nothing.
    fn close(self) -> Option<Tab> {
        // The first one that is not before what is selected; as Chromium does.
        let selected = { self.entries.keys() }.position(|place| *place >= self.selected);
        let selected = Some(selected.unwrap_or(self.entries.len().checked_sub(1)?));
        let entries = self.entries.into_values().collect();
        Some(Tab { entries, selected, pinned: self.pinned, last_active_us: self.last_active_us })
    }
}

#[derive(Default)]
struct OpenWindow {
    /// The place, among its tabs, of the one in front.
    selected: i32,
}

#[derive(Default)]
struct Replay {
    tabs: HashMap<i32, OpenTab>,
    windows: BTreeMap<i32, OpenWindow>,
    active: Option<i32>,
}

impl Replay {
    fn tab(&mut self, id: i32) -> &mut OpenTab {
        self.tabs.entry(id).or_default()
    }

    /// Does a command of a `Session_` file. `None`: it is too short, or says what cannot be.
    fn step(&mut self, command: Command<'_>) -> Option<()> {
        let content = command.content;
        match command.kind {
            // SetTabWindow.
            0 => {
                let (window, tab) = pair(content)?;
                self.tab(tab).window = window;
            }
            // SetTabIndexInWindow.
            2 => {
                let (tab, place) = pair(content)?;
                self.tab(tab).place = place;
            }
            // TabNavigationPathPrunedFromBack.
            5 => {
                let (tab, from) = pair(content)?;
                self.tab(tab).entries.retain(|place, _| *place < from);
            }
            // UpdateTabNavigation.
            6 => {
                let (tab, place, entry) = navigation(content)?;
                self.tab(tab).entries.insert(place, entry);
            }
            // SetSelectedNavigationIndex.
            7 => {
                let (tab, place) = pair(content)?;
                self.tab(tab).selected = place;
            }
            // SetSelectedTabInIndex.
            8 => {
                let (window, place) = pair(content)?;
                self.windows.entry(window).or_default().selected = place;
            }
            // TabNavigationPathPrunedFromFront.
            11 => {
                let (tab, count) = pair(content)?;
                self.tab(tab).prune(0, count)?;
            }
            // SetPinnedState: a number and a byte.
            12 => {
                let (tab, pinned) = (Reader(content).int()?, *content.get(4)?);
                self.tab(tab).pinned = pinned != 0;
            }
            // TabClosed, WindowClosed.
            16 => drop(self.tabs.remove(&Reader(content).int()?)),
            17 => {
                let window = Reader(content).int()?;
                self.windows.remove(&window);
                self.tabs.retain(|_, tab| tab.window != window);
            }
            // SetActiveWindow.
            20 => self.active = Some(Reader(content).int()?),
            // LastActiveTime: behind the number, filled up to eight bytes.
            21 => {
                let mut from = Reader(content);
                let (tab, _, at) = (from.int()?, from.int()?, from.long()?);
                self.tab(tab).last_active_us = time_us(at);
            }
            // TabNavigationPathPruned.
            24 => {
                let mut from = Reader(content);
                let (tab, place, count) = (from.int()?, from.int()?, from.int()?);
                self.tab(tab).prune(place, count)?;
            }
            // Bounds, kinds, groups, names, data: nothing of what is asked here.
            _ => {}
        }
        Some(())
    }

    fn end(self) -> Session {
        let mut tabs: BTreeMap<i32, Vec<(i32, i32, OpenTab)>> = BTreeMap::new();
        for (id, tab) in self.tabs {
            tabs.entry(tab.window).or_default().push((tab.place, id, tab));
        }
        let mut session = Session::default();
        for (id, mut of_window) in tabs {
            of_window.sort_by_key(|tab| (tab.0, tab.1));
            let front = self.windows.get(&id).map_or(0, |window| window.selected);
            let mut window = Window::default();
            for (place, _, tab) in of_window {
                if let Some(tab) = tab.close() {
                    if place == front {
                        window.selected = Some(window.tabs.len());
                    }
                    window.tabs.push(tab);
                }
            }
            if !window.tabs.is_empty() {
                window.selected = window.selected.or(Some(0));
                if self.active == Some(id) {
                    session.selected = Some(session.windows.len());
                }
                session.windows.push(window);
            }
        }
        session
    }
}

/// The windows of a `Session_` file. A command that cannot be done ends it: what came before is kept, and it is said.
///
/// # Errors
/// It is no such file.
pub fn session(bytes: &[u8]) -> Result<Session, String> {
    let (bytes, encrypted) = in_the_clear(bytes)?;
    let (commands, wrong) = commands(&bytes)?;
    let mut replay = Replay::default();
    let mut damage: Vec<String> = encrypted.into_iter().chain(wrong).collect();
    for (number, command) in (1..).zip(&commands) {
        if replay.step(*command).is_none() {
            let (kind, left) = (command.kind, commands.len() - number + 1);
            damage.push(format!("command {number}, of kind {kind}, cannot be read: {left} commands are not done"));
            break;
        }
    }
    Ok(Session { damage, ..replay.end() })
}

/// Whether a file's first state is complete: Chromium takes an older file if not. Files of version 1 have no marker.
pub fn is_complete(bytes: &[u8]) -> bool {
    let Ok((bytes, _)) = in_the_clear(bytes) else { return false };
    bytes.get(4) == Some(&1) || commands(&bytes).is_ok_and(|(all, _)| all.iter().any(|it| it.kind == MARKER))
}

/// The closed tabs of a `Tabs_` file, the last ones first, and what is wrong with it.
///
/// # Errors
/// It is no such file.
pub fn closed(bytes: &[u8]) -> Result<(Vec<Tab>, Option<String>), String> {
    let (bytes, encrypted) = in_the_clear(bytes)?;
    let (commands, cut) = commands(&bytes)?;
    let mut wrong = encrypted.or(cut);
    // In the order in which they begin.
    let mut tabs: Vec<(i32, OpenTab)> = Vec::new();
    // The window that was closed last, and how many of its tabs are still to come.
    let (mut window, mut to_come) = (0, 0);
    let find = |tabs: &[(i32, OpenTab)], id: i32| tabs.iter().rposition(|tab| tab.0 == id);
    let mut step = |command: &Command<'_>| -> Option<()> {
        match command.kind {
            // UpdateTabNavigation.
            1 => {
                let (id, place, entry) = navigation(command.content)?;
                if let Some(at) = find(&mut tabs, id) {
                    tabs[at].1.entries.insert(place, entry);
                }
            }
            // RestoredEntry: a tab is open again, or a window with all its tabs.
            2 => {
                let id = Reader(command.content).int()?;
                tabs.retain(|tab| tab.0 != id && tab.1.window != id);
            }
            // Window: a closed window begins, as a struct or as a pickle.
            3 | 9 => {
                let plain = Reader(command.content);
                let mut from = if command.kind == 9 { Reader::pickle(command.content)? } else { plain };
                (window, _, to_come) = (from.int()?, from.int()?, from.int()?);
            }
            // SelectedNavigationInTab: a closed tab begins.
            4 => {
                let (id, selected) = pair(command.content)?;
                let window = if to_come > 0 { window } else { 0 };
                to_come -= i32::from(to_come > 0);
                tabs.push((id, OpenTab { window, selected, ..OpenTab::default() }));
            }
            // PinnedState: of the tab that has begun.
            5 => tabs.last_mut()?.1.pinned = *command.content.first()? != 0,
            _ => {}
        }
        Some(())
    };
    for (number, command) in (1..).zip(&commands) {
        if step(command).is_none() {
            let (kind, left) = (command.kind, commands.len() - number + 1);
            wrong = Some(format!("command {number}, of kind {kind}, cannot be read: {left} commands are not done"));
            break;
        }
    }
    Ok((tabs.into_iter().rev().filter_map(|tab| tab.1.close()).collect(), wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: u8, commands: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let mut out = [b"SNSS", &[version, 0, 0, 0][..]].concat();
        for (kind, content) in commands {
            out.extend((content.len() as u16 + 1).to_le_bytes());
            out.push(*kind);
            out.extend(content);
        }
        out
    }

    fn ints(values: &[i32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn page(tab: i32, place: i32, url: &str, title: &str) -> Vec<u8> {
        let mut inside = ints(&[tab, place, url.len() as i32]);
        inside.extend(url.as_bytes());
        inside.resize(inside.len().next_multiple_of(4), 0);
        let title: Vec<u8> = title.encode_utf16().flat_map(u16::to_le_bytes).collect();
        inside.extend(ints(&[title.len() as i32 / 2]));
        inside.extend(&title);
        inside.resize(inside.len().next_multiple_of(4), 0);
        inside.extend(ints(&[0]));
        [ints(&[inside.len() as i32]), inside].concat()
    }

    fn two_windows() -> Vec<(u8, Vec<u8>)> {
        vec![
            (0, ints(&[10, 1])),
            (0, ints(&[10, 2])),
            (0, ints(&[11, 3])),
            (0, ints(&[11, 4])),
            (2, ints(&[1, 1])),
            (2, ints(&[2, 0])),
            (6, page(1, 0, "http://a/", "A")),
            (6, page(1, 1, "http://b/x", "B \u{1F600}")),
            (6, page(1, 2, "http://c/", "")),
            (7, ints(&[1, 1])),
            (6, page(2, 0, "http://d/", "D")),
            (6, page(3, 0, "http://e/", "E")),
            (12, [ints(&[2]), vec![1, 0, 0, 0]].concat()),
            (8, ints(&[10, 1])),
            (20, ints(&[11])),
            (255, vec![]),
            (21, [ints(&[1, 0]), (BEFORE_1970_US + 77).to_le_bytes().to_vec()].concat()),
        ]
    }

    fn urls(session: &Session) -> Vec<Vec<&str>> {
        let current = |tab: &'_ Tab| -> usize { tab.selected.unwrap() };
        let of = |window: &'_ Window| window.tabs.iter().map(current).collect::<Vec<_>>();
        let shown = session.windows.iter().map(of).collect::<Vec<_>>();
        session
            .windows
            .iter()
            .zip(shown)
            .map(|(window, shown)| {
                window.tabs.iter().zip(shown).map(|(tab, at)| tab.entries[at].url.as_str()).collect()
            })
            .collect()
    }

    #[test]
    fn windows_tabs_and_pages_come_of_the_commands() {
        for version in [1, 3] {
            let session = session(&file(version, &two_windows())).unwrap();
            assert_eq!(urls(&session), [vec!["http://d/", "http://b/x"], vec!["http://e/"]]);
            assert_eq!((session.selected, session.windows[0].selected), (Some(1), Some(1)));
            let tab = &session.windows[0].tabs[1];
            assert_eq!((tab.entries.len(), tab.pinned, tab.last_active_us), (3, false, Some(77)));
            assert_eq!(tab.current().unwrap().title, "B \u{1F600}");
            assert!(session.windows[0].tabs[0].pinned && session.damage.is_empty());
        }
    }

    #[test]
    fn what_was_closed_and_pruned_is_gone() {
        let with = |more: (u8, Vec<u8>)| {
            let session = session(&file(3, &[two_windows(), vec![more]].concat())).unwrap();
            assert!(session.damage.is_empty());
            session
        };
        let closed = |id: i32| [ints(&[id, 0]), vec![0; 8]].concat();
        assert_eq!(urls(&with((16, closed(1)))), [vec!["http://d/"], vec!["http://e/"]]);
        assert_eq!(urls(&with((17, closed(11)))), [vec!["http://d/", "http://b/x"]]);
        let pages = |session: &Session| session.windows[0].tabs[1].entries.len();
        let pruned = with((24, ints(&[1, 0, 1])));
        assert_eq!((urls(&pruned)[0][1], pages(&pruned)), ("http://b/x", 2));
        let pruned = with((11, ints(&[1, 2])));
        assert_eq!((urls(&pruned)[0][1], pages(&pruned)), ("http://c/", 1));
        let pruned = with((5, ints(&[1, 1])));
        assert_eq!((urls(&pruned)[0][1], pages(&pruned)), ("http://a/", 1));
    }

    #[test]
    fn what_comes_before_damage_is_kept_and_damage_is_said() {
        let whole = file(3, &two_windows());
        for len in 8..whole.len() {
            let session = session(&whole[..len]).unwrap();
            let ends = (0..=two_windows().len()).any(|count| file(3, &two_windows()[..count]).len() == len);
            assert_eq!(session.damage.is_empty(), ends, "{len}");
        }
        assert!((0..8).all(|len| session(&whole[..len]).is_err()));
        let mut wrong = two_windows();
        wrong.insert(12, (6, vec![1, 2, 3]));
        let session = session(&file(3, &wrong)).unwrap();
        assert_eq!(urls(&session), [vec!["http://d/", "http://b/x"], vec!["http://e/"]]);
        assert_eq!(session.damage, ["command 13, of kind 6, cannot be read: 6 commands are not done"]);
        let keyring = [&file(5, &[])[..], &[4, 0, 0, 0], b"v11x"].concat();
        assert!(super::session(&keyring).unwrap_err().contains("the keyring has its key"));
        assert!(super::session(&file(9, &[])).unwrap_err().contains("version 9"));
        assert!(!is_complete(&file(3, &two_windows()[..9])) && is_complete(&whole));
    }

    #[test]
    fn closed_tabs_are_read_the_last_first_and_restored_ones_are_not() {
        let begin = |id: i32| (4, [ints(&[id, 1]), vec![0; 8]].concat());
        let window = [ints(&[24, 7, 0, 2]), vec![0; 12]].concat();
        let commands = [
            begin(1),
            (1, page(1, 0, "http://a/", "A")),
            (1, page(1, 1, "http://b/", "B")),
            begin(2),
            (5, vec![1]),
            (1, page(2, 0, "http://c/", "C")),
            (9, window),
            begin(3),
            (1, page(3, 0, "http://d/", "D")),
            begin(4),
            (1, page(4, 0, "http://e/", "E")),
            begin(5),
            (1, page(5, 0, "http://f/", "F")),
        ];
        let urls = |more: &[(u8, Vec<u8>)]| {
            let (tabs, wrong) = closed(&file(3, &[&commands[..], more].concat())).unwrap();
            assert_eq!(wrong, None);
            tabs.into_iter().map(|tab| (tab.current().unwrap().url.clone(), tab.pinned)).collect::<Vec<_>>()
        };
        let of = |url: &str| (format!("http://{url}/"), url == "c");
        assert_eq!(urls(&[]), ["f", "e", "d", "c", "b"].map(of));
        assert_eq!(urls(&[(2, ints(&[7]))]), ["f", "c", "b"].map(of));
        assert_eq!(urls(&[(2, ints(&[1]))]), ["f", "e", "d", "c"].map(of));
    }
}
