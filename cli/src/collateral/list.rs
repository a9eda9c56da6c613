//! `latchkey collateral show`, `latchkey collateral check`.

use std::fmt::Write as _;
use std::path::Path;

use latchkey_attestation::Refusal;
use latchkey_attestation::parse::{SnpProduct, Tcb};
use latchkey_attestation::policy::TpmList;
use latchkey_attestation::reference::format_rfc3339;
use latchkey_attestation::verify::snp::{Signer, SnpCertificate, SnpInventory, SnpItem, SnpKind};
use latchkey_attestation::verify::tdx::{TdxInventory, TdxItem, TdxKind};
use latchkey_collateral::list;
use serde::Serialize;

use super::unusable;
use crate::arguments::Arguments;
use crate::clock::now;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style, Table, Tone, printable};

pub(crate) fn show(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let directory = directory(arguments)?;
    let files = things(directory, now())?.into_iter().map(|(row, _)| row).collect();
    output.report(&ShowReport { directory: directory.display().to_string(), files })
}

pub(crate) fn check(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let directory = directory(arguments)?;
    let within_days = arguments.value::<u32>("within")?.unwrap_or(WITHIN_DAYS);
    if within_days > MAX_WITHIN_DAYS {
        return Err(CommandError::usage(format!("--within {within_days}: expected 0 to {MAX_WITHIN_DAYS} days")));
    }
    let now = now();
    let soon = format_rfc3339(now.saturating_add(u64::from(within_days) * DAY));
    let files: Vec<_> = things(directory, now)?
        .into_iter()
        .map(|(row, verdict)| {
            // Instants of one form: in order as text, too.
            let ends_soon = row.what.as_ref().is_some_and(|what| !what.superseded && what.valid_until < soon);
            let (verdict, fix, refusal) = match verdict {
                Err(refusal) => (refusal.code().as_str(), Some(refusal.code().remedy()), Some(refusal)),
                Ok(()) if ends_soon => {
                    let code = CommandCode::CollateralEndsSoon;
                    (code.as_str(), Some(code.remedy()), None)
                }
                Ok(()) => (GOOD, None, None),
            };
            CheckRow { row: Row { refusal, ..row }, verdict, fix }
        })
        .collect();
    if files.is_empty() {
        let what = format!("{} has nothing in its `snp`, `tdx` and `tpm`", directory.display());
        return Err(CommandError::local(CommandCode::CollateralEmpty, what));
    }
    let good = files.iter().all(|file| file.verdict == GOOD);
    output.report(&CheckReport { directory: directory.display().to_string(), within_days, good, files })
}

/// What there is of something, and whether it holds.
type Thing = (Row, Result<(), Refusal>);

/// Everything that vendors published, with whether it holds at `now`. Whether a list is its TPMs' authority's is known when a chain leads
/// there: of it only the dates are checked.
fn things(directory: &Path, now: u64) -> Result<Vec<Thing>, CommandError> {
    let inventory = list(directory).map_err(|error| unusable(&error))?;
    let of_tpms = match inventory.tpm {
        Ok(lists) => {
            lists.dated().iter().map(|list| (Row::of(&list.file, Ok(What::of_tpms(list))), list.check(now))).collect()
        }
        // All of them are read together: the refusal names the file.
        Err(refusal) => vec![(Row::of("tpm", Err(&refusal)), Err(refusal))],
    };
    let of_amd = |inventory: SnpInventory| {
        let verdicts: Vec<_> = inventory.check(now).collect();
        let rows = inventory.entries().map(|(file, item)| Row::of(file, item.map(|item| What::of_amd(&item))));
        rows.zip(verdicts).collect::<Vec<_>>()
    };
    let of_intel = |inventory: TdxInventory| {
        let verdicts: Vec<_> = inventory.check(now).collect();
        let what = |item: TdxItem| What::of_intel(&item, inventory.is_superseded(&item));
        let rows = inventory.entries().map(|(file, item)| Row::of(file, item.map(what)));
        rows.zip(verdicts).collect::<Vec<_>>()
    };
    let parts = [inventory.snp.map(of_amd), inventory.tdx.map(of_intel), Some(of_tpms)];
    Ok(parts.into_iter().flatten().flatten().collect())
}

