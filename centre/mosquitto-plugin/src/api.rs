//! Mosquitto's interface for plugins, version 5, as `mosquitto_plugin.h` and `mosquitto_broker.h` of release 2.0 declare it.
#![expect(unsafe_code, reason = "Mosquitto is C; this file is made for its calls")]

use crate::options::Options;
use crate::sessions::{Sessions, Told, Wish};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use zeroize::Zeroizing;

const VERSION: c_int = 5;

/// `MOSQ_ERR_…`.
const SUCCESS: c_int = 0;
const INVALID: c_int = 3;
const REFUSED: c_int = 11;
const ACL_DENIED: c_int = 12;
const UNKNOWN: c_int = 13;

/// `MOSQ_EVT_…`.
const ACL_CHECK: c_int = 2;
const BASIC_AUTH: c_int = 3;
const TICK: c_int = 9;
const DISCONNECT: c_int = 10;

/// `MOSQ_ACL_…`.
const READ: c_int = 1;
const WRITE: c_int = 2;
const SUBSCRIBE: c_int = 4;
const UNSUBSCRIBE: c_int = 8;

/// `MOSQ_LOG_NOTICE`, `MOSQ_LOG_ERR`.
const NOTICE: c_int = 2;
const ERROR: c_int = 8;

/// `struct mosquitto_opt`.
#[repr(C)]
pub(crate) struct Opt {
    key: *const c_char,
    value: *const c_char,
}

/// The beginning of `struct mosquitto_evt_basic_auth`.
#[repr(C)]
struct BasicAuth {
    future: *mut c_void,
    client: *const c_void,
    username: *const c_char,
    password: *const c_char,
}

/// The beginning of `struct mosquitto_evt_acl_check`.
#[repr(C)]
struct AclCheck {
    future: *mut c_void,
    client: *const c_void,
    topic: *const c_char,
    payload: *const c_void,
    properties: *const c_void,
    access: c_int,
}

/// The beginning of `struct mosquitto_evt_disconnect`.
#[repr(C)]
struct Disconnect {
    future: *mut c_void,
    client: *const c_void,
}

type Callback = extern "C" fn(c_int, *mut c_void, *mut c_void) -> c_int;

// SAFETY: as mosquitto_broker.h declares them; the broker has them, and nothing else loads this library.
unsafe extern "C" {
    fn mosquitto_callback_register(
        plugin: *mut c_void,
        event: c_int,
        callback: Callback,
        event_data: *const c_void,
        user_data: *mut c_void,
    ) -> c_int;
    fn mosquitto_log_printf(level: c_int, format: *const c_char, ...);
    fn mosquitto_client_id(client: *const c_void) -> *const c_char;
    fn mosquitto_client_username(client: *const c_void) -> *const c_char;
    fn mosquitto_client_address(client: *const c_void) -> *const c_char;
    fn mosquitto_kick_client_by_clientid(id: *const c_char, with_will: bool) -> c_int;
}

/// What Mosquitto keeps for this plugin.
struct Plugin {
    sessions: Arc<Sessions>,
    thread: Option<JoinHandle<()>>,
}

/// Which version of the interface this plugin speaks: 5.
///
/// # Safety
/// `versions` must point to `count` numbers.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mosquitto_plugin_version(count: c_int, versions: *const c_int) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: Mosquitto says so.
    let supported = count > 0 && unsafe { std::slice::from_raw_parts(versions, count) }.contains(&VERSION);
    if supported { VERSION } else { -1 }
}

/// Reads the options and registers what the plugin decides. The broker does not start, if that fails.
///
/// # Safety
/// As `mosquitto_plugin.h` says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mosquitto_plugin_init(
    identifier: *mut c_void,
    user_data: *mut *mut c_void,
    options: *const Opt,
    count: c_int,
) -> c_int {
    // SAFETY: Mosquitto gives so many options, each with two texts, for the time of this call.
    let started = catch_unwind(|| unsafe { start(options, count) });
    let Ok(Some(plugin)) = started else { return INVALID };
    let plugin = Box::into_raw(Box::new(plugin)).cast::<c_void>();
    let events: [(c_int, Callback); 4] =
        [(BASIC_AUTH, basic_auth), (ACL_CHECK, acl_check), (TICK, tick), (DISCONNECT, disconnect)];
    for (event, callback) in events {
        // SAFETY: the identifier is Mosquitto's; what it keeps for us lives until the cleanup.
        let result = unsafe { mosquitto_callback_register(identifier, event, callback, std::ptr::null(), plugin) };
        if result != SUCCESS {
            log(ERROR, &format!("latchkey: Mosquitto does not take event {event}"));
            return result;
        }
    }
    // SAFETY: the place is Mosquitto's, for this.
    unsafe { *user_data = plugin };
    SUCCESS
}

/// Ends the plugin's thread.
///
/// # Safety
/// `user_data` must be what the start gave, and be used by nobody after.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mosquitto_plugin_cleanup(user_data: *mut c_void, _: *const Opt, _: c_int) -> c_int {
    if !user_data.is_null() {
        // SAFETY: made by the start, and given back once.
        let mut plugin = unsafe { Box::from_raw(user_data.cast::<Plugin>()) };
        plugin.sessions.end();
        let ended = plugin.thread.take().map(JoinHandle::join);
        drop(ended);
    }
    SUCCESS
}

