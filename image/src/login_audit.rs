//! What in a root opens a way in at boot that its maker may not know of: log-ins and shells on consoles, and accounts that
//! ask for no password. Warnings: whoever wants one has it. systemd's rules are those of systemd.unit(5) and
//! systemd.generator(7); which unit or generator counts, the first of its directories says, and `/dev/null` or nothing in it
//! masks it.

use latchkey_reason::reason_codes;

use crate::tree::{Entry, EntryKind, Tree, join};

/// Something in the root that opens a way in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// What kind of.
    pub code: WarningCode,
    /// Where in the root.
    pub path: String,
    /// What it does, and how it is mended.
    pub finding: String,
}

reason_codes! {
    /// What a root has that opens a way in. Warnings: the image is built.
    pub enum WarningCode {
        /// A log-in or a shell on a console.
        ConsoleLogin = "console-login": "mask what opens it, unless you want it";
        /// A file that may open a way in leads elsewhere or is too long.
        NotLookedInto = "not-looked-into": "look into the file yourself";
        /// An account without a password.
        PasswordEmpty = "password-empty": "lock the account: passwd -l";
        /// A root shell on the console when a boot fails.
        RescueShell = "rescue-shell": "mask the unit, unless you want it";
    }
}

/// Where systemd looks for units, and below `…-generators` for generators; the first that has it counts.
const UNIT_DIRECTORIES: [&str; 4] = ["etc/systemd/", "usr/local/lib/systemd/", "usr/lib/systemd/", "lib/systemd/"];
/// Units that open a log-in or a shell where they are enabled: with `@` at the end, each of their instances.
const CONSOLES: [&str; 6] =
    ["getty@", "serial-getty@", "container-getty@", "autovt@", "console-getty.service", "debug-shell.service"];
/// What systemd falls back to when a boot fails: `sulogin` on the console.
const FALLBACKS: [&str; 2] = ["emergency", "rescue"];
/// What makes a line of a `SysV` or busybox inittab one.
const INITTAB: [&str; 4] = ["getty", "askfirst", "sulogin", "/sh"];

/// All of them, sorted.
pub(crate) fn look(tree: &Tree) -> Vec<Warning> {
    let mut warnings = passwords(tree);
    warnings.extend(inittab(tree));
    if UNIT_DIRECTORIES.iter().any(|directory| tree.find(format!("{directory}systemd").as_bytes()).is_some()) {
        let units = Units(tree);
        warnings.extend(units.enabled());
        warnings.extend(units.generated());
        warnings.extend(units.on_demand());
        warnings.extend(units.fallbacks());
    }
    warnings.sort();
    warnings.dedup();
    warnings
}

fn warning(code: WarningCode, path: &[u8], finding: impl Into<String>) -> Warning {
    Warning { code, path: format!("/{}", String::from_utf8_lossy(path)), finding: finding.into() }
}

/// Accounts whose second field is empty (shadow(5), passwd(5)).
fn passwords(tree: &Tree) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for path in [&b"etc/shadow"[..], b"etc/passwd"] {
        if tree.at(path).is_some() && tree.text(path).is_none() {
            let text =
                "not looked into, since it leads elsewhere or is too long: accounts without a password may be in it";
            warnings.push(warning(WarningCode::NotLookedInto, path, text));
        }
        for line in tree.text(path).unwrap_or_default().split(|byte| *byte == b'\n') {
            let mut fields = line.split(|byte| *byte == b':');
            if let (Some(name), Some(b"")) = (fields.next(), fields.next()) {
                let name = String::from_utf8_lossy(name).into_owned();
                warnings.push(warning(
                    WarningCode::PasswordEmpty,
                    path,
                    format!("{name} logs in without a password; lock it: passwd -l"),
                ));
            }
        }
    }
    warnings
}