fn directory(arguments: &Arguments) -> Result<&Path, CommandError> {
    arguments.operand(0).map(Path::new).ok_or_else(|| CommandError::usage("DIR is missing"))
}

/// One certificate or list.
#[derive(Serialize)]
struct Row {
    /// Its name in the directory; several may be in one.
    file: String,
    #[serde(flatten)]
    what: Option<What>,
    /// Why it is nothing, or does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<Refusal>,
}

/// What it says of itself.
#[derive(Serialize)]
struct What {
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    product: Option<SnpProduct>,
    /// Of Intel's and of TPMs': of which authority or which platforms.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    /// `hwID`, hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    chip: Option<String>,
    /// `cspID`.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcb: Option<Tcb>,
    valid_from: String,
    valid_until: String,
    /// Whether it is a list in whose place a later one counts.
    superseded: bool,
}

/// Whose kind of thing.
#[derive(Clone, Copy, Serialize)]
#[serde(untagged)]
enum Kind {
    Amd(SnpKind),
    Intel(TdxKind),
    Tpm(TpmKind),
}

/// What there is of TPMs.
#[derive(Clone, Copy, Serialize)]
enum TpmKind {
    /// What an authority revoked.
    #[serde(rename = "CRL")]
    List,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Amd(kind) => kind.name(),
            Self::Intel(kind) => kind.name(),
            Self::Tpm(TpmKind::List) => SnpKind::Crl.name(),
        }
    }
}

impl Row {
    fn of(file: &str, what: Result<What, &Refusal>) -> Self {
        let name = Path::new(file).file_name().map_or_else(|| file.to_owned(), |name| name.display().to_string());
        let (what, refusal) = match what {
            Ok(what) => (Some(what), None),
            Err(refusal) => (None, Some(refusal.clone())),
        };
        Self { file: name, what, refusal }
    }

    /// File, kind and product.
    fn head(&self) -> [String; 3] {
        let or_dash = |text: Option<&str>| text.unwrap_or("-").to_owned();
        let kind = self.what.as_ref().map(|what| what.kind.name());
        let product = self.what.as_ref().map(|what| match what.kind {
            Kind::Tpm(_) => "TPM",
            Kind::Amd(_) | Kind::Intel(_) => what.product.map_or("TDX", SnpProduct::name),
        });
        [self.file.clone(), or_dash(kind), or_dash(product)]
    }

    fn until(&self) -> String {
        self.what.as_ref().map_or_else(|| "-".to_owned(), |what| what.valid_until.clone())
    }
}

impl What {
    fn of_intel(item: &TdxItem, superseded: bool) -> Self {
        Self {
            kind: Kind::Intel(item.kind),
            product: None,
            of: Some(item.of.to_string()),
            chip: None,
            provider: None,
            tcb: None,
            valid_from: format_rfc3339(item.validity.from),
            valid_until: format_rfc3339(item.validity.to),
            superseded,
        }
    }

    fn of_tpms(list: &TpmList) -> Self {
        Self {
            kind: Kind::Tpm(TpmKind::List),
            product: None,
            of: Some(list.of.clone()),
            chip: None,
            provider: None,
            tcb: None,
            valid_from: format_rfc3339(list.validity.from),
            valid_until: format_rfc3339(list.validity.to),
            superseded: false,
        }
    }

