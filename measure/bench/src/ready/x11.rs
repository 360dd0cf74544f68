//! `x11`: a process of the run mapped its first window on `$DISPLAY`. Stamped when the X server's event arrives.
//!
//! Whose window it is says the X server itself (XRes), or `_NET_WM_PID` where it cannot. A window manager may put the
//! window into a frame of its own first; the window itself is what counts. Not for Wayland: a program that draws there
//! never shows up here.

use super::{Fired, Probe, View};
use model::{Error, Exit, Result};
use os::spawn::{Launch, monotonic_ns};
use rustix::event::PollFlags;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use x11rb::connection::{Connection, RequestConnection};
use x11rb::protocol::Event;
use x11rb::protocol::res::{self, ClientIdMask, ClientIdSpec, ConnectionExt as _};
use x11rb::protocol::xproto::ConnectionExt as _;
use x11rb::protocol::xproto::{Atom, AtomEnum, ChangeWindowAttributesAux, EventMask, MapState, Window, WindowClass};
use x11rb::rust_connection::RustConnection;

/// See the file.
#[derive(Default)]
pub(super) struct X11 {
    server: Option<Server>,
}

struct Server {
    connection: RustConnection,
    /// The server tells the process of a window.
    has_res: bool,
    net_wm_pid: Atom,
}

type Fault = Box<dyn std::error::Error + Send + Sync>;

impl Probe for X11 {
    fn prepare(&mut self, launch: &mut Launch) -> Result<()> {
        let display = display_of(launch).ok_or_else(|| {
            Error::new(Exit::Usage, "--ready x11 needs a display, and there is no $DISPLAY", "").hint(
                "start one that is not seen: `Xvfb :99 -screen 0 1280x1024x24 &`, then DISPLAY=:99 thaw record ...",
            )
        })?;
        let server = Server::connect(&display).map_err(|cause| {
            Error::new(Exit::Machine, "--ready x11 cannot use the display", &display).because(cause).hint(
                "is the X server running? `Xvfb :99 &` starts one that is not seen; then DISPLAY=:99 thaw record ...",
            )
        })?;
        self.server = Some(server);
        Ok(())
    }

    fn wakers(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        self.server.iter().map(|server| (server.connection.stream().as_fd(), PollFlags::IN)).collect()
    }

    fn look(&mut self, view: &View<'_>, fired: &mut Vec<Fired>) -> Result<()> {
        let Some(server) = &self.server else { return Ok(()) };
        let at_ns = monotonic_ns();
        let mapped = server.mapped_by(|pid| view.tree.contains(pid));
        let mapped = mapped.map_err(|cause| {
            Error::new(Exit::Machine, "the X server went away while --ready x11 waited", "").because(cause)
        })?;
        if mapped {
            self.server = None;
            fired.push(Fired { name: "x11".to_owned(), at_ns });
        }
        Ok(())
    }
}

/// The display that the program will use.
fn display_of(launch: &Launch) -> Option<String> {
    let set = launch.env.iter().rev().find(|(name, _)| name == "DISPLAY").map(|(_, value)| value.clone());
    let display: Option<OsString> = set.unwrap_or_else(|| std::env::var_os("DISPLAY"));
    display.filter(|display| !display.is_empty()).map(|display| display.to_string_lossy().into_owned())
}

impl Server {
    fn connect(display: &str) -> std::result::Result<Self, Fault> {
        let (connection, _) = RustConnection::connect(Some(display))?;
        let watch = ChangeWindowAttributesAux::new().event_mask(EventMask::SUBSTRUCTURE_NOTIFY);
        for screen in &connection.setup().roots {
            connection.change_window_attributes(screen.root, &watch)?.check()?;
        }
        let has_res = connection.extension_information(res::X11_EXTENSION_NAME)?.is_some() && {
            let version = connection.res_query_version(1, 2)?.reply()?;
            (version.server_major, version.server_minor) >= (1, 2)
        };
        let net_wm_pid = connection.intern_atom(false, b"_NET_WM_PID")?.reply()?.atom;
        Ok(Self { connection, has_res, net_wm_pid })
    }

    /// Goes through the events that have come: was a window mapped by a process that is `ours`?
    fn mapped_by(&self, ours: impl Fn(u32) -> bool) -> std::result::Result<bool, Fault> {
        while let Some(event) = self.connection.poll_for_event()? {
            match event {
                Event::CreateNotify(created) => {
                    // If a window manager takes the window off the root, we hear of its mapping from itself; unless
                    // both have happened already.
                    let watch = ChangeWindowAttributesAux::new().event_mask(EventMask::STRUCTURE_NOTIFY);
                    self.connection.change_window_attributes(created.window, &watch)?.ignore_error();
                    let state = self.map_state(created.window)?;
                    if state.is_some_and(|state| state != MapState::UNMAPPED)
                        && self.pid_of(created.window)?.is_some_and(&ours)
                    {
                        return Ok(true);
                    }
                }
                Event::MapNotify(mapped)
                    if self.map_state(mapped.window)?.is_some() && self.pid_of(mapped.window)?.is_some_and(&ours) =>
                {
                    return Ok(true);
                }
                _ => {}
            }
        }
        Ok(false)
    }

    /// `None`: the window can never show anything, or is gone already, which no reply tells.
    fn map_state(&self, window: Window) -> std::result::Result<Option<MapState>, Fault> {
        let attributes = self.connection.get_window_attributes(window)?.reply();
        let seen = attributes.ok().filter(|attributes| attributes.class == WindowClass::INPUT_OUTPUT);
        Ok(seen.map(|attributes| attributes.map_state))
    }

    fn pid_of(&self, window: Window) -> std::result::Result<Option<u32>, Fault> {
        if self.has_res {
            let spec = ClientIdSpec { client: window, mask: ClientIdMask::LOCAL_CLIENT_PID };
            if let Ok(reply) = self.connection.res_query_client_ids(&[spec])?.reply()
                && let Some(&pid) = reply.ids.iter().find_map(|id| id.value.first())
            {
                return Ok(Some(pid));
            }
        }
        let property = self.connection.get_property(false, window, self.net_wm_pid, AtomEnum::CARDINAL, 0, 1)?.reply();
        Ok(property.ok().and_then(|property| property.value32().and_then(|mut values| values.next())))
    }
}