fn inittab(tree: &Tree) -> Option<Warning> {
    tree.at(b"etc/inittab")?;
    if tree.text(b"etc/inittab").is_none() {
        let text = "not looked into, since it leads elsewhere or is too long: it may open log-ins on consoles";
        return Some(warning(WarningCode::NotLookedInto, b"etc/inittab", text));
    }
    let text = String::from_utf8_lossy(tree.text(b"etc/inittab")?);
    let opens = |line: &&str| !line.trim_start().starts_with('#') && INITTAB.iter().any(|word| line.contains(word));
    let line = text.lines().find(opens)?;
    Some(warning(
        WarningCode::ConsoleLogin,
        b"etc/inittab",
        format!("opens a log-in or a shell on a console: {}", line.trim()),
    ))
}

/// A root's units.
struct Units<'a>(&'a Tree);

impl Units<'_> {
    /// Where a unit or generator is, unless it is masked or not there.
    fn place(&self, kind: &str, name: &str) -> Option<Vec<u8>> {
        let places = UNIT_DIRECTORIES.map(|directory| format!("{directory}{kind}/{name}").into_bytes());
        let place = places.into_iter().find(|place| self.there(place))?;
        (!self.masked(&place)).then_some(place)
    }

    /// Whether something has this name, wherever it leads.
    fn there(&self, place: &[u8]) -> bool {
        self.unfollowed(place).is_some()
    }

    fn masked(&self, place: &[u8]) -> bool {
        match self.unfollowed(place) {
            Some(Entry { what: EntryKind::Link(target), .. }) => self.to_null(place, target),
            Some(Entry { what: EntryKind::File(size, _), .. }) => *size == 0,
            _ => false,
        }
    }

    /// What has this name in its directory: the directory may be behind links, as `/lib` is.
    fn unfollowed(&self, place: &[u8]) -> Option<&Entry> {
        let (directory, name) = split(place)?;
        self.0.linked(&join(&self.0.find(directory)?.0, name))
    }

    /// Whether a link at this place leads to `/dev/null`, read as a path only: devices are made at boot.
    fn to_null(&self, place: &[u8], target: &[u8]) -> bool {
        let Some((directory, _)) = split(place).and_then(|(directory, _)| self.0.find(directory)) else { return false };
        let path = if target.starts_with(b"/") { target.to_vec() } else { join(&directory, target) };
        let mut names: Vec<&[u8]> = Vec::new();
        for name in path.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => drop(names.pop()),
                name => names.push(name),
            }
        }
        names == [&b"dev"[..], b"null"]
    }

    /// A unit, or its template: an instance has the template's mask too.
    fn unit(&self, name: &str) -> Option<Vec<u8>> {
        let template = name.split_once('@').map(|(stem, _)| format!("{stem}@.service"));
        let own = UNIT_DIRECTORIES.iter().any(|directory| self.there(format!("{directory}system/{name}").as_bytes()));
        match template.filter(|template| !own && template != name) {
            Some(template) => self.place("system", &template),
            None => self.place("system", name),
        }
    }

    /// Units that other units want, and that open consoles.
    fn enabled(&self) -> Vec<Warning> {
        let (mut warnings, mut seen) = (Vec::new(), Vec::new());
        for directory in UNIT_DIRECTORIES.map(|directory| format!("{directory}system").into_bytes()) {
            // One that is another's name was told of under that.
            match self.0.find(&directory) {
                Some((real, _)) if !seen.contains(&real) => seen.push(real),
                _ => continue,
            }
            let wants = |name: &&[u8]| name.ends_with(b".wants") || name.ends_with(b".requires");
            for wanting in self.0.names(&directory).into_iter().filter(wants) {
                let wanting = join(&directory, wanting);
                for name in self.0.names(&wanting) {
                    let text = String::from_utf8_lossy(name);
                    if opens_console(&text) && self.unit(&text).is_some() {
                        let what =
                            if text.starts_with("debug") { "opens a shell for everybody" } else { "opens a log-in" };
                        let text = format!("{text} is enabled and {what} on a console; mask it");
                        warnings.push(warning(WarningCode::ConsoleLogin, &join(&wanting, name), text));
                    }
                }
            }
        }
        warnings
    }

    /// What systemd makes at boot for the consoles of the kernel's command line.
    fn generated(&self) -> Option<Warning> {
        let generator = self.place("system-generators", "systemd-getty-generator")?;
        let units = ["serial-getty@.service", "container-getty@.service", "console-getty.service"];
        units.iter().any(|unit| self.unit(unit).is_some()).then(|| {
            warning(
                WarningCode::ConsoleLogin,
                &generator,
                "opens log-ins on the consoles that the command line names; mask it, or serial-getty@.service",
            )
        })
    }

    /// What logind opens when somebody changes to another virtual console.
    fn on_demand(&self) -> Option<Warning> {
        self.unit("systemd-logind.service")?;
        let place = self.unit("autovt@.service").filter(|_| self.unit("getty@.service").is_some())?;
        Some(warning(
            WarningCode::ConsoleLogin,
            &place,
            "opens a log-in on every virtual console that is asked for; mask it",
        ))
    }

    fn fallbacks(&self) -> Vec<Warning> {
        let text = "opens a root shell on the console when a boot fails, for who knows root's password; mask it";
        let open = |name: &&str| self.unit(&format!("{name}.target")).is_some();
        let place = |name: &str| {
            self.unit(&format!("{name}.service")).map(|place| warning(WarningCode::RescueShell, &place, text))
        };
        FALLBACKS.iter().filter(|name| open(name)).filter_map(|name| place(name)).collect()
    }
}