    fn of_amd(item: &SnpItem<'_>) -> Self {
        let (chip, provider) = match item.key.map(SnpCertificate::signer) {
            Some(Signer::Chip(chip)) => (Some(hex::encode(chip)), None),
            Some(Signer::Provider(provider)) => (None, Some(provider.clone())),
            None => (None, None),
        };
        Self {
            kind: Kind::Amd(item.kind),
            product: Some(item.product),
            of: None,
            chip,
            provider,
            tcb: item.key.map(SnpCertificate::tcb),
            valid_from: format_rfc3339(item.validity.from),
            valid_until: format_rfc3339(item.validity.to),
            superseded: item.superseded,
        }
    }

    /// Whose it is, as far as a line has room.
    fn owner(&self) -> String {
        match (&self.chip, &self.provider) {
            (Some(chip), _) if chip.len() > SHOWN => format!("{}…", chip.get(..SHOWN).unwrap_or_default()),
            (Some(chip), _) => chip.clone(),
            (None, Some(provider)) => provider.clone(),
            (None, None) => self.of.as_deref().map_or_else(|| "AMD".to_owned(), printable),
        }
    }
}

/// What there is.
#[derive(Serialize)]
struct ShowReport {
    directory: String,
    files: Vec<Row>,
}

impl Report for ShowReport {
    fn text(&self, style: Style) -> String {
        let mut table = Table::new(&["FILE", "WHAT", "PRODUCT", "OF", "FIRMWARE", "VALID FROM", "UNTIL"]);
        for row in &self.files {
            let rest = match &row.what {
                Some(what) => {
                    let firmware = what.tcb.map_or_else(|| "-".to_owned(), |tcb| tcb.to_string());
                    [what.owner(), firmware, what.valid_from.clone(), row.until()]
                }
                None => ["-", "-", "-", "-"].map(str::to_owned),
            };
            table.row(row.head().into_iter().chain(rest));
        }
        let mut text = format!("{table}");
        for refusal in self.files.iter().filter_map(|row| row.refusal.as_ref()) {
            let _ = writeln!(text, "{} {}", style.paint(Tone::Bad, "unreadable:"), printable(&refusal.to_string()));
        }
        text
    }

    fn exit(&self) -> Exit {
        if self.files.iter().all(|row| row.refusal.is_none()) { Exit::Done } else { Exit::Failed }
    }
}

/// Whether it holds.
#[derive(Serialize)]
struct CheckReport {
    directory: String,
    within_days: u32,
    good: bool,
    files: Vec<CheckRow>,
}

#[derive(Serialize)]
struct CheckRow {
    #[serde(flatten)]
    row: Row,
    /// `good`, or a reason code.
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'static str>,
}

impl Report for CheckReport {
    fn text(&self, style: Style) -> String {
        let mut table = Table::new(&["FILE", "WHAT", "PRODUCT", "VALID UNTIL", "VERDICT"]);
        for CheckRow { row, verdict, .. } in &self.files {
            let superseded = row.what.as_ref().is_some_and(|what| what.superseded);
            let verdict = if superseded { "good, and a later list counts" } else { verdict };
            table.row(row.head().into_iter().chain([row.until(), verdict.to_owned()]));
        }
        let mut text = format!("{table}");
        for CheckRow { row, verdict, fix } in &self.files {
            let Some(fix) = fix else { continue };
            let (tone, why) = match &row.refusal {
                Some(refusal) => (Tone::Bad, refusal.to_string()),
                None => (Tone::Warning, format!("{verdict}: until {} ({fix})", row.until())),
            };
            let _ = writeln!(text, "{} {}", style.paint(tone, &format!("{}:", printable(&row.file))), printable(&why));
        }
        text
    }

    fn exit(&self) -> Exit {
        if self.good { Exit::Done } else { Exit::Failed }
    }
}

const GOOD: &str = "good";
const DAY: u64 = 86_400;
/// What ends sooner is said, unless another number is asked for.
const WITHIN_DAYS: u32 = 30;
/// AMD's roots are made for 25 years.
const MAX_WITHIN_DAYS: u32 = 36_500;
/// So much of a chip's number tells it from others.
const SHOWN: usize = 16;