/// # Safety
/// `options` must point to `count` options.
unsafe fn start(options: *const Opt, count: c_int) -> Option<Plugin> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller says so.
    let options = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(options, count) } };
    // SAFETY: as above.
    let pairs = options.iter().filter_map(|option| unsafe { Some((text(option.key)?, text(option.value)?)) });
    let options = Options::read(pairs).inspect_err(|error| log(ERROR, &format!("latchkey: {error}"))).ok()?;
    let sessions = Arc::new(Sessions::new(options));
    let shared = sessions.clone();
    let thread = std::thread::Builder::new().name("latchkey-refresh".into()).spawn(move || shared.refresh());
    let thread = thread.inspect_err(|error| log(ERROR, &format!("latchkey: no thread: {error}"))).ok()?;
    Some(Plugin { sessions, thread: Some(thread) })
}

/// A text of Mosquitto's; nothing, if it is none.
///
/// # Safety
/// It must be null, or end with NUL and live as long as the result is used.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller says so.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// # Safety
/// `client` must be a client of Mosquitto's.
unsafe fn told<'a>(client: *const c_void) -> Option<Told<'a>> {
    if client.is_null() {
        return None;
    }
    // SAFETY: the texts live as long as the client, which lives as long as the callback.
    unsafe {
        Some(Told {
            place: client.addr(),
            id: text(mosquitto_client_id(client))?,
            username: text(mosquitto_client_username(client))?,
            address: text(mosquitto_client_address(client)).unwrap_or_default(),
        })
    }
}

/// A panic is a refusal: none may go into C.
fn guarded(user_data: *mut c_void, refusal: c_int, work: impl FnOnce(&Sessions) -> c_int) -> c_int {
    // SAFETY: what the start gave, alive until the cleanup.
    let Some(plugin) = (unsafe { user_data.cast::<Plugin>().as_ref() }) else { return refusal };
    catch_unwind(AssertUnwindSafe(|| work(&plugin.sessions))).unwrap_or(refusal)
}

extern "C" fn basic_auth(_: c_int, event: *mut c_void, user_data: *mut c_void) -> c_int {
    guarded(user_data, REFUSED, |sessions| {
        // SAFETY: Mosquitto gives this structure with this event; its texts live as long as the call.
        let (client, username, password) = unsafe {
            let Some(event) = event.cast::<BasicAuth>().as_ref() else { return REFUSED };
            (told(event.client), text(event.username), text(event.password))
        };
        let (Some(client), Some(username), Some(password)) = (client, username, password) else { return REFUSED };
        let client = Told { username, ..client };
        match sessions.connect(client, Zeroizing::new(password.to_owned())) {
            Ok(()) => SUCCESS,
            Err(why) => {
                let (id, username) = (shown(client.id), shown(username));
                log(NOTICE, &format!("latchkey: client {id} with name {username} is refused: {why}"));
                REFUSED
            }
        }
    })
}

extern "C" fn acl_check(_: c_int, event: *mut c_void, user_data: *mut c_void) -> c_int {
    guarded(user_data, ACL_DENIED, |sessions| {
        // SAFETY: as above.
        let (client, topic, access) = unsafe {
            let Some(event) = event.cast::<AclCheck>().as_ref() else { return ACL_DENIED };
            (told(event.client), text(event.topic), event.access)
        };
        let (Some(client), Some(topic)) = (client, topic) else { return ACL_DENIED };
        let wish = match access {
            READ => Wish::Receive(topic),
            WRITE => Wish::Publish(topic),
            SUBSCRIBE => Wish::Subscribe(topic),
            // It only gives something up.
            UNSUBSCRIBE => return SUCCESS,
            _ => return ACL_DENIED,
        };
        if sessions.allows(client, &wish) { SUCCESS } else { ACL_DENIED }
    })
}

extern "C" fn tick(_: c_int, _: *mut c_void, user_data: *mut c_void) -> c_int {
    guarded(user_data, UNKNOWN, |sessions| {
        for id in sessions.ended() {
            log(NOTICE, &format!("latchkey: the rights of client {} have ended", shown(&id)));
            if let Ok(id) = CString::new(id) {
                // SAFETY: Mosquitto's own thread, as it calls this.
                unsafe { mosquitto_kick_client_by_clientid(id.as_ptr(), true) };
            }
        }
        SUCCESS
    })
}

extern "C" fn disconnect(_: c_int, event: *mut c_void, user_data: *mut c_void) -> c_int {
    guarded(user_data, UNKNOWN, |sessions| {
        // SAFETY: Mosquitto gives this structure with this event.
        if let Some(event) = unsafe { event.cast::<Disconnect>().as_ref() } {
            sessions.disconnect(event.client.addr());
        }
        SUCCESS
    })
}

fn shown(text: &str) -> String {
    latchkey_reason::printable(text).take(64).collect()
}

fn log(level: c_int, line: &str) {
    if let Ok(line) = CString::new(line) {
        // SAFETY: the format takes one text, which ends with NUL.
        unsafe { mosquitto_log_printf(level, c"%s".as_ptr(), line.as_ptr()) };
    }
}