/// The directory of a path, and the name in it.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = path.iter().rposition(|byte| *byte == b'/')?;
    Some((path.get(..slash)?, path.get(slash + 1..)?))
}

fn opens_console(name: &str) -> bool {
    CONSOLES.iter().any(|console| if console.ends_with('@') { name.starts_with(console) } else { name == *console })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::tree::tests::tree;

    const DEBIAN: &[(&str, &str)] = &[
        ("lib", "-> usr/lib"),
        ("usr/lib/systemd/systemd", "x"),
        ("usr/lib/systemd/system/getty@.service", "x"),
        ("usr/lib/systemd/system/autovt@.service", "-> getty@.service"),
        ("usr/lib/systemd/system/serial-getty@.service", "x"),
        ("usr/lib/systemd/system/console-getty.service", "x"),
        ("usr/lib/systemd/system/debug-shell.service", "x"),
        ("usr/lib/systemd/system/systemd-logind.service", "x"),
        ("usr/lib/systemd/system/emergency.target", "x"),
        ("usr/lib/systemd/system/emergency.service", "x"),
        ("usr/lib/systemd/system/rescue.target", "x"),
        ("usr/lib/systemd/system/rescue.service", "x"),
        ("usr/lib/systemd/system-generators/systemd-getty-generator", "x"),
        ("etc/systemd/system/getty.target.wants/getty@tty1.service", "-> /lib/systemd/system/getty@.service"),
        ("etc/systemd/system/sysinit.target.wants/debug-shell.service", "-> /lib/systemd/system/debug-shell.service"),
    ];

    fn found(more: &[(&str, &str)]) -> Vec<String> {
        let entries: Vec<_> = DEBIAN.iter().chain(more).copied().collect();
        look(&tree(&entries)).into_iter().map(|warning| format!("{} {}", warning.code, warning.path)).collect()
    }

    #[test]
    fn a_distribution_s_consoles_and_fallbacks_are_all_named() {
        assert_eq!(
            found(&[]),
            [
                "console-login /etc/systemd/system/getty.target.wants/getty@tty1.service",
                "console-login /etc/systemd/system/sysinit.target.wants/debug-shell.service",
                "console-login /usr/lib/systemd/system-generators/systemd-getty-generator",
                "console-login /usr/lib/systemd/system/autovt@.service",
                "rescue-shell /usr/lib/systemd/system/emergency.service",
                "rescue-shell /usr/lib/systemd/system/rescue.service",
            ]
        );
    }

    #[test]
    fn what_is_masked_is_not_warned_about() {
        let null = "-> /dev/null";
        let masks = [
            ("etc/systemd/system/getty@.service", null),
            ("etc/systemd/system/serial-getty@.service", null),
            ("etc/systemd/system/console-getty.service", ""),
            ("etc/systemd/system/debug-shell.service", null),
            ("etc/systemd/system/emergency.target", null),
            ("etc/systemd/system/rescue.service", null),
        ];
        assert_eq!(found(&masks), [""; 0]);
        let relative = masks.map(|(path, what)| (path, if what == null { "-> ../../../dev/null" } else { what }));
        assert_eq!(found(&relative), [""; 0]);
        assert_ne!(found(&masks.map(|(path, what)| (path, if what == null { "-> ../null" } else { what }))), [""; 0]);
        let generator = ("etc/systemd/system-generators/systemd-getty-generator", null);
        let rest = [&masks[..1], &masks[3..], &[generator]].concat();
        assert_eq!(found(&rest), [""; 0]);
        // An instance of its own, whatever becomes of the template.
        let own = [&masks[..], &[("etc/systemd/system/getty@tty1.service", "x")]].concat();
        assert_eq!(found(&own), ["console-login /etc/systemd/system/getty.target.wants/getty@tty1.service"]);
    }

    #[test]
    fn what_is_enabled_in_a_directory_with_two_names_is_told_of_once() {
        let enabled = ("usr/lib/systemd/system/multi-user.target.wants/getty@tty2.service", "-> ../getty@.service");
        let text = found(&[enabled]);
        assert_eq!(text.iter().filter(|line| line.contains("tty2")).count(), 1, "{text:?}");
    }

    #[test]
    fn accounts_that_cannot_be_read_are_not_taken_for_none() {
        let mut tree = tree(&[
            ("etc/shadow", "-> /usr/share/shadow"),
            ("usr/share/shadow", "x"),
            ("etc/passwd", "x"),
            ("etc/inittab", "-> /nowhere"),
        ]);
        let unread = Entry { mode: 0o600, what: EntryKind::File(2 << 20, None) };
        tree.insert(b"usr/share/shadow".to_vec(), unread.clone());
        tree.insert(b"etc/passwd".to_vec(), unread);
        let text: Vec<_> = look(&tree).into_iter().map(|warning| (warning.code, warning.path)).collect();
        let expected =
            ["/etc/inittab", "/etc/passwd", "/etc/shadow"].map(|path| (WarningCode::NotLookedInto, path.to_owned()));
        assert_eq!(text, expected);
    }

    #[test]
    fn accounts_without_a_password_and_consoles_of_other_inits_are_named() {
        let tree = tree(&[
            ("etc/shadow", "root::19000:0:99999:7:::\ndaemon:*:19000::::::\nme:$y$x:1::::::\n"),
            ("etc/passwd", "root:x:0:0::/root:/bin/sh\nguest::1:1::/:/bin/sh\n"),
            ("etc/inittab", "# ::askfirst:/bin/sh\n::sysinit:/etc/rc\nttyS0::respawn:/sbin/getty 115200\n"),
        ]);
        let found: Vec<_> =
            look(&tree).into_iter().map(|warning| (warning.code, warning.path, warning.finding)).collect();
        let text = |at: usize| (found[at].0, found[at].1.as_str(), found[at].2.split(' ').next().unwrap());
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].2.contains("/sbin/getty 115200"));
        assert_eq!(text(1), (WarningCode::PasswordEmpty, "/etc/passwd", "guest"));
        assert_eq!(text(2), (WarningCode::PasswordEmpty, "/etc/shadow", "root"));
    }

    #[test]
    fn a_root_without_any_of_it_gives_no_warning() {
        assert_eq!(look(&tree(&[("sbin/init", "x"), ("etc/shadow", "root:!:1::::::\n")])), []);
    }
}
